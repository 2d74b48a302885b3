# SPDX-License-Identifier: MIT
"""Producers: what a loan does when its block ends or raises, and what doesn't fit."""
import struct
import unittest
from fractions import Fraction

import framelane
from c_abi import RawConsumer
from lane_test import LIMIT, LaneTest, pair

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "numpy isn't installed")
MEL = {"mel": ("float32", (80, 100))}


class Foreign:
    """An array that knows DLPack alone."""

    def __init__(self, view):
        self.view = view

    def __dlpack__(self, **wanted):
        return self.view.__dlpack__(**wanted)


def source(lane, data, caps=None, **size):
    """A loan of its own lane that holds `data`."""
    loan = framelane.Producer(lane, caps=caps).loan(**(size or {"size": len(data)}))
    loan[...] = data
    return loan


class Loans(LaneTest):
    def test_leaving_the_block_publishes(self):
        producer, consumer = pair(framelane)
        with producer.loan(100) as loan:
            self.assertIsNone(loan.published)
            memoryview(loan)[:3] = b"abc"
        self.assertIs(loan.published, True)
        self.assertEqual(bytes(consumer.take())[:3], b"abc")
        self.assertEqual(producer.stats()["published"], 1)

    def test_a_block_that_raises_discards(self):
        producer, consumer = pair(framelane, max_loans=2)
        for _ in range(20):
            with self.assertRaisesRegex(RuntimeError, "in the block"):
                with producer.loan(100):
                    raise RuntimeError("in the block")
        self.assertEqual((producer.stats()["published"], producer.stats()["loans"]), (0, 0))
        self.assertIsNone(consumer.try_take())
        producer.publish(b"fine")
        self.assertEqual(bytes(consumer.take()), b"fine")

    def test_a_loan_is_used_up(self):
        producer, _consumer = pair(framelane)
        with producer.loan(100) as loan:
            loan.publish()
        self.assertEqual(producer.stats()["published"], 1, "once")
        for use in (lambda: memoryview(loan), loan.publish, lambda: loan.slot):
            with self.assertRaisesRegex(framelane.ReleasedError, "take another one"):
                use()

    def test_a_loan_that_is_forgotten_goes_back(self):
        producer, _consumer = pair(framelane, max_loans=2)
        for _ in range(20):
            producer.loan(100)
        self.assertEqual(producer.stats()["loans"], 0)

    def test_says_when_all_loans_are_out(self):
        producer, _consumer = pair(framelane, max_loans=2)
        loans = [producer.loan(100) for _ in range(2)]
        with self.assertRaises(framelane.Full):
            producer.loan(100)
        del loans

    def test_may_be_shorter_than_asked_for(self):
        producer, consumer = pair(framelane)
        with producer.loan(1000) as loan:
            memoryview(loan)[:5] = b"short"
            loan.size = 5
        self.assertEqual(bytes(consumer.take()), b"short")
        with producer.loan(100) as loan:
            with self.assertRaisesRegex(ValueError, "has room for"):
                loan.size = 1 << 20

    def test_a_view_that_outlives_the_publishing_keeps_its_slot(self):
        producer, consumer = pair(framelane)
        with producer.loan(100) as loan:
            kept = memoryview(loan)
            kept[:4] = b"kept"
            slot = loan.slot
        for i in range(50):
            with producer.loan(100) as other:
                self.assertNotEqual(other.slot, slot)
                memoryview(other)[:4] = b"%4d" % i
            consumer.take().release()
        self.assertEqual(bytes(kept[:4]), b"kept", "nobody wrote there")
        del kept, other
        self.wait_until(lambda: producer.stats()["loans"] == 0, "the slot never came back")

    def test_an_inline_loan_may_be_outlived_too(self):
        producer, consumer = pair(framelane)
        with producer.loan(16) as loan:
            kept = memoryview(loan)
            kept[:4] = b"tiny"
        self.assertEqual(bytes(consumer.take())[:4], b"tiny")
        self.assertEqual(bytes(kept[:4]), b"tiny")

    def test_views_outlive_the_producer(self):
        producer = framelane.Producer("cam0")
        view = memoryview(producer.loan(100))
        producer.close()
        del producer
        view[:3] = b"abc"
        self.assertEqual(bytes(view[:3]), b"abc")

    def test_drops_are_told(self):
        producer, _consumer = pair(framelane, leaky="upstream", burst=2)
        self.assertEqual([producer.publish(bytes(100)) for _ in range(4)].count(False), 2)
        with producer.loan(100) as loan:
            pass
        self.assertIs(loan.published, False)
        self.assertEqual(producer.stats()["dropped_full"], 3)


