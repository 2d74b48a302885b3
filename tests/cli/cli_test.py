# SPDX-License-Identifier: MIT
"""The framelane command, as a user and a script see it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

COMMAND = os.environ["FRAMELANE_COMMAND"]
LIMIT = 60  # seconds until a hung command is killed; no test expects a duration


# Set where the elements were built (and can be loaded: not with sanitizers).
HAVE_PLUGIN = "FRAMELANE_PLUGIN" in os.environ


class CommandTest(unittest.TestCase):
    def setUp(self):
        # Whatever the command leaves behind is found here.
        self.directory = tempfile.mkdtemp(prefix="fl", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, TMPDIR=self.directory, FRAMELANE_DIR=self.directory)

    def run_command(self, *arguments):
        return subprocess.run([COMMAND, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=LIMIT, stdin=subprocess.DEVNULL)

    def start_command(self, *arguments):
        process = subprocess.Popen([COMMAND, *arguments], env=self.environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT)

    def children_of(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]

    def wait_for_children(self, process, count):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            self.assertIsNone(process.poll(), "ended early")
            children = self.children_of(process.pid)
            if len(children) >= count:
                return children
            time.sleep(0.01)
        self.fail(f"never had {count} children")

    def runs(self, pid):
        # Nobody may have reaped an orphan yet.
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def assert_gone(self, pids):
        # The command has reaped them before it ended, so there is nothing to wait for.
        for pid in pids:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), f"{pid} is still there")


class Usage(CommandTest):
    def test_help_of_each_command_shows_examples(self):
        for arguments in ([], ["bench"], ["bench", "rtt"], ["bench", "take"], ["bench", "rpc"],
                          ["bench", "transports"], ["bench", "gst"], ["demo"], ["ls"], ["top"]):
            done = self.run_command(*arguments, "--help")
            self.assertEqual(done.returncode, 0, arguments)
            self.assertIn("Example", done.stdout, arguments)
            self.assertIn("framelane " + " ".join(arguments), done.stdout)

    def test_help_documents_the_exit_codes(self):
        self.assertIn("Exit codes: 0", self.run_command("--help").stdout)

    def test_help_hides_what_only_the_demo_uses(self):
        self.assertNotIn("demo-consumer", self.run_command("--help").stdout)

    def test_version_is_one_line(self):
        done = self.run_command("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Aframelane \d+\.\d+\.\d+\n\Z")

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([COMMAND, "--version"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("No space left on device", done.stderr)

    def test_wrong_usage_ends_with_2_and_a_sentence(self):
        for arguments in ([], ["frobnicate"], ["bench"], ["bench", "rtt", "--nonsense"],
                          ["bench", "rtt", "--size", "0"],
                          ["bench", "rtt", "--samples", "many"], ["bench", "rtt", "--spin", "wildly"],
                          ["bench", "rtt", "--cpus", "0"], ["bench", "rtt", "--cpus", "0,0"],
                          ["bench", "take", "--sizes", "-1"], ["bench", "gst", "--fps", "0"],
                          ["bench", "rpc", "--size", "0"], ["bench", "rpc", "--transport", "pigeon"],
                          ["bench", "rpc", "--in-flight", "257"], ["bench", "transports", "--sizes", "0"],
                          ["bench", "transports", "--touch", "nothing"],
                          ["bench", "gst", "--fps", "fast"], ["bench", "gst", "--frames", "1"], ["demo", "surplus"]):
            done = self.run_command(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertTrue(done.stderr.strip(), arguments)
            self.assertEqual(done.stdout, "", arguments)

    def test_a_word_that_nobody_knows_is_named(self):
        for arguments in ["frobnicate"], ["bench", "frobnicate"], ["--frobnicate", "ls"], ["recv", "--frobnicate"]:
            self.assertIn("frobnicate", self.run_command(*arguments).stderr, arguments)

    def test_a_wrong_choice_is_told_the_words_and_no_numbers(self):
        for arguments in (["top", "--sort"], ["bench", "rtt", "--spin"], ["bench", "rtt", "--stamps"],
                          ["bench", "rtt", "--touch"], ["bench", "transports", "--touch"],
                          ["bench", "rpc", "--transport"]):
            for word in "beauty", "1":
                done = self.run_command(*arguments, word)
                self.assertEqual(done.returncode, 2, arguments)
                self.assertRegex(done.stderr, rf"\A{arguments[-1]}: {word} not in {{[a-z,]+}}\n")


def usable_cpus():
    return len(os.sched_getaffinity(0))


class Bench(CommandTest):
    def assert_summary(self, summary, count):
        self.assertEqual(summary["count"], count)
        values = [summary[name] for name in
                  ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")]
        self.assertEqual(values, sorted(values))
        self.assertGreater(values[0], 0)

    def run_json(self, *arguments):
        done = self.run_command(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.directory), [], "left something behind")
        return json.loads(done.stdout)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_rtt_compares_the_lane_with_the_bare_limit(self):
        result = self.run_json("bench", "rtt", "--samples", "500", "--rounds", "3", "--size", "32")
        for side in "floor", "lane":
            self.assert_summary(result[side], 1500)
        self.assertAlmostEqual(result["ratio_p50"], result["lane"]["p50_ns"] / result["floor"]["p50_ns"])
        rounds = result["ratio_p50_rounds"]
        self.assertEqual(len(rounds["all"]), 3)
        self.assertEqual(rounds["median"], sorted(rounds["all"])[1])
        self.assertEqual(result["size"], 32)
        self.assertEqual(len(set(result["cpus"])), 2)
        self.assertTrue(result["pinned"])
        self.assertNotIn("unpinned", result)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_rtt_that_nobody_observed_is_no_result(self):
        done = self.run_command("bench", "rtt", "--observed", "--samples", "1", "--rounds", "1", "--json")
        if done.returncode == 0:  # quick enough, for once
            self.assertGreater(json.loads(done.stdout)["observed"]["looks"], 0)
        else:
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("--samples", done.stderr)
        result = self.run_json("bench", "rtt", "--observed", "--samples", "50000", "--rounds", "1")
        self.assertGreater(result["observed"]["looks"], 0)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_rtt_takes_every_way_of_waiting_and_large_frames(self):
        for arguments in (["--spin", "adaptive"], ["--spin", "off", "--stamps", "on"], ["--size", "1"],
                          ["--size", "3110400", "--touch", "all"]):
            result = self.run_json("bench", "rtt", "--samples", "50", "--rounds", "1", *arguments)
            self.assert_summary(result["lane"], 50)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_rtt_tells_the_unpinned_figures_apart(self):
        result = self.run_json("bench", "rtt", "--samples", "200", "--rounds", "1", "--unpinned")
        self.assert_summary(result["unpinned"]["lane"], 200)
        self.assertGreater(result["unpinned"]["ratio_p50"], 0)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_take_reports_each_size_against_the_first(self):
        result = self.run_json("bench", "take", "--sizes", "32,65536", "--samples", "200", "--rounds", "2")
        self.assertEqual([one["size"] for one in result["sizes"]], [32, 65536])
        for one in result["sizes"]:
            self.assert_summary(one["one_way"], 400)
            self.assert_summary(one["take"], 400)
        self.assertEqual(result["sizes"][0]["ratio_take_p50_to_first"], 1)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_rpc_compares_requests_with_bare_sockets(self):
        for size, transport, lanes in ("1", "shm", ["shm"]), ("512", "all", ["shm", "uds", "tcp"]), (
                "65536", "uds", ["uds"]):
            result = self.run_json("bench", "rpc", "--size", size, "--seconds", "0.8", "--rounds", "2", "--transport",
                                   transport, "--in-flight", "8")
            self.assertEqual((result["size"], result["in_flight"]), (int(size), 8))
            self.assertEqual(list(result["lanes"]), lanes)
            for way in *result["lanes"].values(), *result["floor"].values():
                self.assertGreater(way["one_by_one"]["count"], 0)
                self.assert_summary(way["one_by_one"], way["one_by_one"]["count"])
                rates = way["requests_per_second"]
                self.assertEqual(rates["median"], min(rates["all"]))
                self.assertGreater(rates["min"], 0)
            for lane in result["lanes"].values():
                for name, way in result["floor"].items():
                    self.assertEqual(len(lane["ratio_p50_to_" + name]["all"]), 2)
                    self.assertAlmostEqual(lane["ratio_requests_to_" + name]["all"][0],
                                           lane["requests_per_second"]["all"][0] / way["requests_per_second"]["all"][0])

    def use_cache(self):
        cache = tempfile.mkdtemp(prefix="fl-cache", dir="/tmp")
        self.addCleanup(shutil.rmtree, cache)
        self.environment["XDG_CACHE_HOME"] = cache
        return cache

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_transports_compares_lanes_with_bare_sockets_and_keeps_a_profile(self):
        cache = self.use_cache()
        result = self.run_json("bench", "transports", "--sizes", "300000,64", "--seconds", "0.4", "--rounds", "2")
        ways = ["shm", "uds", "tcp", "bare_uds", "bare_tcp"]
        self.assertEqual([size["size"] for size in result["sizes"]], [64, 300000])
        for size in result["sizes"]:
            for way in ways:
                self.assert_summary(size[way]["round_trip"], size[way]["round_trip"]["count"])
                self.assertGreaterEqual(size[way]["round_trip"]["count"], 2)
                self.assertGreater(size[way]["frames_per_second"]["min"], 0)
                self.assertEqual(len(size[way]["frames_per_second"]["all"]), 2)
            for way in "uds", "tcp":
                self.assertEqual(len(size[way]["ratio_to_bare"]["round_trip_p50"]["all"]), 2)
                self.assertGreater(size[way]["ratio_to_bare"]["frames_per_second"]["min"], 0)
        for way in "shm", "uds", "tcp":
            self.assert_summary(result["connecting"][way], 2)
        self.assertEqual(len(result["crossovers"]), 6)
        for crossover in result["crossovers"]:
            self.assertEqual(crossover["faster"][0]["from_size"], 64)
            self.assertLessEqual({change["faster"] for change in crossover["faster"]}, set(crossover["between"]))

        folder = os.path.join(cache, "framelane")
        self.assertEqual(sorted(os.listdir(folder)), ["transports.json", "transports.profile"])
        self.assertEqual(result["profile"], os.path.join(folder, "transports.json"))
        with open(result["profile"], encoding="utf-8") as file:
            profile = json.load(file)
        self.assertEqual(profile["host"], os.uname().nodename)
        self.assertRegex(profile["date"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        for kept, measured in zip(profile["sizes"], result["sizes"]):
            self.assertEqual(kept["size"], measured["size"])
            for way in "shm", "uds", "tcp":
                self.assertEqual(kept[way]["round_trip_p50_ns"], measured[way]["round_trip"]["p50_ns"])
                self.assertEqual(kept[way]["frames_per_second"], measured[way]["frames_per_second"]["median"])
        with open(os.path.join(folder, "transports.profile"), encoding="utf-8") as file:
            line = file.read()
        self.assertEqual(line, f"framelane-transports 1 {os.uname().nodename} {profile['streams']}\n")
        self.assertIn(profile["streams"], ("uds tcp", "tcp uds"))

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_transports_tells_when_its_profile_cannot_be_kept(self):
        cache = self.use_cache()
        short = ("bench", "transports", "--sizes", "64", "--seconds", "0.1", "--rounds", "1")
        done = self.run_command(*short, "--no-profile")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)
        self.assertEqual(os.listdir(cache), [])
        with open(os.path.join(cache, "framelane"), "w", encoding="ascii"):
            pass
        done = self.run_command(*short)
        self.assertEqual(done.returncode, 1)
        self.assertIn("one way", done.stdout)
        self.assertIn("set XDG_CACHE_HOME", done.stderr)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_text_output_fits_80_columns(self):
        done = self.run_command("bench", "rtt", "--samples", "200", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ratio of the medians", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_dead_peer_ends_the_bench_with_a_sentence(self):
        process = self.start_command("bench", "rtt", "--rounds", "100", "--spin", "off")
        children = self.wait_for_children(process, 2)
        os.kill(children[1], signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"(pid {children[1]}) was killed by signal 9", errors)
        self.assert_gone(children)
        self.assertEqual(os.listdir(self.directory), [])

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_interrupt_reaps_the_children(self):
        process = self.start_command("bench", "rtt", "--rounds", "100", "--spin", "off")
        children = self.wait_for_children(process, 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 130)
        self.assert_gone(children)
        self.assertEqual(os.listdir(self.directory), [])

    @unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
    def test_children_die_with_a_parent_that_is_killed(self):
        process = self.start_command("bench", "rtt", "--rounds", "100", "--spin", "off")
        children = self.wait_for_children(process, 2)
        process.kill()
        process.communicate(timeout=LIMIT)
        deadline = time.monotonic() + LIMIT
        while any(self.runs(child) for child in children):
            self.assertLess(time.monotonic(), deadline, "a child outlived its parent")
            time.sleep(0.01)

    def test_one_cpu_is_refused_with_a_sentence(self):
        cpu = min(os.sched_getaffinity(0))
        done = subprocess.run([COMMAND, "bench", "rtt"], env=self.environment, capture_output=True, text=True,
                              timeout=LIMIT, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        self.assertEqual(done.returncode, 1)
        self.assertIn("two CPUs", done.stderr)


def have_shmsink():
    """GStreamer's own elements, which `bench gst` compares with."""
    try:
        return subprocess.run(["gst-inspect-1.0", "--exists", "shmsink"], timeout=LIMIT, check=False).returncode == 0
    except OSError:
        return False


