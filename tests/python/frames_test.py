# SPDX-License-Identifier: MIT
"""What frames look like from Python: formats, arrays, the slot's own memory."""
import ctypes
import hashlib
import io
import os
import re
import traceback
import unittest
from pathlib import Path

import framelane
from c_abi import RawProducer
from lane_test import LIMIT, LaneTest, pair

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "numpy isn't installed")
BGR = "video/x-raw, format=BGR, width=6, height=4, framerate=30/1"


HEADER = Path(os.environ.get("FRAMELANE_SOURCE", Path(__file__).parents[2])) / "include/framelane/framelane.h"


class Buffer(ctypes.Structure):
    """Py_buffer."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p)]


STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS = 0x18, 0x38, 0x58, 0x98


def lends(exporter, flags):
    """Whether it lends its bytes as these flags of the buffer protocol ask."""
    view = Buffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes, get.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], ctypes.c_int
    try:
        get(exporter, ctypes.byref(view), flags)
    except BufferError:
        return False
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return True


def address(array):
    return array.__array_interface__["data"][0]


class Iterating(LaneTest):
    def test_ends_at_the_end_of_the_stream(self):
        producer, consumer = pair(framelane)
        for i in range(3):
            producer.publish(b"frame %d" % i, pts=i * 1000)
        producer.send_eos()
        self.assertEqual([(bytes(f), f.pts, f.seq, f.skipped) for f in consumer],
                         [(b"frame %d" % i, i * 1000, i, 0) for i in range(3)])
        self.assertEqual(list(consumer), [], "the end stands")

    def test_leaving_the_producers_block_ends_the_stream(self):
        with framelane.Producer("cam0") as producer:
            consumer = framelane.Consumer("cam0", timeout=LIMIT)
            consumer.connect()
            producer.publish(b"x")
        self.assertTrue(producer.closed)
        self.assertEqual([bytes(f) for f in consumer], [b"x"])

    def test_raises_timeout_error(self):
        _producer, consumer = pair(framelane, consumer={"timeout": 0.05})
        with self.assertRaisesRegex(TimeoutError, '"cam0" came within 0.05 s'):
            next(iter(consumer))
        with self.assertRaises(framelane.Timeout):
            consumer.take(timeout=0)
        self.assertIsNone(consumer.try_take())

    def test_a_frame_is_given_back_when_the_next_one_is_asked_for(self):
        producer, consumer = pair(framelane)
        for _ in range(2):
            producer.publish(bytes(100))
        first = next(consumer)
        self.assertEqual(consumer.stats()["held"], 1)
        next(consumer)
        self.assertEqual(consumer.stats()["held"], 1)
        self.assertTrue(first.released)
        for use in (lambda: first.pts, lambda: memoryview(first), lambda: first.numpy(), lambda: first.caps,
                    lambda: first[0], first.hold, lambda: first.seq, lambda: first.address, first.__dlpack__):
            with self.assertRaisesRegex(framelane.ReleasedError, "given back already; hold"):
                use()

    def test_a_held_frame_stays(self):
        producer, consumer = pair(framelane)
        for i in range(2):
            producer.publish(bytes([i]) * 100)
        with next(consumer).hold() as first:
            next(consumer)
            self.assertEqual(bytes(first), bytes(100))
            self.assertEqual(consumer.stats()["held"], 2)
        self.assertTrue(first.released)

    def test_a_taken_frame_stays_until_it_is_released(self):
        producer, consumer = pair(framelane)
        producer.publish(bytes(100))
        producer.publish(bytes(100))
        first, second = consumer.take(), consumer.take()
        self.assertFalse(first.released)
        first.release()
        self.assertTrue(first.released)
        del second
        self.wait_for_slots(consumer)

    def test_take_many_takes_what_is_there(self):
        producer, consumer = pair(framelane, max_held=8, consumer={"max_held": 8})
        for i in range(5):
            producer.publish(bytes([i]) * 100)
        frames = consumer.take_many(3)
        frames += consumer.take_many(9)
        self.assertEqual([f.seq for f in frames], [0, 1, 2, 3, 4])
        with self.assertRaises(ValueError):
            consumer.take_many(0)

    def test_latest_takes_the_newest(self):
        producer, consumer = pair(framelane, consumer={"mode": "latest"})
        for i in range(5):
            producer.publish(bytes([i]) * 100)
        frame = consumer.take()
        self.assertEqual((frame.seq, frame.skipped), (4, 4))

    def test_tells_what_travels_with_a_frame(self):
        producer, consumer = pair(framelane, stamps="on")
        with producer.loan(100) as loan:
            loan.pts, loan.dts, loan.duration, loan.offset, loan.offset_end = 1, 2, 3, 4, 5
            loan.due, loan.capture, loan.type_id = 6, 7, 8
            loan.flags = framelane.Flag.LIVE | framelane.Flag.DISCONT
            loan.side_data = b"beside"
        f = consumer.take()
        self.assertEqual((f.pts, f.dts, f.duration, f.offset, f.offset_end, f.due, f.capture, f.type_id),
                         (1, 2, 3, 4, 5, 6, 7, 8))
        self.assertEqual(framelane.Flag(f.flags), framelane.Flag.LIVE | framelane.Flag.DISCONT)
        self.assertEqual(f.side_data, b"beside")
        self.assertGreaterEqual(f.latency, 0)
        self.assertGreater(f.published, 0)

    def test_says_none_where_there_is_no_time(self):
        producer, consumer = pair(framelane, stamps="off")
        producer.publish(bytes(100))
        f = consumer.take()
        self.assertEqual((f.pts, f.dts, f.duration, f.due, f.capture, f.latency, f.published), (None,) * 7)

    def test_flags_have_the_numbers_of_the_header(self):
        numbers = {name: 1 << int(bit) for name, bit in
                   re.findall(r"FRAMELANE_FLAG_(\w+) = 1 << (\d+)", HEADER.read_text(encoding="utf-8"))}
        self.assertEqual(len(numbers), 11)
        self.assertEqual({flag.name: flag.value for flag in framelane.Flag}, numbers)

    def test_caps_that_nobody_can_parse_are_told_as_text(self):
        for lane, caps in (("cam0", b"video/x-raw, format=NV12, width=0, height=2"), ("cam1", b"no \xff caps")):
            producer = RawProducer(lane, caps)
            self.addCleanup(producer.close)
            consumer = framelane.Consumer(lane, timeout=LIMIT)
            consumer.connect()
            producer.publish(bytes(100))
            frame = consumer.take()
            self.assertEqual((frame.caps.text, frame.caps.kind), (caps.decode("utf-8", "replace"), "other"))
            self.assertEqual((frame.shape, bytes(frame)), ((100,), bytes(100)))

    def test_types_without_a_constructor_make_no_objects(self):
        for kind in (framelane.Frame, framelane.Loan, framelane.View, framelane.Request, framelane.Call):
            for make in (kind, lambda kind=kind: kind.__new__(kind), lambda kind=kind: object.__new__(kind)):
                with self.assertRaises((TypeError, AttributeError)):
                    make()

    def test_errors_are_called_what_applications_call_them(self):
        consumer = framelane.Consumer("cam0", timeout=0)
        with self.assertRaises(framelane.Timeout) as raised:
            consumer.take()
        lines = traceback.format_exception_only(type(raised.exception), raised.exception)
        self.assertRegex("".join(lines), r"\Aframelane\.Timeout: ")
        for name in framelane.__all__:
            kind = getattr(framelane, name)
            if isinstance(kind, type) and issubclass(kind, Exception):
                self.assertEqual(f"{kind.__module__}.{kind.__name__}", "framelane." + name)


class Bytes(LaneTest):
    def test_without_numpy_a_frame_is_a_memoryview(self):
        producer, consumer = pair(framelane, caps=BGR)
        with producer.loan() as loan:
            memoryview(loan)[1, 2, 0] = 77
        view = memoryview(consumer.take())
        self.assertEqual((view.shape, view.strides, view.format, view.readonly), ((4, 6, 3), (20, 3, 1), "B", True))
        self.assertEqual(view[1, 2, 0], 77)
        with self.assertRaises(TypeError):
            view[0, 0, 0] = 1

    def test_an_inline_frame_is_read_where_it_lies(self):
        producer, consumer = pair(framelane)
        producer.publish(b"32 bytes or fewer")
        frame = consumer.take()
        self.assertEqual((bytes(frame), frame.slot), (b"32 bytes or fewer", -1))

    def test_padded_rows_are_not_contiguous(self):
        producer, consumer = pair(framelane, caps=BGR)
        with producer.loan():
            pass
        with self.assertRaisesRegex(BufferError, "padded"):
            hashlib.sha256(consumer.take())

    def test_bytes_are_lent_in_the_order_that_is_asked_for(self):
        def one(lane, caps, **size):
            producer, consumer = pair(framelane, lane, caps=caps)
            with producer.loan(**size):
                pass
            return consumer.take()

        padded = one("a", BGR)
        packed = one("b", BGR.replace("width=6", "width=8"))
        planar = one("c", "audio/x-raw, format=S16LE, rate=48000, channels=2, layout=non-interleaved", samples=4)
        flat = one("d", "audio/x-raw, format=S16LE, rate=48000, channels=1", samples=4)
        orders = (STRIDES, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, 0)
        for what, frame, wanted in (("padded", padded, (True, False, False, False, False)),
                                    ("packed", packed, (True, True, False, True, True)),
                                    ("planar", planar, (True, False, True, True, False)),
                                    ("flat", flat, (True, True, True, True, True))):
            self.assertEqual(tuple(lends(frame, flags) for flags in orders), wanted, what)

    def test_planes_lie_where_the_stream_says(self):
        producer, consumer = pair(framelane, caps="video/x-raw, format=GRAY8, width=3, height=2")
        producer.send_event("state", "framelane-layout, offset=(guint64)< 4 >, stride=(int)< 8 >, top=(uint)0;")
        producer.publish(bytes(8))  # too small for that
        with producer.loan(16):
            pass
        frames = consumer.take_many(2)
        with self.assertRaisesRegex(framelane.ProtocolError, "put at byte 4"):
            memoryview(frames[0]["gray8"])
        view = memoryview(frames[1]["gray8"])
        self.assertEqual((view.shape, view.strides), ((2, 3, 1), (8, 1, 1)))
        self.assertEqual(frames[1]["gray8"].address, frames[1].address)
        producer.send_event("state", "framelane-layout, offset=(guint64)<  >, stride=(int)<  >;")
        producer.publish(bytes(8))
        self.assertEqual(memoryview(consumer.take()["gray8"]).strides, (4, 1, 1))

    def test_planes_that_cannot_lie_so_are_refused(self):
        producer, consumer = pair(framelane, caps="video/x-raw, format=GRAY8, width=3, height=2")
        for wrong in ("offset=(guint64)< 0, x >, stride=(int)< 8, 8 >",
                      "offset=(guint64)< 0, 0 >, stride=(int)< 8, 8 >",
                      "offset=(guint64)< 0 >, stride=(int)< -8 >", "offset=(guint64)< 0 >"):
            producer.send_event("state", "framelane-layout, " + wrong)
            producer.publish(bytes(8))
            with self.assertRaisesRegex(framelane.ProtocolError, "layout of"):
                consumer.take()
        self.assertEqual(consumer.stats()["held"], 0)

    def test_a_received_frame_is_read_only(self):
        producer, consumer = pair(framelane, caps=BGR)
        with producer.loan():
            pass
        frame = consumer.take()
        self.assertTrue(frame.readonly)
        with self.assertRaises(TypeError):
            frame[...] = bytes(80)
        with self.assertRaisesRegex(TypeError, "read-only"):
            frame["bgr"][...] = bytes(72)
        with self.assertRaisesRegex(TypeError, "read-write"):
            io.BytesIO(bytes(80)).readinto(frame)

    def test_audio_of_24_bits_and_a_plane_for_each_channel_is_bytes_of_samples(self):
        producer, consumer = pair(framelane, caps="audio/x-raw, format=S24LE, rate=48000, channels=2, "
                                                  "layout=non-interleaved")
        with producer.loan(samples=4) as loan:
            memoryview(loan)[2, 1, 1] = 7
        view = memoryview(consumer.take())
        self.assertEqual((view.shape, view.strides), ((4, 2, 3), (3, 12, 1)))
        self.assertEqual([view[2, 1, i] for i in range(3)], [0, 7, 0])

    def test_its_words_escape_what_a_terminal_would_obey(self):
        producer, consumer = pair(framelane, caps="application/x-made, name=\x1b[2J")
        producer.publish(bytes(40))
        self.assertEqual(repr(consumer.take()),
                         r"<framelane.Frame 0, 40 bytes, 'application/x-made, name=\x1b[2J'>")

    def test_a_key_that_releases_the_frame_finds_nothing(self):
        producer, consumer = pair(framelane, caps=BGR)
        producer.publish(bytes(80))
        frame = consumer.take()

        class Key:
            def __index__(self):
                frame.release()
                return 0

        with self.assertRaises(framelane.ReleasedError):
            frame[Key()]


@needs_numpy
class Numpy(LaneTest):
    def one(self, caps, fill=lambda loan: None, **size):
        """A frame of these caps, on a lane of its own."""
        self.ends = getattr(self, "ends", []) + [pair(framelane, f"lane{len(getattr(self, 'ends', []))}", caps=caps)]
        producer, consumer = self.ends[-1]
        with producer.loan(**size) as loan:
            fill(loan)
        return consumer.take()

    def test_bgr_is_height_width_channels_on_the_slot_itself(self):
        def fill(loan):
            numpy.asarray(loan)[2, 3] = (1, 2, 3)
        frame = self.one(BGR, fill)
        for array in (frame.numpy(), numpy.asarray(frame), numpy.asarray(frame["bgr"]), numpy.asarray(frame[0])):
            self.assertEqual((array.shape, array.dtype.name, array.strides), ((4, 6, 3), "uint8", (20, 3, 1)))
            self.assertEqual(array[2, 3].tolist(), [1, 2, 3])
            self.assertEqual(address(array), frame.address)
            self.assertFalse(array.flags.writeable)
            with self.assertRaises(ValueError):
                array[0, 0, 0] = 1
            with self.assertRaises(ValueError):
                array.flags.writeable = True

    def test_gray_has_one_channel(self):
        self.assertEqual(self.one("video/x-raw, format=GRAY8, width=5, height=3").numpy().shape, (3, 5, 1))
        wide = self.one("video/x-raw, format=GRAY16_LE, width=5, height=3").numpy()
        self.assertEqual((wide.shape, wide.dtype.name), ((3, 5, 1), "uint16"))

    def test_nv12_is_named_planes(self):
        def fill(loan):
            numpy.asarray(loan["y"])[3, 4] = 9
            numpy.asarray(loan["uv"])[1, 2] = (7, 8)
        frame = self.one("video/x-raw, format=NV12, width=6, height=4", fill)
        planes = frame.numpy()
        self.assertEqual(list(planes), ["y", "uv"])
        self.assertEqual((planes["y"].shape, planes["y"].strides), ((4, 6), (8, 1)))
        self.assertEqual((planes["uv"].shape, planes["uv"].strides), ((2, 3, 2), (8, 2, 1)))
        self.assertEqual(planes["y"][3, 4], 9)
        self.assertEqual(planes["uv"][1, 2].tolist(), [7, 8])
        self.assertEqual(address(planes["uv"]), address(planes["y"]) + 32)
        self.assertEqual(numpy.asarray(frame).shape, (48,), "as a whole it is bytes")
        with self.assertRaisesRegex(KeyError, "only.*y.*uv"):
            frame["v"]

    def test_i420_of_odd_size_has_planes_without_padding(self):
        planes = self.one("video/x-raw, format=I420, width=5, height=3").numpy()
        self.assertEqual({name: plane.shape for name, plane in planes.items()},
                         {"y": (3, 5), "u": (2, 3), "v": (2, 3)})

    def test_audio_is_samples_channels(self):
        def fill(loan):
            numpy.asarray(loan)[:, 1] = range(480)
        array = self.one("audio/x-raw, format=S16LE, rate=48000, channels=2, layout=interleaved", fill,
                         samples=480).numpy()
        self.assertEqual((array.shape, array.dtype.name), ((480, 2), "int16"))
        self.assertEqual(array[7].tolist(), [0, 7])

    def test_other_caps_are_bytes(self):
        producer, consumer = pair(framelane, caps="video/x-h264, stream-format=byte-stream")
        producer.publish(bytes(range(200)))
        frame = consumer.take()
        self.assertEqual(frame.numpy().tolist(), list(range(200)))
        self.assertEqual((frame.caps.kind, str(frame.caps)[:12]), ("other", "video/x-h264"))

    def test_tensors_go_by_name(self):
        producer, consumer = pair(framelane, tensors={"mel": ("float32", (80, 100)), "sr": (numpy.int64, (1,))},
                                  framerate=100)
        x = numpy.random.rand(80, 100).astype("float32")
        with producer.loan() as loan:
            numpy.asarray(loan["mel"])[...] = x
            loan["sr"] = numpy.array([16000])
        frame = consumer.take()
        mel = numpy.asarray(frame["mel"])
        self.assertTrue((mel == x).all())
        self.assertEqual(address(mel), frame.address)
        self.assertEqual(frame.numpy()["sr"].tolist(), [16000])
        self.assertEqual(frame.caps.arrays, {"mel": ("float32", (80, 100)), "sr": ("int64", (1,))})
        self.assertEqual((frame.caps.kind, frame.caps.framerate, frame.caps.frame_size), ("tensors", 100.0, 32008))

    def test_a_lone_tensor_is_the_frame_itself(self):
        producer, consumer = pair(framelane, tensors={"x": ("float16", (2, 3, 4))})
        producer.publish(numpy.ones((2, 3, 4), "float16"))
        frame = consumer.take()
        self.assertEqual((frame.numpy().shape, frame.numpy().dtype.name), ((2, 3, 4), "float16"))
        self.assertEqual(address(frame.numpy()), frame.address)

    def test_caps_may_change(self):
        producer, consumer = pair(framelane, caps=BGR)
        producer.publish(bytes(80))
        producer.set_caps("video/x-raw, format=GRAY8, width=8, height=2")
        producer.publish(numpy.zeros((2, 8), "u1"))
        self.assertEqual([f.numpy().shape for f in consumer.take_many(1) + consumer.take_many(1)],
                         [(4, 6, 3), (2, 8, 1)])


if __name__ == "__main__":
    unittest.main()