class Formats(LaneTest):
    def test_tensors_become_caps(self):
        producer = framelane.Producer("feat", tensors=MEL, framerate=Fraction(30000, 1001))
        self.assertEqual(producer.caps.arrays, {"mel": ("float32", (80, 100))})
        self.assertIn("dimensions=(string)100:80", producer.caps.text)
        self.assertIn("framerate=(fraction)30000/1001", producer.caps.text)

    def test_refuses_what_no_lane_carries(self):
        for tensors, words in (({"x": ("complex64", (3,))}, "complex64"), ({"x": ("float32", ())}, "1 to 16"),
                               ({"x": ("float32", (0,))}, "dimension of 0"), ({"x": ("float32", (1,) * 17)}, "1 to 16"),
                               ({"x" * 64: ("float32", (1,))}, "at most 63")):
            with self.assertRaisesRegex(ValueError, words):
                framelane.Producer("feat", tensors=tensors)
        for tensors in ({}, "x", {"x": "float32"}, {"x": ("float32", 3)}, {3: ("float32", (3,))}):
            with self.assertRaises(TypeError):
                framelane.Producer("feat", tensors=tensors)
        with self.assertRaisesRegex(ValueError, "framerate is at most"):
            framelane.Producer("feat", tensors=MEL, framerate=1 << 32)
        with self.assertRaisesRegex(TypeError, "either caps, or tensors"):
            framelane.Producer("feat", tensors=MEL, caps="video/x-raw, format=BGR, width=1, height=1")

    def test_refuses_caps_with_the_place_of_the_mistake(self):
        with self.assertRaisesRegex(ValueError, r"(?i)position|byte"):
            framelane.Producer("cam0", caps="video/x-raw, format=BGR, width=abc, height=4")
        producer = framelane.Producer("cam0", caps="video/x-raw, format=BGR, width=6, height=4")
        with self.assertRaises(ValueError):
            producer.set_caps("video/x-raw, format=BGR, width=-1, height=4")
        self.assertEqual(producer.caps.width, 6, "the old caps stand")

    def test_tensors_that_do_not_fit_the_largest_frame_are_refused(self):
        producer = framelane.Producer("feat", tensors={"x": ("float64", (1000,))}, max_frame_size=4096)
        with self.assertRaises(framelane.TooLarge):
            producer.loan()

    def test_a_loan_too_small_for_the_caps_is_refused(self):
        producer = framelane.Producer("feat", tensors=MEL)
        with self.assertRaisesRegex(ValueError, "too few: a frame of other/tensors.* has 32000"):
            producer.loan(31999)
        with self.assertRaisesRegex(ValueError, "has room for"):
            producer.loan().size = 100

    def test_more_samples_than_memory_are_refused(self):
        producer = framelane.Producer("mic", caps="audio/x-raw, format=S16LE, rate=48000, channels=2")
        for samples in (1 << 62, 1 << 63, (1 << 62) + 1):
            with self.assertRaisesRegex(OverflowError, "more samples"):
                producer.loan(samples=samples)

    def test_without_caps_the_size_must_be_given(self):
        with self.assertRaisesRegex(ValueError, r"loan\(size\)"):
            framelane.Producer("cam0").loan()
        audio = framelane.Producer("mic0", caps="audio/x-raw, format=S16LE, rate=48000, channels=2")
        with self.assertRaisesRegex(ValueError, "how many samples"):
            audio.loan()
        self.assertEqual(audio.loan(samples=480).shape, (480, 2))

    def test_settings_that_do_not_exist_are_refused_with_a_list(self):
        with self.assertRaisesRegex(TypeError, 'Producer has no setting "brust"; it has burst, burst_time, leaky'):
            framelane.Producer("cam0", brust=3)
        with self.assertRaisesRegex(TypeError, 'Consumer has no setting "modus"; it has mode, gating'):
            framelane.Consumer("cam0", modus="latest")
        with self.assertRaisesRegex(ValueError, 'mode="newest": it is one of "every", "latest"'):
            framelane.Consumer("cam0", mode="newest")
        with self.assertRaises(ValueError):
            framelane.Producer("cam0", burst=0)
        with self.assertRaises(ValueError):
            framelane.Producer("no such name")

    def test_values_that_a_setting_cannot_have_name_it(self):
        for wrong, kind, words in (({"burst": -1}, ValueError, "burst=-1: it must be a whole number from 0"),
                                   ({"burst": 1 << 32}, ValueError, "burst=4294967296: it must be a whole number"),
                                   ({"burst": 1.5}, TypeError, "burst=1.5: it must be a whole number"),
                                   ({"max_frame_size": -1}, ValueError, "max_frame_size=-1: it must be"),
                                   ({"linger": "2"}, TypeError, "linger='2': it must be a number of seconds"),
                                   ({"linger": float("nan")}, ValueError, "linger=nan: it must be a number of seconds"),
                                   ({"spin_budget": "2"}, TypeError, "spin_budget='2': it must be a number")):
            with self.assertRaisesRegex(kind, words):
                framelane.Producer("cam0", **wrong)

    def test_two_producers_of_a_lane_are_refused(self):
        producer = framelane.Producer("cam0")
        with self.assertRaisesRegex(framelane.InUse, "in use by"):
            framelane.Producer("cam0")
        producer.close()
        framelane.Producer("cam0")


