# SPDX-License-Identifier: MIT
"""framelane ls and top, with real lanes, and top on a terminal of its own."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
import unittest

from lane_case import COMMAND, LIMIT, LaneCase

FULL_SCREEN = os.environ.get("FRAMELANE_FULL_SCREEN") == "1"
ANEW = "\x0c"  # Ctrl-L: else only what is new is printed
CAPS = "video/x-raw, format=(string)RGB, width=(int)640, height=(int)480, framerate=(fraction)30/1"


class LanesTest(LaneCase):
    def setUp(self):
        super().setUp()
        self.lanes = self.environment["FRAMELANE_DIR"]
        self.environment.update(LC_ALL="C.UTF-8", TERM="xterm-256color")
        self.environment.pop("NO_COLOR", None)

    def run_command(self, *arguments):
        return super().run_command(*arguments, text=True)

    def produce(self, *names, fps=200):
        return self.peer("produce", str(fps), CAPS, *names)


class Ls(LanesTest):
    def test_without_lanes(self):
        done = self.run_command("ls")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("no lanes in " + self.lanes, done.stdout)
        self.assertIn("TCP", done.stdout)
        self.assertEqual(json.loads(self.run_command("ls", "--json").stdout)["lanes"], [])

    def test_a_directory_that_is_not_there_has_no_lanes(self):
        self.environment["FRAMELANE_DIR"] = self.lanes + "/nowhere"
        self.assertEqual(self.run_command("ls").returncode, 0)

    def test_a_directory_of_control_characters_is_shown_without_them(self):
        lanes = os.path.join(self.directory, "\x1b]0;title\x07")
        os.mkdir(lanes, 0o700)
        for directory, mode in (lanes, 0o700), (lanes, 0o777), ("relative\x1b[2J", None):
            self.environment["FRAMELANE_DIR"] = directory
            if mode is not None:
                os.chmod(directory, mode)
            for arguments in (["ls"], ["ls", "cam0"], ["top", "--once", "--interval", "0.1"]):
                done = self.run_command(*arguments)
                text = (done.stdout + done.stderr).replace("\n", "")
                self.assertTrue(text.isprintable(), text)
                if text != "no lanes":
                    self.assertRegex(text, r"\\x1b", arguments)
        self.environment["FRAMELANE_DIR"] = self.path("s" * 100 + "\x1b")
        self.assertIn("\\x1b", self.run_command("ls", "cam0").stderr)

    def test_a_directory_of_others_is_a_failure(self):
        os.chmod(self.lanes, 0o777)
        done = self.run_command("ls")
        self.assertEqual(done.returncode, 1)
        self.assertIn("chmod 700", done.stderr)

    def test_lists_what_there_is(self):
        producer = self.produce("cam0", "cam1")
        self.peer("consume", "cam0")
        done = self.run_command("ls")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split(), ["LANE", "FORMAT", "PRODUCER", "CONSUMERS", "TRANSPORTS"])
        self.assertRegex(lines[1], rf"^cam0 +RGB 640x480 30/1 +lane_peer \({producer.pid}\) +1 +shm uds$")
        self.assertRegex(lines[2], rf"^cam1 +RGB 640x480 30/1 +lane_peer \({producer.pid}\) +0 +shm uds$")
        self.assertEqual(len(lines), 3)

    def test_numbers_in_names_count_as_numbers(self):
        self.produce("cam10", "cam9", "cam1", "cam")
        names = ["cam", "cam1", "cam9", "cam10"]
        self.assertEqual([line.split()[0] for line in self.run_command("ls").stdout.splitlines()[1:]], names)
        self.assertEqual([lane["name"] for lane in json.loads(self.run_command("ls", "--json").stdout)["lanes"]], names)

    def test_json_has_all_of_it(self):
        self.produce("cam0")
        consumer = self.peer("consume", "cam0")
        listed = json.loads(self.run_command("ls", "--json").stdout)
        self.assertEqual(listed["directory"], self.lanes)
        lane, = listed["lanes"]
        self.assertEqual((lane["name"], lane["state"], lane["caps"]), ("cam0", "live", CAPS))
        self.assertIsNone(lane["fps"])
        self.assertEqual([one["pid"] for one in lane["consumers"]], [consumer.pid])
        self.assertGreater(lane["consumers"][0]["latency"]["count"], 0)
        self.assertEqual(json.loads(self.run_command("ls", "cam0", "--json").stdout)["name"], "cam0")

    def test_one_lane_in_full(self):
        self.produce("cam0")
        self.peer("consume", "cam0")
        done = self.run_command("ls", "cam0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for words in ("cam0", "RGB 640x480", "lane.shm://" + self.lanes, "burst 8", "CONSUMER", "lane_peer",
                      "every"):
            self.assertIn(words, done.stdout)

    def test_a_lane_that_is_not_there_fails(self):
        done = self.run_command("ls", "cam0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no producer has created it", done.stderr)
        done = self.run_command("ls", "lane.tcp://127.0.0.1:7411/cam0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("control socket", done.stderr)
        done = self.run_command("ls", "not a lane")
        self.assertEqual(done.returncode, 1)

    def test_stale_stopped_lying_and_foreign_lanes_are_shown_beside_the_others(self):
        dead = self.produce("dead")
        dead.kill()
        dead.wait(timeout=LIMIT)
        stopped = self.produce("stopped")
        self.stop(stopped)
        self.peer("lie", self.lanes + "/liar")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as foreign:
            foreign.bind(self.lanes + "/other")
            foreign.listen()
            self.produce("good")
            done = self.run_command("ls")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = {line.split()[0]: line for line in done.stdout.splitlines()}
            self.assertIn("stale: its producer is gone", lines["dead"])
            self.assertIn("does not answer", lines["stopped"])
            self.assertIn("magic", lines["liar"])
            self.assertIn("another program's socket", lines["other"])
            self.assertIn("RGB", lines["good"])
            self.assertNotIn("\x1b", done.stdout)
            states = {lane["name"]: lane["state"]
                      for lane in json.loads(self.run_command("ls", "--json").stdout)["lanes"]}
            self.assertEqual(states, {"dead": "stale", "stopped": "silent", "liar": "refused", "other": "refused",
                                      "good": "live"})
            self.assertEqual(self.run_command("ls", "stopped").returncode, 1)
            self.assertIn("does not answer", self.run_command("ls", "stopped").stderr)


class TopLines(LanesTest):
    def test_without_a_terminal_it_says_what_to_use(self):
        done = self.run_command("top")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--once", done.stderr)

    def test_wrong_usage(self):
        for arguments in (["--interval", "0"], ["--interval", "often"], ["--sort", "beauty"], ["surplus"]):
            self.assertEqual(self.run_command("top", *arguments).returncode, 2, arguments)

    def test_once_without_lanes(self):
        done = self.run_command("top", "--once", "--interval", "0.1")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "no lanes\n", ""))

    def test_once_shows_rates_and_consumers(self):
        self.produce("cam0", "cam1")
        self.peer("consume", "cam1")
        done = self.run_command("top", "--once", "--interval", "0.3", "--sort", "consumers")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0].split()[:3], ["LANE", "FPS", "MB/s"])
        self.assertEqual([lines[1].split()[0], lines[2].split()[0]], ["cam1", "cam0"])
        self.assertGreater(float(lines[1].split()[1]), 0)
        self.assertIn("lane cam1", lines)
        self.assertTrue(any(line.startswith("lane_peer") for line in lines))

    def test_once_in_a_plain_locale_is_ascii(self):
        self.environment["LC_ALL"] = "C"
        self.produce("cam0")
        self.assertTrue(self.run_command("top", "--once", "--interval", "0.1").stdout.isascii())

    def test_json_is_one_object_a_line_until_it_is_interrupted(self):
        producer = self.produce("cam0")
        process = subprocess.Popen([COMMAND, "top", "--json", "--interval", "0.1"], env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        self.assertGreater(looks[1]["lanes"][0]["published"], looks[0]["lanes"][0]["published"])
        self.assertGreater(looks[1]["lanes"][0]["fps"], 0)
        producer.kill()
        producer.wait(timeout=LIMIT)
        deadline = time.monotonic() + LIMIT
        while json.loads(process.stdout.readline())["lanes"][0]["state"] != "stale":
            self.assertLess(time.monotonic(), deadline)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=LIMIT), 130)

    def test_a_stopped_producer_holds_nobody_up(self):
        self.stop(self.produce("stopped"))
        self.produce("good")
        done = self.run_command("top", "--once", "--json", "--interval", "0.2")
        self.assertEqual(done.returncode, 0)
        lanes = {lane["name"]: lane for lane in json.loads(done.stdout)["lanes"]}
        self.assertEqual(lanes["stopped"]["state"], "silent")
        self.assertGreater(lanes["good"]["fps"], 0)


class Terminal:
    """top on a terminal of its own; understands as much of what it prints as the tests need."""

    def __init__(self, environment, rows, columns, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(COMMAND, [COMMAND, "top", "--interval", "0.1", *arguments], environment)
        self.resize(rows, columns)
        self.output = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.output += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]", "\n",
                              data.decode(errors="replace"))
        return bool(data)

    def wait_for(self, words):
        """Reads until they were printed since the last call."""
        deadline = time.monotonic() + LIMIT
        while words not in self.output:
            if time.monotonic() > deadline or not self.read(1):
                raise AssertionError(f"{words!r} never came: {self.output!r}")
        self.output = ""

    def exit_code(self):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self.pid = None
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("it doesn't end")

    def close(self):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@unittest.skipUnless(FULL_SCREEN, "built without ncurses")
class TopScreen(LanesTest):
    def top(self, *arguments, rows=24, columns=80):
        terminal = Terminal(self.environment, rows, columns, *arguments)
        self.addCleanup(terminal.close)
        return terminal

    def test_quits(self):
        top = self.top()
        top.wait_for("No lanes here")
        top.press("q")
        self.assertEqual(top.exit_code(), 0)

    def test_ctrl_c_and_signals_interrupt(self):
        for how in (lambda top: top.press("\x03"), lambda top: os.kill(top.pid, signal.SIGTERM)):
            top = self.top()
            top.wait_for("No lanes here")
            how(top)
            self.assertEqual(top.exit_code(), 130)

    def test_lanes_come_and_die(self):
        top = self.top()
        top.wait_for("No lanes here")
        producer = self.produce("cam0")
        top.wait_for("cam0")
        producer.kill()
        producer.wait(timeout=LIMIT)
        top.wait_for("its producer is gone")
        self.produce("cam0")
        top.wait_for("0/8")
        top.press("q")
        self.assertEqual(top.exit_code(), 0)

    def test_drills_down_and_back(self):
        self.produce("cam0", "cam1")
        self.peer("consume", "cam1")
        top = self.top()
        top.wait_for("cam1")
        top.press("\x1bOB\r" + ANEW)
        top.wait_for("CONSUMER")
        top.press("\x7f" + ANEW)
        top.wait_for("LANE")
        top.press("h" + ANEW)
        top.wait_for("the lanes of this user")
        top.press("hf" + ANEW)
        top.wait_for("by fps")
        top.press("q")
        self.assertEqual(top.exit_code(), 0)

    def test_resizes(self):
        self.produce("cam0")
        top = self.top()
        top.wait_for("cam0")
        top.resize(50, 200)
        top.wait_for("PRODUCER")
        top.resize(5, 30)
        top.wait_for("too small")
        top.resize(24, 80)
        top.wait_for("cam0")
        top.press("q")
        self.assertEqual(top.exit_code(), 0)

    def test_forty_lanes(self):
        self.produce(*[f"lane{i:02}" for i in range(40)], fps=20)
        top = self.top()
        top.wait_for("of 40")
        top.press("\x1bOF" + ANEW)
        top.wait_for("lane39")
        top.press("q")
        self.assertEqual(top.exit_code(), 0)

    def test_a_stopped_producer_keeps_no_key_waiting(self):
        self.stop(self.produce("stopped"))
        top = self.top()
        top.wait_for("does not answer")
        top.press("q")
        self.assertEqual(top.exit_code(), 0)

    def test_a_terminal_that_knows_nothing_is_said(self):
        self.environment["TERM"] = "no-such-terminal"
        top = self.top()
        top.wait_for("--once")
        self.assertEqual(top.exit_code(), 1)

    def test_a_terminal_that_cannot_move_its_cursor_is_said(self):
        self.environment["TERM"] = "dumb"
        top = self.top()
        top.wait_for("--once")
        self.assertEqual(top.exit_code(), 1)

    def test_a_terminal_that_goes_away_ends_it(self):
        top = self.top()
        top.wait_for("No lanes here")
        os.close(top.fd)
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            pid, status = os.waitpid(top.pid, os.WNOHANG)
            if pid != 0:
                break
            time.sleep(0.02)
        top.fd = os.open("/dev/null", os.O_RDONLY)
        self.assertNotEqual(pid, 0, "it doesn't end")
        top.pid = None
        # Its signal may come when all is done.
        self.assertIn(os.waitstatus_to_exitcode(status), (130, -signal.SIGHUP))


if __name__ == "__main__":
    unittest.main()
