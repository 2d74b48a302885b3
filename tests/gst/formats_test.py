# SPDX-License-Identifier: MIT
"""Formats of raw video, audio and encoded media, with and without a lane."""

import os
import subprocess
import unittest

from lane_test import ComparingTest


class Formats(ComparingTest):
    def test_ten_bits_and_4k(self):
        for caps in ("format=P010_10LE,width=322,height=242", "format=NV12,width=3840,height=2160"):
            with self.subTest(caps):
                self.same(f"videotestsrc num-buffers=5 pattern=snow ! video/x-raw,{caps}")

    def test_one_to_eight_channels_with_their_positions(self):
        masks = {1: None, 2: "0x3", 3: "0x7", 4: "0x33", 5: "0x37", 6: "0x3f", 7: "0x13f", 8: "0xc3f"}
        for channels, mask in masks.items():
            for layout in ("interleaved", "non-interleaved") if channels in (2, 6) else ("interleaved",):
                caps = f"audio/x-raw,format=S16LE,rate=48000,channels={channels},layout={layout}"
                if mask:
                    caps += f",channel-mask=(bitmask){mask}"
                with self.subTest(caps):
                    self.same(f"audiotestsrc num-buffers=10 wave=ticks samplesperbuffer=480 ! {caps}")

    def test_planar_audio_of_other_samples(self):
        for sample in ("F32LE", "S32LE", "U8", "F64LE"):
            with self.subTest(sample):
                self.same(f"audiotestsrc num-buffers=10 wave=saw samplesperbuffer=441 ! "
                          f"audio/x-raw,format={sample},rate=44100,channels=2,layout=non-interleaved")

    def recorded(self, coder, source):
        """A file of encoded frames: an encoder would answer a joining consumer with a key unit, and differ by that."""
        if subprocess.run(["gst-inspect-1.0", "--exists", coder], check=False).returncode != 0:
            self.skipTest(coder + " is not installed")
        path = os.path.join(self.directory, coder + ".mkv")
        self.finish(self.launch(f"{source} ! matroskamux ! filesink location={path}"))
        return f"filesrc location={path} ! matroskademux"

    def test_encoded_frames_of_varying_size(self):
        picture = "videotestsrc num-buffers=40 pattern=ball ! video/x-raw,format=I420,width=320,height=240"
        sound = "audiotestsrc num-buffers=40 wave=ticks ! audio/x-raw,format=S16LE,rate=48000,channels=2"
        for coder, source in (("x264enc", f"{picture} ! x264enc key-int-max=10"),
                              ("openh264enc", f"{picture} ! openh264enc gop-size=10 ! h264parse"),
                              ("vp8enc", f"{picture} ! vp8enc deadline=1 keyframe-max-dist=10"),
                              ("opusenc", f"{sound} ! opusenc bitrate-type=vbr")):
            with self.subTest(coder):
                self.same(self.recorded(coder, source), ids=True)

    def test_packets_of_several_memories(self):
        frames = self.recorded("vp8enc", "videotestsrc num-buffers=20 ! video/x-raw,width=320,height=240 ! vp8enc")
        self.same(f"{frames} ! rtpvp8pay ssrc=1 timestamp-offset=0 seqnum-offset=0 picture-id-offset=0")


if __name__ == "__main__":
    unittest.main()