class Publishing(LaneTest):
    def test_publishes_bytes(self):
        producer, consumer = pair(framelane)
        self.assertIs(producer.publish(bytearray(b"abc"), pts=7, side_data=b"beside"), True)
        frame = consumer.take()
        self.assertEqual((bytes(frame), frame.pts, frame.side_data), (b"abc", 7, b"beside"))
        with self.assertRaisesRegex(TypeError, 'no "ptz"'):
            producer.publish(b"abc", ptz=7)
        with self.assertRaises(TypeError):
            producer.publish("a str")

    def test_bytes_are_counted_as_copied_with_and_without_attributes(self):
        producer, consumer = pair(framelane)
        for attributes in ({}, {"pts": 7}, {"side_data": b"beside"}, {"pts": 8, "flags": 2, "type_id": 3}):
            producer.publish(bytes(100), **attributes)
            with consumer.take() as frame:
                told = {name: getattr(frame, name) for name in attributes}
            self.assertEqual(told, attributes)
        self.assertEqual(producer.stats()["copied"], 4)

    def test_the_gil_is_given_up_while_bytes_are_copied(self):
        producer, consumer = pair(framelane, burst=1, max_loans=2, max_held=2)
        data = bytes(8 << 20)
        for attributes in ({}, {"pts": 7}):
            turn = None
            for _ in range(100):
                _, turn = self.meanwhile(lambda: producer.publish(data, **attributes), lambda: "had a turn")
                consumer.take().release()
                if turn is not None:
                    break
            self.assertEqual(turn, "had a turn", attributes)

    def test_what_only_has_dlpack_is_published_without_caps_too(self):
        producer, consumer = pair(framelane)
        producer.publish(Foreign(source("cam1", b"abcd" * 25)))
        self.assertEqual(bytes(consumer.take()), b"abcd" * 25)

    def test_bytes_of_the_right_size_are_a_tensor(self):
        producer, consumer = pair(framelane, tensors={"x": ("float32", (3,))})
        producer.publish(struct.pack("3f", 1, 2, 3))
        self.assertEqual(memoryview(consumer.take()).tolist(), [1, 2, 3])

    @needs_numpy
    def test_refuses_another_shape_or_type(self):
        producer, consumer = pair(framelane, tensors=MEL)
        for wrong, words in ((numpy.zeros((100, 80), "f4"), r'"mel" takes float32 \(80, 100\), not float32 '
                                                           r"\(100, 80\)"),
                             (numpy.zeros((80, 100), "f8"), r"not float64 \(80, 100\)"),
                             (numpy.zeros((80, 100), ">f4"), r"not >f4"),
                             (numpy.zeros((80, 100), "c8"), 'not elements of format "Zf"'),
                             (b"too short", r"not uint8 \(9,\)")):
            with self.assertRaisesRegex(ValueError, words):
                producer.publish(wrong)
            with self.assertRaisesRegex(ValueError, words):
                with producer.loan() as loan:
                    loan["mel"] = wrong
        self.assertEqual(producer.stats()["published"], 0)
        self.assertEqual(producer.stats()["loans"], 0)
        self.assertIsNone(consumer.try_take())

    @needs_numpy
    def test_publishes_strided_arrays(self):
        producer, consumer = pair(framelane, caps="video/x-raw, format=BGR, width=6, height=4")
        picture = numpy.arange(72, dtype="u1").reshape(4, 6, 3)
        producer.publish(picture[::-1, :, ::-1])
        self.assertTrue((consumer.take().numpy() == picture[::-1, :, ::-1]).all())
        producer.publish(numpy.asfortranarray(picture))
        self.assertTrue((consumer.take().numpy() == picture).all())

    @needs_numpy
    def test_dimensions_of_one_do_not_count(self):
        producer, consumer = pair(framelane, tensors={"x": ("float32", (1, 3, 1))})
        producer.publish(numpy.array([1, 2, 3], "f4"))
        self.assertEqual(consumer.take().numpy().tolist(), [[[1], [2], [3]]])

    @needs_numpy
    def test_publishes_a_dict_of_all_arrays(self):
        producer, consumer = pair(framelane, tensors={"a": ("int8", (2,)), "b": ("float64", (1,))})
        producer.publish({"b": numpy.array([2.5]), "a": numpy.array([1, 2], "i1")}, pts=5)
        frame = consumer.take()
        self.assertEqual((frame["a"].numpy().tolist(), frame.numpy()["b"].tolist(), frame.pts), ([1, 2], [2.5], 5))
        with self.assertRaisesRegex(ValueError, "has 2 arrays, not 1"):
            producer.publish({"a": numpy.array([1, 2], "i1")})
        with self.assertRaises(KeyError):
            producer.publish({"a": numpy.array([1, 2], "i1"), "c": numpy.array([2.5])})
        self.assertEqual(producer.stats()["loans"], 0)

    @needs_numpy
    def test_publishes_audio_of_any_length(self):
        producer, consumer = pair(framelane, caps="audio/x-raw, format=F32LE, rate=48000, channels=2")
        for count in (480, 7):
            producer.publish(numpy.full((count, 2), 0.5, "f4"))
            self.assertEqual(consumer.take().numpy().shape, (count, 2))
        with self.assertRaises(ValueError):
            producer.publish(numpy.zeros((480, 3), "f4"))

    def test_audio_comes_by_dlpack_and_by_name_too(self):
        caps = "audio/x-raw, format=S16LE, rate=48000, channels=2"
        producer, consumer = pair(framelane, caps=caps)
        sound = struct.pack("14h", *range(14))
        view = source("mic1", sound, caps, samples=7)
        for data in (Foreign(view), view, {"samples": Foreign(view)}, {"samples": sound}, sound):
            producer.publish(data, pts=5)
            with consumer.take() as frame:
                self.assertEqual((frame.shape, frame.pts, bytes(frame)), ((7, 2), 5, sound))
        for wrong, kind in (({"noise": sound}, KeyError), ({}, ValueError),
                            ({"samples": sound, "more": sound}, ValueError),
                            (Foreign(source("mic2", b"odd")), ValueError), ("a str", TypeError)):
            with self.assertRaises(kind):
                producer.publish(wrong)
        self.assertEqual(producer.stats()["loans"], 0)

    def test_a_dict_may_change_while_its_values_are_read(self):
        class Value(Foreign):
            def __dlpack__(self, **wanted):
                arrays.clear()
                return super().__dlpack__(**wanted)

        producer = framelane.Producer("mic0", caps="audio/x-raw, format=U8, rate=48000, channels=1")
        for _ in range(3):
            arrays = {"sam" + "ples": Value(source("mic1", b"abc"))}
            self.assertIs(producer.publish(arrays), True)