@unittest.skipUnless(HAVE_PLUGIN and have_shmsink(), "needs the elements, and gstreamer1.0-plugins-bad")
@unittest.skipIf(usable_cpus() < 2, "needs two CPUs")
class BenchGst(CommandTest):
    WAYS = ("lane", "shm", "shm_copy", "floor")
    SMALL = ("--caps", "video/x-raw,format=GRAY8,width=64,height=64", "--rounds", "1")

    def run_gst(self, *arguments):
        done = self.run_command("bench", "gst", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.directory), [], "left something behind")
        return json.loads(done.stdout)

    def assert_figures(self, figures, frames):
        self.assertEqual(figures["frames"], frames)
        self.assertEqual((figures["lost"], figures["hung"]), (0, False))
        self.assertGreater(figures["p50_us"], 0)
        self.assertGreaterEqual(figures["p99_us"], figures["p50_us"])
        self.assertGreater(figures["fps"], 0)
        self.assertGreater(figures["cpu_us_per_frame"], 0)

    def test_paced_frames_come_at_their_rate_over_each_way(self):
        result = self.run_gst(*self.SMALL, "--fps", "100", "--frames", "40")
        for way in self.WAYS:
            with self.subTest(way):
                self.assert_figures(result[way], 40)
                # Later frames catch up with late ones, but none comes before it is due.
                self.assertLess(result[way]["fps"], 200)
        self.assertEqual(result["lane"]["in_place"], 40 + result["warm_up"])
        for name, figure in (("latency", "p50_us"), ("fps", "fps"), ("cpu", "cpu_us_per_frame")):
            self.assertAlmostEqual(result["ratio_" + name], result["lane"][figure] / result["shm"][figure])
        self.assertEqual((result["frame_bytes"], result["wanted_fps"], result["pinned"]), (4096, 100, True))
        self.assertGreaterEqual(result["shm_size"], 4 * 4096)

    def test_full_speed_at_unbound_processes(self):
        result = self.run_gst(*self.SMALL, "--fps", "max", "--frames", "300", "--shm-size", "1", "--unpinned")
        self.assert_figures(result["lane"], 300)
        self.assert_figures(result["floor"], 300)
        self.assertFalse(result["pinned"])
        self.assertIsNone(result["wanted_fps"])
        self.assertGreaterEqual(result["shm_size"], 4 * 4096, "shmsink gets room for four buffers at least")

    def test_audio_has_1024_samples_a_buffer(self):
        result = self.run_gst("--caps", "audio/x-raw,format=S16LE,layout=interleaved,rate=48000,channels=2", "--rounds",
                              "1", "--frames", "20", "--fps", "200")
        self.assertEqual(result["frame_bytes"], 4096)
        self.assert_figures(result["lane"], 20)

    def test_hung_peer_is_a_result_and_no_hang(self):
        # As shmsink's deadlock: both processes live, and no frame comes any more.
        process = self.start_command("bench", "gst", "--json", *self.SMALL, "--fps", "50", "--frames", "100",
                                     "--hang-after", "2")
        socket = None
        while socket is None:
            self.assertIsNone(process.poll(), "ended early")
            found = [os.path.join(path, "shm") for path, _, names in os.walk(self.directory) if "shm" in names]
            socket = found[0] if found else None
            time.sleep(0.01)
        for child in self.wait_for_children(process, 2):
            os.kill(child, signal.SIGSTOP)
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        result = json.loads(output)
        self.assertEqual((result["shm"]["hung"], result["shm"]["hung_rounds"]), (True, 1))
        self.assertLess(result["shm"]["frames"], 100)
        self.assert_figures(result["lane"], 100)
        self.assertIsNone(result["shm"]["cpu_us_per_frame"])
        self.assertIsNone(result["ratio_cpu"])

    def test_caps_that_are_none_fail_with_a_sentence(self):
        for caps in "nonsense/", "video/x-h264", "video/x-raw,format=GRAY8,width=1,height=1":
            done = self.run_command("bench", "gst", "--caps", caps)
            self.assertEqual((done.returncode, done.stdout), (1, ""), caps)
            self.assertIn("caps", done.stderr)

    def test_text_output_fits_80_columns(self):
        done = self.run_command("bench", "gst", *self.SMALL, "--fps", "200", "--frames", "20")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("lane against shmsink", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80)

    def test_interrupt_reaps_the_children(self):
        process = self.start_command("bench", "gst", *self.SMALL, "--fps", "10", "--frames", "1000")
        children = self.wait_for_children(process, 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 130)
        self.assert_gone(children)
        self.assertEqual(os.listdir(self.directory), [])


