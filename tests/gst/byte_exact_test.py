# SPDX-License-Identifier: MIT
"""What comes out of a lane is what went in: the same pipeline with and without a lane prints the same lines."""

import glob
import unittest

from lane_test import TRANSPORT, ComparingTest, crossing

VIDEO = next(iter(sorted(glob.glob("/usr/share/help/*/gnome-help/figures/display-dual-monitors.webm"))), None)
SPEECH = next(iter(sorted(glob.glob("/usr/share/pocketsphinx/test/data/librivox/*.wav"))), None)


class ByteExact(ComparingTest):
    @unittest.skipUnless(VIDEO, "gnome-user-docs is not installed")
    def test_decoded_webm(self):
        self.same(f"filesrc location={VIDEO} ! matroskademux ! vp8dec", ids=True)

    @unittest.skipUnless(VIDEO, "gnome-user-docs is not installed")
    def test_decodebin_webm(self):
        self.same(f"filesrc location={VIDEO} ! decodebin", ids=True)

    @unittest.skipUnless(VIDEO, "gnome-user-docs is not installed")
    def test_encoded_frames_of_a_webm(self):
        self.same(f"filesrc location={VIDEO} ! matroskademux", ids=True)

    @unittest.skipUnless(VIDEO, "gnome-user-docs is not installed")
    def test_the_file_itself_in_bytes(self):
        self.same(f"filesrc location={VIDEO} blocksize=65536", ids=True)

    @unittest.skipUnless(SPEECH, "pocketsphinx-testdata is not installed")
    def test_speech(self):
        self.same(f"filesrc location={SPEECH} ! wavparse", ids=True)

    @unittest.skipUnless(SPEECH, "pocketsphinx-testdata is not installed")
    def test_stereo_speech(self):
        self.same(f"filesrc location={SPEECH} ! wavparse ! audioconvert ! audio/x-raw,channels=2")

    @unittest.skipUnless(SPEECH, "pocketsphinx-testdata is not installed")
    def test_planar_stereo(self):
        self.same(f"filesrc location={SPEECH} ! wavparse ! audioconvert ! "
                  "audio/x-raw,channels=2,layout=non-interleaved,format=F32LE")

    def test_raw_formats(self):
        for caps in ("format=I420,width=320,height=240", "format=NV12,width=640,height=360",
                     "format=RGB,width=64,height=48", "format=RGB,width=3,height=3",
                     "format=GRAY8,width=322,height=241", "format=GRAY8,width=321,height=241",
                     "format=I420,width=3,height=3", "format=YUY2,width=17,height=5"):
            with self.subTest(caps):
                self.same(f"videotestsrc num-buffers=20 pattern=snow ! video/x-raw,{caps}")

    def test_stereo_audio(self):
        self.same("audiotestsrc num-buffers=50 wave=saw ! audio/x-raw,format=S16LE,channels=2,rate=48000")

    @unittest.skipIf(TRANSPORT, "the others run over their transport")
    def test_shmring_elements_too(self):
        self.same("videotestsrc num-buffers=20 ! video/x-raw,width=64,height=48", sender="shmringsink",
                  receiver="shmringsrc")

    def test_caps_change_to_larger_frames(self):
        # Two test sources, one after the other, through concat: the second one's frames are 16 times as large.
        source = ("concat name=c ! identity "
                  "videotestsrc num-buffers=20 ! video/x-raw,format=I420,width=160,height=120 ! c. "
                  "videotestsrc num-buffers=20 ! video/x-raw,format=I420,width=640,height=480 ! c. c.")
        source = source.replace("concat name=c ! identity ", "concat name=c ")
        received = self.same(source)
        self.assertEqual(sum(line.startswith("caps") for line in received.out), 2)

    def test_tags_come_in_their_place(self):
        received = self.same('videotestsrc num-buffers=3 ! taginject tags="title=\\"a\\ lane\\",artist=me"')
        self.assertTrue(any(line.startswith("tag") and "title" in line for line in received.out))

    def test_padded_planes_for_who_looks_at_the_meta(self):
        # 322 pixels in I420 have a chroma stride of 164 by default and of 176 or more from a decoder.
        source = f"filesrc location={VIDEO} ! matroskademux ! vp8dec ! videocrop left=2 right=1 top=1"
        if VIDEO is None:
            self.skipTest("gnome-user-docs is not installed")
        direct = self.finish(self.dump(f"{source} ! fakesink name=out"))
        received = self.through_a_lane(source, options=("--video-meta",))
        self.assertEqual(crossing(received.out), crossing(direct.out))

    def test_upstream_writes_into_slots(self):
        sending = self.launch("videotestsrc num-buffers=50 ! video/x-raw,format=I420,width=320,height=240 ! "
                              "lanesink lane=x wait-for-consumers=0 name=sink", "-v")
        self.finish(sending)
        # gst-launch prints the statistics only when they are notified; the log has the copies.
        self.assertFalse(any("copied" in line for line in sending.err))


if __name__ == "__main__":
    unittest.main()
