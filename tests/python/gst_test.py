# SPDX-License-Identifier: MIT
"""gst-launch-1.0 to Python and back, also with planes that don't lie where their caps alone would put them."""
import os
import shutil
import subprocess
import unittest

import framelane
from lane_test import LIMIT, LaneTest

try:
    import numpy
except ImportError:
    numpy = None


@unittest.skipUnless(shutil.which("gst-launch-1.0") and numpy, "gst-launch-1.0 or numpy isn't installed")
class Gst(LaneTest):
    def launch(self, pipeline):
        process = subprocess.Popen(["gst-launch-1.0", "-q", *pipeline.split()], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=dict(os.environ))
        self.addCleanup(self.end, process)
        return process

    def test_pictures_come_from_gst_launch(self):
        self.launch("videotestsrc num-buffers=5 pattern=red ! "
                    "video/x-raw,format=BGR,width=50,height=20,framerate=25/1 ! lanesink lane=cam0")
        frames = [(f.pts, f.caps.width, f.numpy()) for f in framelane.Consumer("cam0", timeout=LIMIT)]
        self.assertEqual([pts for pts, _, _ in frames], [i * 40_000_000 for i in range(5)])
        for _, width, array in frames:
            self.assertEqual((width, array.shape, array.strides[0]), (50, (20, 50, 3), 152))
            self.assertTrue((array == (0, 0, 255)).all())

    def test_planes_lie_where_the_stream_says(self):
        # A larger picture's planes are cropped by videobox? No: a pool's alignment pads them, as decoders do.
        folder = self.directory
        subprocess.run(["gst-launch-1.0", "-q", *f"videotestsrc num-buffers=10 pattern=red ! "
                        f"video/x-raw,format=I420,width=180,height=100,framerate=25/1 ! vp8enc ! matroskamux ! "
                        f"filesink location={folder}/red.mkv".split()], check=True, timeout=LIMIT)
        self.launch(f"filesrc location={folder}/red.mkv ! matroskademux ! avdec_vp8 ! lanesink lane=cam0")
        seen = 0
        for f in framelane.Consumer("cam0", timeout=LIMIT):
            planes = f.numpy()
            seen += 1
            self.assertGreater(planes["y"].strides[0], 180, "the decoder pads its rows, else this shows nothing")
            self.assertEqual({name: plane.shape for name, plane in planes.items()},
                             {"y": (100, 180), "u": (50, 90), "v": (50, 90)})
            for name, value in (("y", 81), ("u", 90), ("v", 240)):
                self.assertLess(abs(planes[name].astype(int) - value).max(), 12, f"{name} of frame {f.seq}")
        self.assertEqual(seen, 10)

    def test_tensors_go_to_gst_launch(self):
        out = os.path.join(self.directory, "out.bin")
        process = self.launch(f"lanesrc lane=feat ! filesink location={out}")
        with framelane.Producer("feat", tensors={"x": ("float32", (2, 3))}, framerate=10) as producer:
            producer.wait_for_consumers(1, timeout=LIMIT)
            for i in range(4):
                producer.publish(numpy.full((2, 3), i, "f4"), pts=i * 100_000_000)
        self.assertEqual(process.wait(LIMIT), 0, process.stderr.read())
        self.assertEqual(numpy.fromfile(out, "f4").tolist(), [float(i) for i in range(4) for _ in range(6)])

    def test_pictures_go_to_gst_launch(self):
        process = self.launch("lanesrc lane=cam0 ! videoconvert ! video/x-raw,format=RGB ! "
                              f"filesink location={self.directory}/out.rgb")
        with framelane.Producer("cam0", caps="video/x-raw, format=BGR, width=8, height=4, framerate=25/1") as producer:
            producer.wait_for_consumers(1, timeout=LIMIT)
            with producer.loan() as loan:
                numpy.asarray(loan)[...] = (1, 2, 3)
                loan.pts = 0
        self.assertEqual(process.wait(LIMIT), 0, process.stderr.read())
        self.assertEqual(numpy.fromfile(f"{self.directory}/out.rgb", "u1").reshape(4, 8, 3)[2, 3].tolist(), [3, 2, 1])


if __name__ == "__main__":
    unittest.main()
