# SPDX-License-Identifier: MIT
"""`framelane send` and `recv`: files into a lane and out of it, over each transport, and what can go wrong."""

import json
import os
import resource
import signal
import struct
import subprocess
import time
import unittest

from lane_case import LIMIT, LaneCase, npy, npy_content, wav, y4m


class RoundTrip(LaneCase):
    def pass_through(self, content, name, output, send=(), recv=(), lane="cam0"):
        """A file through a lane; what recv wrote, and both summaries."""
        source = self.write(name, content)
        sender = self.start("send", lane, source, "--json", *send)
        receiver = self.start("recv", lane, self.path(output), "--json", *recv)
        got = json.loads(self.finish(receiver)[0])
        sent = json.loads(self.finish(sender)[0])
        self.assertEqual((sent["frames"], sent["dropped"], sent["end"]), (got["frames"], 0, "end-of-file"))
        self.assertEqual((got["skipped"], got["end"]), (0, "end-of-stream"))
        self.assertEqual(sent["bytes"], got["bytes"])
        self.assertEqual(sent["caps"], got["caps"])
        return self.read(output), sent, got

    def test_y4m_of_each_sampling_comes_back_byte_for_byte(self):
        for header, planes in ((b"F30000:1001 Ip A4:3 C420", None), (b"F25:1 Ip A0:0 C422", 30 + 2 * 15),
                               (b"F25:1 Ib A0:0 C444", 90), (b"F25:1 Ip A0:0 C411", 30 + 2 * 10),
                               (b"F0:0 Ip A0:0 Cmono", 30), (b"F25:1 It A0:0 C420p10", 2 * 48)):
            with self.subTest(header):
                content = y4m(header=header, planes=planes)
                self.assertEqual(self.pass_through(content, "a.y4m", "b.y4m")[0], content)

    def test_wav_of_each_coding_comes_back_byte_for_byte(self):
        for tag, bits, channels in ((1, 8, 1), (1, 16, 2), (1, 24, 2), (1, 32, 1), (3, 32, 2), (3, 64, 1)):
            with self.subTest((tag, bits, channels)):
                content = wav(tag, channels, bits, samples=2502)
                got, sent, _ = self.pass_through(content, "a.wav", "b.wav", send=("--block", "480"))
                self.assertEqual(got, content)
                self.assertEqual(sent["frames"], 6)

    def test_npy_of_each_type_comes_back_with_its_shape(self):
        for descr, size in (("|u1", 1), ("<i2", 2), ("<f2", 2), ("<f4", 4), ("<f8", 8), ("<u8", 8)):
            with self.subTest(descr):
                content = npy(descr, size=size)
                got, sent, _ = self.pass_through(content, "a.npy", "b.npy", send=("--fps", "100"))
                self.assertEqual(npy_content(got), npy_content(content))
                self.assertEqual(sent["frames"], 6)
                self.assertIn(b"'descr': '" + descr.encode() + b"'", got)

    def test_whole_array_is_one_frame(self):
        content = npy(shape=(3, 4))
        _, sent, _ = self.pass_through(content, "a.npy", "b.npy", send=("--whole",))
        self.assertEqual((sent["frames"], sent["bytes"]), (1, 48))
        self.assertEqual(npy_content(self.read("b.npy"))[0], "(1, 3, 4)")

    def test_raw_frames_by_caps_and_by_size(self):
        content = bytes(range(240)) * 4
        caps = "video/x-raw,format=RGB,width=4,height=4,framerate=30/1"
        self.assertEqual(self.pass_through(content, "a.bin", "b.bin", send=("--caps", caps))[0], content)
        self.assertEqual(self.pass_through(content, "a.bin", "b.bin", send=("--frame-size", "96"))[0], content)

    def test_streams_carry_the_same_bytes(self):
        content = y4m(64, 48, 30)
        for lane in "lane.uds://%s/cam0" % self.environment["FRAMELANE_DIR"], "lane.tcp://127.0.0.1:%d/cam0":
            with self.subTest(lane):
                if "%d" in lane:
                    lane = lane % free_port()
                got, _, summary = self.pass_through(content, "a.y4m", "b.y4m", lane=lane,
                                                    recv=("--transport", lane[5:8]))
                self.assertEqual(got, content)
                self.assertEqual(summary["transport"], lane[5:8])

    def test_pipes_at_both_ends(self):
        content = y4m(64, 48, 20)
        receiver = self.start("recv", "cam0", "--format", "y4m")
        sent = self.run_command("send", "cam0", "-", input=content, stdin=None)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        output, errors = self.finish(receiver)
        self.assertEqual(output, content)
        self.assertIn("20 frames", errors)
        self.assertNotIn("\r", errors, "a progress line where there is no terminal")

    def test_split_writes_a_file_for_each_frame(self):
        sender = self.start("send", "feat", self.write("a.npy", npy()))
        self.finish(self.start("recv", "feat", self.path("f-%03d.npy"), "--split"))
        self.finish(sender)
        self.assertEqual(sorted(name for name in os.listdir(self.directory) if name.startswith("f-")),
                         [f"f-{i:03}.npy" for i in range(6)])
        self.assertEqual(npy_content(self.read("f-001.npy")), ("(3, 4)", npy_content(npy())[1][48:96]))

    def test_frames_end_it_and_loop_never_does(self):
        sender = self.start("send", "cam0", self.write("a.y4m", y4m()), "--loop", "--realtime", "--fps", "200")
        self.finish(self.start("recv", "cam0", self.path("b.y4m"), "--frames", "10"))
        content = y4m(header=b"F200:1 Ip A0:0 C420")
        frames = content.split(b"FRAME\n")[1:]
        self.assertEqual(self.read("b.y4m").split(b"FRAME\n")[1:], [frames[i % 4] for i in range(10)])
        self.interrupt(sender)
        self.finish(sender, 130)

    def test_npy_to_a_pipe_needs_the_number_of_frames(self):
        source = self.write("a.npy", npy())
        sender = self.start("send", "feat", source)
        _, errors = self.finish(self.start("recv", "feat", "--format", "npy"), 1)
        self.assertIn("--frames", errors)
        self.finish(sender)
        sender = self.start("send", "feat", source)
        output, _ = self.finish(self.start("recv", "feat", "--format", "npy", "--frames", "6"))
        self.assertEqual(npy_content(output), npy_content(npy()))
        self.finish(sender)

    def test_latest_skips_and_counts(self):
        source = self.write("a.y4m", y4m(64, 48, 200))
        sender = self.start("send", "cam0", source, "--realtime", "--fps", "100", "--json")
        receiver = self.start("recv", "cam0", self.path("b.raw"), "--mode", "latest", "--json")
        self.wait_until(lambda: os.path.exists(self.path("b.raw")), receiver)
        self.stop(receiver)
        time.sleep(0.5)  # 50 frames go
        receiver.send_signal(signal.SIGCONT)
        got = json.loads(self.finish(receiver)[0])
        self.assertEqual(got["frames"] + got["skipped"], 200)
        self.assertGreater(got["skipped"], 0)
        self.finish(sender)


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class BadInput(LaneCase):
    def send(self, content, name, *arguments):
        """What a consumer gets of a file that is damaged, and what send says."""
        receiver = self.start("recv", "cam0", self.path("out.raw"), "--json")
        done = self.run_command("send", "cam0", self.write(name, content), *arguments)
        summary = json.loads(self.finish(receiver)[0])
        return done.returncode, done.stderr.decode(), summary["frames"]

    def test_truncated_files_send_their_whole_frames_and_say_what_is_missing(self):
        for content, name, frames, sentence in (
                (y4m()[:-7], "a.y4m", 3, "in frame 3: 7 of its 48 bytes are missing"),
                (wav(samples=3000)[:44 + 8193], "a.wav", 2, "ends at byte 8237"),
                (npy()[:-1], "a.npy", 5, "in frame 5 of 6: 1 of its 48 bytes are missing")):
            with self.subTest(name):
                code, errors, came = self.send(content, name)
                self.assertEqual((code, came), (3, frames), errors)
                self.assertIn(sentence, errors)
                self.assertEqual(errors.count("\n"), 2, "one sentence and the summary")

    def test_hostile_headers_are_refused_before_a_lane_is_made(self):
        for name, content in (("a.y4m", b"YUV4MPEG2 W99999999999 H5\n"), ("a.y4m", b"YUV4MPEG2 W-5 H5\n"),
                              ("a.y4m", b"YUV4MPEG2 W0 H5\n"), ("a.y4m", b"YUV4MPEG2 W65536 H65536 C444\n"),
                              ("a.wav", wav(channels=0)), ("a.wav", wav(tag=2)), ("a.wav", b"RIFF"),
                              ("a.npy", npy(descr="|O")), ("a.npy", npy(descr=">f4")), ("a.npy", npy(order="True")),
                              ("a.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr'"), ("a.npy", b"garbage")):
            with self.subTest((name, content[:60])):
                done = self.run_command("send", "cam0", self.write(name, content))
                self.assertEqual((done.returncode, done.stdout), (3, b""), done.stderr)
                self.assertEqual(done.stderr.count(b"\n"), 1)
                self.assertEqual(os.listdir(self.environment["FRAMELANE_DIR"]), [])

    def test_what_cannot_be_asked_is_wrong_usage(self):
        raw = self.write("a.raw", b"frames")
        array = self.write("a.npy", npy())
        for arguments in (["send", "cam0", raw], ["send", "cam0", raw, "--caps", "video/x-h264"],
                          ["send", "cam0", raw, "--caps", "nonsense"], ["send", "no/lane", raw, "--frame-size", "2"],
                          ["send", "cam0", array, "--realtime"], ["send", "cam0", array, "--fps", "0"],
                          ["send", "cam0", array, "--leaky", "maybe"], ["send", "cam0", array, "--format", "avi"],
                          ["send", "cam0", array, "--timeout", "soon"], ["recv", "no/lane", raw],
                          ["recv", "cam0", raw, "--split"], ["recv", "cam0", raw, "--frames", "0"], ["send"], ["recv"]):
            with self.subTest(arguments):
                done = self.run_command(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr.strip())

    def test_files_that_are_not_there_are_a_sentence(self):
        done = self.run_command("send", "cam0", self.path("nothing.y4m"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No such file", done.stderr)
        sender = self.start("send", "cam0", self.write("a.y4m", y4m()))
        done = self.run_command("recv", "cam0", self.path("no/such/folder.y4m"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No such file", done.stderr)
        self.finish(sender)

    def test_key_file_that_is_not_there_is_said_by_a_lane_that_needs_none_too(self):
        for command in "send", "recv":
            done = self.run_command(command, "cam0", self.write("a.y4m", y4m()), "--psk-file", self.path("key\x1b"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"key\\x1b', can't be read: No such file", done.stderr)
        self.assertEqual(self.read("a.y4m"), y4m())

    def test_loop_of_a_pipe_is_wrong_usage_before_anything_is_sent(self):
        done = self.run_command("send", "cam0", "--loop", "--wait", "0", input=y4m(), stdin=None)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr,
                         b"framelane send: --loop is for files, and standard input is a pipe or a terminal\n")
        self.assertEqual(os.listdir(self.environment["FRAMELANE_DIR"]), [])

    def test_caps_that_the_format_lacks_name_another(self):
        for name, content, suffix in (("a.wav", wav(), "y4m"), ("a.y4m", y4m(), "wav"), ("a.y4m", y4m(), "npy")):
            sender = self.start("send", "cam0", self.write(name, content))
            done = self.run_command("recv", "cam0", self.write("out." + suffix, b"of somebody"))
            self.assertEqual(done.returncode, 1, suffix)
            self.assertTrue(done.stderr.strip())
            self.assertEqual(self.read("out." + suffix), b"of somebody", "emptied a file, and wrote nothing to it")
            self.finish(sender)


class Ends(LaneCase):
    def endless(self, lane="cam0"):
        """Frames at 100 a second until somebody ends it."""
        return self.start("send", lane, self.write("endless.y4m", y4m()), "--loop", "--realtime", "--fps", "100")

    def wait_for_bytes(self, name, process):
        path = self.path(name)
        self.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 500, process)

    def test_missing_lane_is_given_up(self):
        done = self.run_command("recv", "nobody", self.path("out.raw"), "--timeout", "0.3")
        self.assertEqual(done.returncode, 4)
        self.assertTrue(done.stderr.strip())
        self.assertFalse(os.path.exists(self.path("out.raw")), "made a file of nothing")
        self.assertIn(b"raise --timeout", done.stderr)
        self.assertNotIn(b"connect-timeout", done.stderr)
        done = self.run_command("send", "cam0", self.write("a.y4m", y4m()), "--timeout", "0.3")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"0 of 1 consumers", done.stderr)

    def test_silent_producer_is_given_up(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        sender = self.start("send", "cam0", "--format", "raw", "--frame-size", "4", "--wait", "0", stdin=reader)
        os.close(reader)
        os.write(writer, b"text")
        os.write(writer, b"more")
        self.wait_for_lane("cam0", sender)
        done = self.run_command("recv", "cam0", self.path("out.raw"), "--timeout", "0.5")
        self.assertEqual(done.returncode, 4)
        self.assertIn(b"no frame came", done.stderr)

    def test_closed_pipe_ends_recv_with_its_code_and_one_sentence(self):
        sender = self.endless()
        receiver = self.start("recv", "cam0", "--format", "y4m")
        self.assertTrue(receiver.stdout.read(100).startswith(b"YUV4MPEG2"))
        receiver.stdout.close()
        self.assertEqual(receiver.wait(timeout=LIMIT), 141)
        self.assertEqual(receiver.stderr.read().count(b"\n"), 1)
        self.assertIsNone(sender.poll(), "the producer ended with its consumer")

    def test_head_behind_recv(self):
        self.endless()
        line = f'"$FRAMELANE_COMMAND" recv cam0 --quiet | head -c 1000 | wc -c; echo "${{PIPESTATUS[0]}}"'
        done = subprocess.run(["bash", "-c", line], env=self.environment, capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        self.assertEqual(done.stdout.split(), ["1000", "141"], done.stderr)

    def test_interrupt_leaves_a_whole_file(self):
        self.endless()
        for name in "b.y4m", "b.raw":
            receiver = self.start("recv", "cam0", self.path(name), "--json")
            self.wait_for_bytes(name, receiver)
            self.interrupt(receiver)
            summary = json.loads(self.finish(receiver, 130)[0])
            self.assertEqual(summary["end"], "interrupted")
            content = self.read(name)
            if name == "b.y4m":
                self.assertEqual([len(frame) for frame in content.split(b"FRAME\n")[1:]], [48] * summary["frames"])
            else:
                self.assertGreater(summary["frames"], 0)
                self.assertEqual(len(content), 72 * summary["frames"])  # with the rows' padding

    def test_interrupt_ends_every_wait(self):
        for arguments in (["recv", "nobody", self.path("out.raw"), "--timeout", "none"],
                          ["send", "cam0", self.write("a.y4m", y4m())]):
            process = self.start(*arguments)
            self.wait_until(lambda: threads_of(process.pid) > 1, process)
            self.interrupt(process)
            self.finish(process, 130)
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        process = self.start("send", "cam0", "--format", "raw", "--frame-size", "4", "--wait", "0", stdin=reader)
        os.close(reader)
        self.wait_for_lane("cam0", process)
        self.interrupt(process)
        self.finish(process, 130)

    def test_interrupt_ends_the_wait_for_the_other_end_of_a_fifo(self):
        os.mkfifo(self.path("fifo"))
        self.endless("cam1")
        for arguments in (["send", "cam0", self.path("fifo"), "--frame-size", "4"],
                          ["recv", "cam1", self.path("fifo"), "--quiet"]):
            process = self.start(*arguments)
            self.wait_until(lambda: threads_of(process.pid) > 1, process)
            time.sleep(0.1)  # so that it waits, and isn't on its way there
            self.interrupt(process)
            self.assertEqual(self.finish(process, 130)[1].count("cannot"), 0)

    def test_producer_that_is_killed_leaves_a_whole_file(self):
        sender = self.endless()
        receiver = self.start("recv", "cam0", self.path("b.y4m"), "--json")
        self.wait_for_bytes("b.y4m", receiver)
        sender.kill()
        output, errors = self.finish(receiver, 1)
        frames = self.read("b.y4m").split(b"FRAME\n")[1:]
        self.assertEqual([len(frame) for frame in frames], [48] * json.loads(output)["frames"])
        self.assertIn("what came before is written", errors)

    def test_consumer_that_is_killed_costs_the_others_nothing(self):
        content = y4m(64, 48, 100)
        sender = self.start("send", "cam0", self.write("a.y4m", content), "--wait", "2", "--realtime", "--fps", "200")
        doomed = self.start("recv", "cam0", self.path("doomed.y4m"))
        receiver = self.start("recv", "cam0", self.path("b.y4m"))
        self.wait_until(lambda: os.path.exists(self.path("doomed.y4m")), doomed)
        doomed.send_signal(signal.SIGKILL)
        self.finish(receiver)
        self.finish(sender)
        self.assertEqual(self.read("b.y4m").split(b"FRAME\n")[1:], content.split(b"FRAME\n")[1:])

    def test_another_producer_of_the_same_caps_has_a_layout_of_its_own(self):
        caps = "video/x-raw, format=(string)GRAY8, width=(int)2, height=(int)2, framerate=(fraction)25/1"
        layout = "framelane-layout, offset=(guint64)< 4 >, stride=(int)< 8 >"
        peer = self.peer("pad", caps, layout, "cam0")
        receiver = self.start("recv", "cam0", self.path("b.y4m"), "--reconnect")
        self.wait_for_bytes("b.y4m", receiver)
        peer.kill()
        peer.wait(timeout=LIMIT)
        content = y4m(2, 2, header=b"F25:1 Ip A0:0 Cmono", planes=4)
        sender = self.start("send", "cam0", self.write("a.y4m", content))
        self.finish(receiver)
        self.finish(sender)
        frames = self.read("b.y4m").split(b"FRAME\n")[1:]
        self.assertEqual(set(frames[:-4]), {bytes((4, 5, 12, 13))})
        self.assertEqual(frames[-4:], content.split(b"FRAME\n")[1:])

    def receive_up_to(self, limit, name, content, output):
        """What is left where no file can be larger than so many bytes."""
        sender = self.start("send", "cam0", self.write(name, content))
        receiver = self.start("recv", "cam0", self.path(output), "--json", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)))
        summary, errors = self.finish(receiver, 1)
        self.assertIn("File too large", errors)
        self.finish(sender)
        return self.read(output), json.loads(summary)["frames"]

    def test_file_that_cannot_grow_ends_with_a_whole_frame(self):
        content = y4m(64, 48, 8)
        got, frames = self.receive_up_to(10000, "a.y4m", content, "b.y4m")
        self.assertEqual(frames, 2)
        self.assertEqual(got, b"FRAME\n".join(content.split(b"FRAME\n")[:3]))
        got, frames = self.receive_up_to(10000, "a.wav", wav(), "b.wav")
        self.assertEqual(frames, 2)
        self.assertEqual(struct.unpack("<I", got[4:8])[0], len(got) - 8)
        self.assertEqual(struct.unpack("<I", got[40:44])[0], 8192)
        self.assertEqual(got[44:], wav()[44:44 + 8192])
        got, frames = self.receive_up_to(250, "a.npy", npy(), "b.npy")
        self.assertEqual(frames, 2)
        self.assertEqual(npy_content(got), ("(2, 3, 4)", npy_content(npy())[1][:96]))
        got, frames = self.receive_up_to(10000, "a.wav", wav(), "b.raw")
        self.assertEqual((frames, got), (2, wav()[44:44 + 8192]))

    def test_full_disk_is_a_sentence(self):
        sender = self.start("send", "cam0", self.write("a.y4m", y4m()))
        with open("/dev/full", "wb") as full:
            done = self.run_command("recv", "cam0", capture_output=False, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"No space left", done.stderr)
        self.finish(sender)


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


if __name__ == "__main__":
    unittest.main()
