# SPDX-License-Identifier: MIT
"""Real pipelines, cut in two by a lane: what comes out at the end is what comes out of the same pipeline in one piece.

Each row of PIPELINES is `before | after`. Without a lane it runs as `before ! after ! fakesink`; with one as two
processes, `before ! lanesink` and `lanesrc ! after ! fakesink`. Compared are caps, segments, gaps, and every buffer's
bytes, timestamps, duration, offsets and flags. A row whose elements aren't installed is skipped, and counted as that.
"""

import concurrent.futures
import glob
import os
import re
import shutil
import sys
import subprocess
import tempfile
import unittest

from lane_test import LIMIT, LaneTest, Process, buffers, crossing, over

DUMP = os.environ["FRAMELANE_DUMP"]
FILM = next(iter(sorted(glob.glob("/usr/share/help/*/gnome-help/figures/display-dual-monitors.webm"))), None)
SPEECH = next(iter(sorted(glob.glob("/usr/share/pocketsphinx/test/data/librivox/*.wav"))), None)

# The receiving pipeline's elements that make time of their own (mixers, rate) must see the producer's.
RECEIVER = "lanesrc lane=x is-live=false timestamp-mode=producer"

VIDEO = "videotestsrc num-buffers=15 pattern=ball ! video/x-raw,width=160,height=120,framerate=30/1"
SNOW = "videotestsrc num-buffers=10 pattern=snow ! video/x-raw,width=64,height=48,framerate=25/1"
AUDIO = "audiotestsrc num-buffers=30 wave=ticks ! audio/x-raw,rate=48000"
STEREO = "audiotestsrc num-buffers=30 wave=saw ! audio/x-raw,format=S16LE,channels=2,rate=48000"
RTP = "ssrc=7 seqnum-offset=1 timestamp-offset=0"
X264 = "x264enc key-int-max=5 ! video/x-h264,profile=high"