class Streams(LaneTest):
    def test_flush_drops_what_was_not_taken(self):
        producer, consumer = pair(framelane)
        producer.publish(b"old")
        producer.flush()
        producer.publish(b"new")
        self.assertEqual(bytes(consumer.take()), b"new")

    def test_requests_reach_the_producer(self):
        producer, consumer = pair(framelane)
        consumer.request_key_unit()
        requests = []
        self.wait_until(lambda: requests.extend(producer.take_requests()) or requests, "no request came")
        self.assertEqual((requests[0]["kind"], requests[0]["time"], requests[0]["headers"]), ("key-unit", None, False))

    def test_events_keep_their_place(self):
        producer, consumer = pair(framelane)
        seeing = RawConsumer("cam0")
        self.addCleanup(seeing.close)
        producer.send_event("stream-start", "one", 3)
        producer.send_event("tag", "taglist, title=(string)x;")
        producer.publish(b"x")
        producer.send_event("gap", pts=5, duration=6)
        producer.send_event("custom", "made", 4)
        producer.send_event("state", "sticky", 12)
        self.assertEqual(bytes(consumer.take()), b"x", "a take skips events")
        none = (1 << 64) - 1
        self.assertEqual([seeing.take_item() for _ in range(6)],
                         [("stream-start", 3, "one", none, none), ("tag", 0, "taglist, title=(string)x;", none, none),
                          "frame", ("gap", 0, "", 5, 6), ("custom", 4, "made", none, none),
                          ("state", 12, "sticky", none, none)])
        with self.assertRaisesRegex(ValueError, "stream-start, tag, gap"):
            producer.send_event("caps")

    def test_drain_and_waiting_time_out(self):
        producer, consumer = pair(framelane)
        with self.assertRaises(TimeoutError):
            producer.wait_for_consumers(2, timeout=0.01)
        producer.publish(b"x")
        with self.assertRaises(TimeoutError):
            producer.drain(timeout=0.01)
        consumer.take()
        producer.drain(timeout=LIMIT)

    def test_stats_are_dicts(self):
        producer, consumer = pair(framelane, consumer={"max_held": 3})
        producer.publish(bytes(100))
        frame = consumer.take()
        said = producer.stats()
        self.assertEqual((said["published"], said["bytes"], len(said["consumers"])), (1, 100, 1))
        self.assertEqual((said["consumers"][0]["max_held"], said["consumers"][0]["sleeping"]), (3, False))
        for count in ("sleeps", "spins"):
            self.assertIsInstance(said["consumers"][0][count], int)
        self.assertEqual((said["consumers"][0]["transport"], said["consumers"][0]["held"]), ("shm", 1))
        told = consumer.stats()
        self.assertEqual((told["taken"], told["held"], told["transport"], told["connected"]), (1, 1, "shm", True))
        self.assertEqual(told["clock_offset_error_ns"], 0, "both ends have one clock")
        self.assertEqual(set(told["latency"]) >= {"count", "p50_ns", "p99_ns", "max_ns"}, True)
        del frame


if __name__ == "__main__":
    unittest.main()
