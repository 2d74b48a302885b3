# SPDX-License-Identifier: MIT
"""Files of other programs through `framelane send`, and of `framelane recv` in those: GStreamer, numpy."""

import os
import shutil
import subprocess
import sys
import unittest

from lane_case import LIMIT, LaneCase, npy


def have_elements(*names):
    if not shutil.which("gst-inspect-1.0"):
        return False
    return all(subprocess.run(["gst-inspect-1.0", "--exists", name], timeout=LIMIT, check=False).returncode == 0
               for name in names)


def have_numpy():
    return subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True, timeout=LIMIT,
                          check=False).returncode == 0


class InteropCase(LaneCase):
    def gst(self, line):
        done = subprocess.run(["gst-launch-1.0", "-q", *line.split()], env=self.environment, capture_output=True,
                              text=True, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), line)

    def through(self, name, output, *options):
        sender = self.start("send", "lane0", self.path(name), "--quiet")
        self.finish(self.start("recv", "lane0", self.path(output), "--quiet", *options))
        self.finish(sender)


@unittest.skipUnless(have_elements("y4menc", "avdemux_yuv4mpegpipe"), "needs GStreamer's y4menc and libav")
class Y4m(InteropCase):
    def test_gstreamers_files_go_through_and_come_back_to_it(self):
        # Sizes without padding: y4menc (1.22) copies padded rows as they are, which is no Y4M.
        for caps in ("format=I420,width=320,height=242", "format=Y444,width=32,height=17",
                     "format=Y42B,width=64,height=31"):
            with self.subTest(caps):
                video = f"videotestsrc num-buffers=4 ! video/x-raw,framerate=30/1,{caps}"
                self.gst(f"{video} ! y4menc ! filesink location={self.path('a.y4m')}")
                self.through("a.y4m", "b.y4m")
                self.assertEqual(self.read("b.y4m").split(b"FRAME\n")[1:], self.read("a.y4m").split(b"FRAME\n")[1:])
                self.gst(f"filesrc location={self.path('b.y4m')} ! avdemux_yuv4mpegpipe "
                         f"! filesink location={self.path('b.raw')}")
                self.gst(f"{video} ! filesink location={self.path('a.raw')}")
                self.assertEqual(self.read("b.raw"), self.read("a.raw"))


@unittest.skipUnless(have_elements("wavenc", "wavparse"), "needs GStreamer's wavenc and wavparse")
class Wav(InteropCase):
    def test_gstreamers_files_go_through_and_come_back_to_it(self):
        for caps in ("format=S16LE,channels=2", "format=S24LE,channels=1", "format=F32LE,channels=2",
                     "format=S16LE,channels=6,channel-mask=(bitmask)0x3f"):
            with self.subTest(caps):
                audio = f"audiotestsrc num-buffers=7 samplesperbuffer=777 ! audio/x-raw,rate=44100,{caps}"
                self.gst(f"{audio} ! wavenc ! filesink location={self.path('a.wav')}")
                self.gst(f"{audio} ! filesink location={self.path('a.raw')}")
                self.through("a.wav", "b.wav")
                self.gst(f"filesrc location={self.path('b.wav')} ! wavparse ! audio/x-raw,{caps} "
                         f"! filesink location={self.path('b.raw')}")
                self.assertEqual(self.read("b.raw"), self.read("a.raw"))

    def test_a_file_that_came_through_a_pipe_is_read_to_its_end(self):
        line = "audiotestsrc num-buffers=3 ! audio/x-raw,format=S16LE,channels=1,rate=8000 ! wavenc ! fdsink fd=1"
        done = subprocess.run(["gst-launch-1.0", "-q", *line.split()], env=self.environment, capture_output=True,
                              timeout=LIMIT, check=False)
        self.write("a.wav", done.stdout)
        self.through("a.wav", "b.raw")
        # wavenc's header says 2 GiB then; the chunk of tags that it appends can't be told from samples.
        self.assertEqual(self.read("b.raw"), self.read("a.wav")[44:])
        self.assertGreaterEqual(len(self.read("b.raw")), 3 * 1024 * 2)


def packed(raw, width, height):
    """I420 pictures with GStreamer's strides, an even number of rows, without the padding."""
    half, rows, out, at = (width + 1) // 2, (height + 1) // 2, [], 0
    while at < len(raw):
        for row, count, stored in (width, height, 2 * rows), (half, rows, rows), (half, rows, rows):
            stride = (row + 3) & ~3
            out += [raw[at + y * stride:at + y * stride + row] for y in range(count)]
            at += stride * stored
    return b"".join(out)


@unittest.skipUnless(os.environ.get("FRAMELANE_PLUGIN") and have_elements("videotestsrc"), "needs the elements")
class Elements(InteropCase):
    def setUp(self):
        super().setUp()
        self.environment["GST_PLUGIN_PATH"] = os.path.dirname(os.environ["FRAMELANE_PLUGIN"])

    def test_frames_of_lanesink_are_packed_and_lanesrc_takes_those_of_send(self):
        width, height = 321, 241
        video = f"videotestsrc num-buffers=5 ! video/x-raw,format=I420,width={width},height={height},framerate=30/1"
        receiver = self.start("recv", "lane0", self.path("a.y4m"), "--quiet")
        self.gst(f"{video} ! lanesink lane=lane0 wait-for-consumers=1")
        self.finish(receiver)
        self.gst(f"{video} ! filesink location={self.path('b.raw')}")
        pictures = packed(self.read("b.raw"), width, height)
        self.assertEqual(b"".join(self.read("a.y4m").split(b"FRAME\n")[1:]), pictures)
        sender = self.start("send", "lane0", self.path("a.y4m"), "--quiet")
        self.gst(f"lanesrc lane=lane0 ! filesink location={self.path('c.raw')}")
        self.finish(sender)
        self.assertEqual(packed(self.read("c.raw"), width, height), pictures)


@unittest.skipUnless(have_numpy(), "needs numpy")
class Numpy(InteropCase):
    def test_arrays_come_back_equal(self):
        self.write("a.npy", npy())
        self.through("a.npy", "b.npy")
        script = ("import numpy, sys\na, b = (numpy.load(name, allow_pickle=False) for name in sys.argv[1:])\n"
                  "assert a.shape == b.shape == (6, 3, 4) and a.dtype == b.dtype and a.tobytes() == b.tobytes()")
        done = subprocess.run([sys.executable, "-c", script, self.path("a.npy"), self.path("b.npy")],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