PIPELINES = {
    # raw video
    "video_i420": f"{VIDEO},format=I420 | ",
    "video_p010": f"{VIDEO},format=P010_10LE | ",
    "video_y444_16": f"{VIDEO},format=Y444_16LE | ",
    "video_argb64": f"{SNOW},format=ARGB64 | ",
    "video_4k": "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=3840,height=2160 | ",
    "video_interlaced": f"{VIDEO},format=I420 ! interlace field-pattern=2:2 | ",
    "videoconvert_before": f"{SNOW},format=I420 ! videoconvert ! video/x-raw,format=RGB | ",
    "videoconvert_after": f"{SNOW},format=I420 | videoconvert ! video/x-raw,format=NV12",
    "videoscale": f"{VIDEO} ! videoscale ! video/x-raw,width=99,height=77 | "
                  "videoscale ! video/x-raw,width=50,height=40",
    "videorate_repeats": f"{VIDEO} ! videorate ! video/x-raw,framerate=60/1 | ",
    "videorate_drops": f"{VIDEO} | videorate ! video/x-raw,framerate=10/1",
    "videocrop": f"{VIDEO},format=I420 ! videocrop left=3 top=5 | videocrop right=7 bottom=9",
    "videoflip": f"{VIDEO} ! videoflip method=clockwise | videoflip method=horizontal-flip",
    "videobox": f"{VIDEO},format=AYUV ! videobox left=-8 top=-4 | ",
    "videobalance_in_place": f"{VIDEO},format=I420 | videobalance hue=0.3",
    "gamma": f"{VIDEO} ! gamma gamma=2 | gamma gamma=0.5",
    "alpha": f"{VIDEO} ! alpha alpha=0.5 | ",
    "agingtv_in_one_queue": f"{VIDEO} ! queue | queue ! videoconvert",
    "deinterlace": f"{VIDEO},format=I420 ! interlace field-pattern=2:2 | deinterlace mode=interlaced",
    "imagefreeze": "videotestsrc num-buffers=1 ! video/x-raw,width=64,height=48 ! imagefreeze num-buffers=12 | ",
    "tee_before": f"{VIDEO} ! tee name=t ! queue ! fakesink t. ! queue | ",
    "compositor_before": f"{SNOW} ! c. {VIDEO} ! c. compositor name=c ! video/x-raw,format=I420 | ",
    "compositor_after": f"{SNOW} | c. {VIDEO} ! c. compositor name=c ! video/x-raw,format=I420",
    "videomedian_rawparse": f"{VIDEO},format=I420 | rawvideoparse width=160 height=120 format=i420 framerate=30/1",
    # raw audio
    "audio_mono": f"{AUDIO},format=S16LE,channels=1 | ",
    "audio_six_channels": f"{AUDIO},format=S16LE,channels=6,channel-mask=(bitmask)0x3f | ",
    "audio_eight_channels": f"{AUDIO},format=F32LE,channels=8,channel-mask=(bitmask)0xc3f | ",
    "audio_s24": f"{AUDIO},format=S24LE,channels=2 | audioconvert ! audio/x-raw,format=S32LE",
    "audio_planar": f"{AUDIO},format=F32LE,channels=2,layout=non-interleaved | audioconvert ! "
                    "audio/x-raw,layout=interleaved",
    "audioresample_before": f"{STEREO} ! audioresample ! audio/x-raw,rate=44100 | ",
    "audioresample_after": f"{STEREO} | audioresample ! audio/x-raw,rate=16000",
    "audiomixer_before": f"{STEREO} ! m. {STEREO} ! m. audiomixer name=m | ",
    "audiomixer_after": f"{STEREO} | m. {STEREO} ! m. audiomixer name=m",
    "volume_in_place": f"{STEREO} | volume volume=0.3",
    "audiorate": f"{STEREO} ! audiorate | audiorate",
    "speech_wav": f"filesrc location={SPEECH} | wavparse",
    # encoded video
    "h264_avc": f"{VIDEO} ! {X264} | h264parse ! avdec_h264",
    "h264_byte_stream": f"{VIDEO} ! x264enc tune=zerolatency ! video/x-h264,stream-format=byte-stream | h264parse",
    "h265": f"{VIDEO} ! x265enc key-int-max=5 log-level=none option-string=pools=1 ! h265parse | avdec_h265",
    "openh264": f"{VIDEO} ! openh264enc | openh264dec",
    "vp8": f"{VIDEO} ! vp8enc keyframe-max-dist=5 deadline=1 | vp8dec",
    "vp9": f"{VIDEO} ! vp9enc deadline=1 cpu-used=8 | vp9dec",
    "theora": f"{VIDEO} ! theoraenc | theoradec",
    "jpeg": f"{VIDEO} ! jpegenc | jpegdec",
    "jpegenc_after": f"{VIDEO},format=I420 | jpegenc",
    "png": f"{SNOW},format=RGB ! pngenc | pngdec",
    "ffv1": f"{VIDEO},format=I420 ! avenc_ffv1 | avdec_ffv1",
    "mpeg4": f"{VIDEO} ! avenc_mpeg4 ! mpeg4videoparse | avdec_mpeg4",
    "jpeg2000": f"{SNOW} ! openjpegenc | openjpegdec",
    # encoded audio
    "opus": f"{STEREO} ! opusenc | opusparse",
    "vorbis": f"{STEREO} ! audioconvert ! vorbisenc | vorbisdec",
    "flac": f"{STEREO} ! flacenc | flacparse ! flacdec",
    "mp3": f"{STEREO} ! lamemp3enc ! mpegaudioparse | mpg123audiodec",
    "aac": f"{STEREO} ! audioconvert ! avenc_aac ! aacparse | avdec_aac",
    "ac3": f"{STEREO} ! audioconvert ! avenc_ac3 ! ac3parse | avdec_ac3",
    "mulaw": f"{STEREO} ! mulawenc | mulawdec",
    "alaw": f"{STEREO} ! alawenc | alawdec",
    "speex": f"{STEREO} ! audioresample ! audio/x-raw,rate=16000 ! speexenc | speexdec",
    "wavpack": f"{STEREO} ! audioconvert ! audio/x-raw,format=S32LE ! wavpackenc | wavpackparse ! wavpackdec",
    # containers: their headers hold random numbers, so what is compared is what they contain
    "matroska": f"{VIDEO} ! vp8enc deadline=1 ! matroskamux streamable=true | matroskademux",
    "webm_audio": f"{STEREO} ! opusenc ! webmmux streamable=true | matroskademux",
    "ogg": f"{STEREO} ! audioconvert ! vorbisenc ! oggmux | oggdemux",
    "ogg_theora": f"{VIDEO} ! theoraenc ! oggmux | oggdemux ! theoradec",
    "fragmented_mp4": f"{VIDEO} ! {X264} ! mp4mux fragment-duration=100 streamable=true | qtdemux",
    "mpeg_ts": f"{VIDEO} ! {X264} ! h264parse ! mpegtsmux | tsdemux ! h264parse",
    "flv": f"{VIDEO} ! {X264} ! flvmux streamable=true | flvdemux",
    "avi": f"{VIDEO},format=I420 ! jpegenc ! avimux | ",
    "wav": f"{STEREO} ! wavenc | wavparse",
    "multipart": f"{VIDEO} ! jpegenc ! multipartmux | multipartdemux",
    "gdp": f"{SNOW} ! gdppay | gdpdepay",
    "y4m": f"{SNOW},format=I420 ! y4menc | y4mdec",
    "demuxed_film": f"filesrc location={FILM} ! matroskademux | vp8dec",
    "decodebin_after": f"filesrc location={FILM} | decodebin",
    "parsebin_after": f"filesrc location={FILM} | parsebin",
    # RTP
    "rtp_h264": f"{VIDEO} ! {X264} ! rtph264pay {RTP} config-interval=-1 | rtph264depay",
    "rtp_vp8": f"{VIDEO} ! vp8enc deadline=1 ! rtpvp8pay {RTP} mtu=500 | rtpvp8depay",
    "rtp_vraw": f"{SNOW},format=UYVY ! rtpvrawpay {RTP} | rtpvrawdepay",
    "rtp_jpeg": f"{VIDEO},format=I420 ! jpegenc ! rtpjpegpay {RTP} | rtpjpegdepay",
    "rtp_theora": f"{VIDEO} ! theoraenc ! rtptheorapay {RTP} | rtptheoradepay",
    "rtp_opus": f"{STEREO} ! opusenc ! rtpopuspay {RTP} | rtpopusdepay",
    "rtp_l16": f"{STEREO} ! audioconvert ! rtpL16pay {RTP} | rtpL16depay",
    "rtp_pcmu": "audiotestsrc num-buffers=20 ! audio/x-raw,rate=8000,channels=1 ! mulawenc ! "
                f"rtppcmupay {RTP} | rtppcmudepay",
    "rtp_gst": f"{SNOW} ! rtpgstpay {RTP} | rtpgstdepay",
    "rtp_mpeg_ts": f"{VIDEO} ! {X264} ! h264parse ! mpegtsmux ! rtpmp2tpay {RTP} | rtpmp2tdepay ! tsdemux ! h264parse",
}