class Demo(CommandTest):
    @unittest.skipUnless(HAVE_PLUGIN, "needs the elements")
    def test_survivor_loses_nothing_when_the_other_is_killed(self):
        done = self.run_command("demo", "--seconds", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"survivor took \d+ frames, \d+ of them after the kill, and lost 0")
        self.assertIn("3 of the 3 slots", done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["lost"], result["slots_in_use_again"], result["exit_code"]), (0, 3, 0))
        self.assertEqual(os.listdir(self.directory), [], "left something behind")

    @unittest.skipUnless(HAVE_PLUGIN, "needs the elements")
    def test_interrupt_ends_all_of_it(self):
        process = self.start_command("demo")
        children = self.wait_for_children(process, 3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 130)
        self.assert_gone(children)
        self.assertEqual(os.listdir(self.directory), [])

    @unittest.skipUnless(HAVE_PLUGIN, "needs the elements")
    def test_survivor_that_dies_too_fails_the_demo(self):
        process = self.start_command("demo", "--seconds", "3")
        children = self.wait_for_children(process, 3)
        os.kill(children[0], signal.SIGKILL)  # started first: the one that is to survive
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 1)
        self.assertIn("steady was killed by signal 9", errors)
        self.assert_gone(children)

    def test_producer_that_fails_is_quoted(self):
        # A stranger under the name of gst-launch-1.0 that says why it can't work.
        program = os.path.join(self.directory, "gst-launch-1.0")
        with open(program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho 'WARNING: no element \"lanesink\"' >&2\nexit 1\n")
        os.chmod(program, 0o700)
        self.environment["PATH"] = self.directory + ":" + self.environment["PATH"]
        done = self.run_command("demo")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exited with code 1", done.stderr)
        self.assertIn("quickstart shell", done.stderr)

    def test_missing_gst_launch_is_a_sentence(self):
        self.environment["PATH"] = self.directory
        done = self.run_command("demo")
        self.assertEqual(done.returncode, 1)
        self.assertIn("gstreamer1.0-tools", done.stderr)


if __name__ == "__main__":
    unittest.main()