WORKERS = max(2, len(os.sched_getaffinity(0)))


def kept(lines):
    """Streams and their tags have ids and dates of their own."""
    return [line for line in crossing(lines) if not line.startswith(("stream-start", "tag"))]


def joined(*parts):
    return " ! ".join(part for part in parts if part)


class Row:
    """One row, run in a directory of its own."""

    def __init__(self, text):
        self.before, self.after = (part.strip() for part in text.split("|"))
        self.missing = None
        self.status = None
        self.messages = []
        self.direct = self.received = None

    def after_of(self, source):
        # "m. rest" goes into an element that the rest names.
        return f"{source} ! {self.after}"

    def run(self):
        directory = tempfile.mkdtemp(prefix="framelane-test-")
        self.lanes = os.path.join(directory, "lanes")
        env = dict(os.environ, FRAMELANE_DIR=self.lanes)
        processes = []

        def start(*command):
            processes.append(Process(command, env))
            return processes[-1]

        try:
            self._run(start)
        finally:
            for process in processes:
                process.end()
            shutil.rmtree(directory)

    def _run(self, start):
        direct = start(DUMP, joined(self.before, self.after, "fakesink name=out"))
        status = direct.wait()
        self.missing = next(iter(re.findall(r'no element "([^"]+)"', "\n".join(direct.err))), None)
        self.status, self.messages = (status,), direct.err[-5:]
        if self.missing or status != 0:
            return
        receiving = start(DUMP, over(joined(RECEIVER, self.after, "fakesink name=out"), self.lanes))
        sending = start("gst-launch-1.0", *over(joined(self.before, "lanesink lane=x"), self.lanes).split())
        self.status = (status, sending.wait(), receiving.wait())
        self.messages = direct.err[-5:] + sending.err[-5:] + receiving.err[-5:]
        self.direct, self.received = direct.out, receiving.out


class Pipelines(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.rows = {name: Row(text) for name, text in PIPELINES.items()}
        # All at once would only be in each other's way.
        cls.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        cls.addClassCleanup(cls.pool.shutdown, cancel_futures=True)
        cls.runs = {name: cls.pool.submit(row.run) for name, row in cls.rows.items() if "=None" not in row.before}

    def check(self, name):
        if name not in self.runs:
            self.skipTest("its file is not installed")
        self.runs[name].result(LIMIT * len(self.runs))
        row = self.rows[name]
        if row.missing:
            self.skipTest(f"no element {row.missing}")
        self.assertEqual(row.status, (0, 0, 0), "\n".join(row.messages))
        self.assertTrue(any(line.startswith("buffer") for line in row.direct))
        self.assertEqual(kept(row.received), kept(row.direct))


def add_test(name):
    setattr(Pipelines, "test_" + name, lambda self: self.check(name))


for each in PIPELINES:
    add_test(each)


class Together(LaneTest):
    """Pipelines of another shape than a row."""

    def frames_of(self, film, track):
        dumped = self.finish(self.dump(f"filesrc location={film} ! matroskademux name=d d.{track} ! "
                                       "fakesink name=out"))
        lines = buffers(dumped)
        times = [int(re.search(r" pts=(\d+)", line)[1]) for line in lines]
        return times, [line.rsplit(" ", 2)[-2:] for line in lines]

    def test_audio_and_video_over_two_lanes_stay_in_step(self):
        film, copy = (os.path.join(self.directory, name) for name in ("film.mkv", "copy.mkv"))
        self.finish(self.launch(f"{VIDEO.replace('=15', '=60')} ! vp8enc deadline=1 ! m. audiotestsrc num-buffers=100 "
                                "samplesperbuffer=960 ! audio/x-raw,rate=48000 ! opusenc ! m. "
                                f"matroskamux name=m ! filesink location={film}"))
        receiving = self.launch("lanesrc lane=v ! queue ! m.video_0 lanesrc lane=a ! queue ! m.audio_0 "
                                f"matroskamux name=m ! filesink location={copy}")
        sending = self.launch(f"filesrc location={film} ! matroskademux name=d d.video_0 ! queue ! lanesink lane=v "
                              "d.audio_0 ! queue ! lanesink lane=a")
        self.finish(sending)
        self.finish(receiving)
        moved = []
        for track, count in ("video_0", 60), ("audio_0", 90):
            (before, data), (after, copied) = self.frames_of(film, track), self.frames_of(copy, track)
            self.assertGreaterEqual(len(data), count)
            self.assertEqual(copied, data, track)
            # Opus begins 6.5 ms before its first sample, and the muxer writes no time before 0.
            moved += [new - old for old, new in zip(before, after) if new > 0]
        self.assertLessEqual(max(moved) - min(moved), 1_000_000, "Matroska counts in milliseconds")

    def test_applications_at_both_ends(self):
        application = os.path.join(os.path.dirname(os.path.abspath(__file__)), "app_ends.py")
        receiving = self.start(sys.executable, application, "receive")
        sending = self.start(sys.executable, application, "send")
        self.finish(sending)
        self.finish(receiving)
        self.assertEqual(receiving.out, [f"{i * 40_000_000} 40000000 {bytes([i] * 4).hex()}" for i in range(25)])

    def test_one_producer_and_three_consumers_get_the_same(self):
        receiving = [self.dump("lanesrc lane=x ! fakesink name=out") for _ in range(3)]
        self.finish(self.launch(f"{SNOW} ! lanesink lane=x wait-for-consumers=3"))
        for each in receiving:
            self.finish(each)
            self.assertEqual(buffers(each), buffers(receiving[0]))
        self.assertEqual(len(buffers(receiving[0])), 10)


if __name__ == "__main__":
    unittest.main()
