# SPDX-License-Identifier: MIT
"""When slots go back: views, DLPack, threads, the end of the interpreter, kills, leaks."""
import ctypes
import gc
import os
import signal
import sys
import threading
import unittest

import framelane
from lane_test import LIMIT, LaneTest, pair

try:
    import numpy
except ImportError:
    numpy = None

needs_numpy = unittest.skipIf(numpy is None, "numpy isn't installed")
X = {"x": ("float32", (32, 32))}


def address(array):
    return array.__array_interface__["data"][0]


def rss():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("dtype", DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


def open_capsule(capsule, name, kind):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return kind.from_address(get(capsule, name))


def consume(capsule, name):
    """What a library does with a capsule that it takes over: the name says so, and the deleter is its business."""
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    rename(capsule, name)


class Views(LaneTest):
    def one(self, **settings):
        producer, consumer = pair(framelane, tensors=X, **settings)
        with producer.loan() as loan:
            memoryview(loan)[3, 4] = 7
        return producer, consumer, next(consumer)

    def test_a_slot_returns_with_its_last_view(self):
        producer, consumer, frame = self.one()
        views = [memoryview(frame), memoryview(frame["x"]), frame["x"], frame.__dlpack__()]
        frame.release()
        del frame
        while views:
            self.assertEqual(consumer.stats()["held"], 1)
            views.pop()
        self.assertEqual(consumer.stats()["held"], 0)

    def test_views_live_longer_than_consumer_and_producer(self):
        producer, consumer, frame = self.one()
        view = memoryview(frame)
        consumer.close()
        producer.close()
        del producer, consumer, frame
        self.assertEqual(view[3, 4], 7)

    def test_the_last_view_may_go_on_another_thread(self):
        _producer, consumer, frame = self.one()
        views = [memoryview(frame)]
        frame.release()
        thread = threading.Thread(target=views.pop)
        thread.start()
        thread.join(LIMIT)
        self.assertEqual(consumer.stats()["held"], 0)

    def test_a_consumer_that_keeps_every_frame_gets_copies(self):
        producer, consumer = pair(framelane, tensors=X, consumer={"max_held": 3})
        kept = []
        for i in range(50):
            with producer.loan() as loan:
                memoryview(loan)[0, 0] = i
            kept.append(memoryview(next(consumer)))
        self.assertEqual([view[0, 0] for view in kept], list(range(50)))
        stats = consumer.stats()
        self.assertEqual((stats["held"], stats["copied"], stats["skipped"]), (3, 47, 0))
        kept.clear()
        producer.publish(bytes(4096))
        self.assertFalse(next(consumer).is_copy, "slots are lent again")

    @needs_numpy
    def test_arrays_are_the_slot(self):
        _producer, _consumer, frame = self.one()
        for array in (numpy.asarray(frame), numpy.asarray(frame["x"]), numpy.from_dlpack(frame["x"]),
                      numpy.from_dlpack(frame), frame.numpy(), frame["x"].numpy()):
            self.assertEqual(address(array), frame.address)
            self.assertEqual((array.shape, array.dtype.name, array[3, 4]), ((32, 32), "float32", 7))
            self.assertFalse(array.flags.writeable)
            with self.assertRaises(ValueError):
                array[0, 0] = 1
            with self.assertRaises(ValueError):
                array.flags.writeable = True

    def test_torch_reads_the_slot(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch isn't installed")
        _producer, consumer, frame = self.one()
        tensor = torch.from_dlpack(frame["x"])
        self.assertEqual((tensor.data_ptr(), tensor[3, 4].item()), (frame.address, 7))
        copy = torch.from_dlpack(frame["x"].__dlpack__(copy=True))
        copy[3, 4] = 8
        self.assertEqual(tensor[3, 4].item(), 7)
        frame.release()
        self.assertEqual(consumer.stats()["held"], 1)
        del tensor, copy
        self.assertEqual(consumer.stats()["held"], 0)


class DlPack(LaneTest):
    def setUp(self):
        super().setUp()
        self.producer, self.consumer = pair(framelane, tensors=X)
        with self.producer.loan() as loan:
            memoryview(loan)[3, 4] = 7
        self.frame = next(self.consumer)

    def test_versioned_capsules_are_marked_read_only(self):
        capsule = self.frame["x"].__dlpack__(max_version=(1, 1))
        managed = open_capsule(capsule, b"dltensor_versioned", Versioned)
        self.assertEqual((managed.major, managed.flags), (1, 1))
        tensor = managed.tensor
        self.assertEqual((tensor.data, tensor.device.type, tensor.device.id), (self.frame.address, 1, 0))
        self.assertEqual((tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes), (2, 32, 1))
        self.assertEqual((tensor.ndim, tensor.shape[:2], tensor.strides[:2]), (2, [32, 32], [32, 1]))

    def test_loans_are_not_read_only(self):
        loan = self.producer.loan()
        managed = open_capsule(loan.__dlpack__(max_version=(1, 0)), b"dltensor_versioned", Versioned)
        self.assertEqual(managed.flags, 0)
        del managed

    def test_copies_are_marked_and_one_s_own(self):
        capsule = self.frame.__dlpack__(max_version=(1, 0), copy=True)
        managed = open_capsule(capsule, b"dltensor_versioned", Versioned)
        self.assertEqual(managed.flags, 2)
        self.assertNotEqual(managed.tensor.data, self.frame.address)
        self.frame.release()
        self.assertEqual(self.consumer.stats()["held"], 0)
        values = (ctypes.c_float * 1024).from_address(managed.tensor.data)
        values[0] = 1
        self.assertEqual(values[3 * 32 + 4], 7)

    def test_legacy_capsules_for_who_does_not_say_a_version(self):
        for capsule in (self.frame.__dlpack__(), self.frame.__dlpack__(max_version=(0, 8))):
            managed = open_capsule(capsule, b"dltensor", Legacy)
            self.assertEqual(managed.tensor.data, self.frame.address)

    def test_a_copy_keeps_the_slot_while_it_is_made(self):
        size = 8 << 20  # so large that the GIL is given up, and that it takes a while
        producer, consumer = pair(framelane, "cam1", burst=1, max_loans=2, max_held=2)
        for name, version in ((b"dltensor_versioned", {"max_version": (1, 0)}), (b"dltensor", {})):
            for _ in range(100):
                with producer.loan(size) as loan:
                    memoryview(loan)[-1] = 7
                del loan
                frame = consumer.take()

                def release():
                    frame.release()
                    return consumer.stats()["held"]

                capsule, held = self.meanwhile(lambda: frame.__dlpack__(copy=True, **version), release)
                tensor = open_capsule(capsule, name, Versioned if version else Legacy).tensor
                self.assertEqual(ctypes.string_at(tensor.data + size - 1, 1), b"\7")
                del tensor, capsule, frame
                if held is not None:
                    break
            self.assertEqual(held, 1)
            self.assertEqual(consumer.stats()["held"], 0)

    def test_a_version_that_is_none_is_a_type_error(self):
        for wrong in (1, "1.0", [1, 0], (1,), (1, 0, 0), ("1", "0"), object()):
            with self.assertRaises(TypeError, msg=wrong):
                self.frame.__dlpack__(max_version=wrong)

    def test_refuses_other_devices_and_streams(self):
        self.assertEqual(self.frame.__dlpack_device__(), (1, 0))
        for wrong in ({"dl_device": (2, 0)}, {"stream": 1}):
            with self.assertRaisesRegex(BufferError, "the CPU's"):
                self.frame.__dlpack__(**wrong)
        self.frame.__dlpack__(dl_device=(1, 0), copy=False)
        with self.assertRaises(TypeError):
            self.frame.__dlpack__(1)

    def test_a_consumed_tensor_keeps_the_slot_until_its_deleter_runs(self):
        capsule = self.frame.__dlpack__(max_version=(1, 0))
        managed = open_capsule(capsule, b"dltensor_versioned", Versioned)
        consume(capsule, b"used_dltensor_versioned")
        self.frame.release()
        del capsule
        self.assertEqual(self.consumer.stats()["held"], 1)
        # As torch's own threads do: without the GIL (CFUNCTYPE gives it up).
        delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
        thread = threading.Thread(target=delete, args=(ctypes.addressof(managed),))
        thread.start()
        thread.join(LIMIT)
        self.assertEqual(self.consumer.stats()["held"], 0)

    def test_arguments_that_release_the_frame_export_nothing(self):
        frame = self.frame

        class Truth:
            def __bool__(self):
                frame.release()
                return False

        with self.assertRaises(framelane.ReleasedError):
            frame.__dlpack__(copy=Truth())

    def test_a_loan_that_its_value_discards_stays_until_the_copy_is_made(self):
        producer, source = framelane.Producer("cam1"), self.frame
        loan = producer.loan(4096)

        class Value:
            def __dlpack__(self, **wanted):
                loan.discard()
                producer.close()
                return source.__dlpack__(**wanted)

        with self.assertRaisesRegex(ValueError, "takes uint8"):
            loan[...] = Value()
        self.assertTrue(loan.released)

    def test_a_loan_keeps_its_size_while_it_is_copied_to(self):
        loan, source, refusals = framelane.Producer("cam1").loan(4096), self.frame, []

        class Value:
            def __dlpack__(self, **wanted):
                try:
                    loan.size = 100
                except BufferError as refusal:
                    refusals.append(str(refusal))
                return source.__dlpack__(**wanted)

        with self.assertRaisesRegex(ValueError, "takes uint8"):
            loan[...] = Value()
        self.assertIn("the size can't change", refusals[0])

    def test_publishes_what_only_has_dlpack(self):
        class Foreign:
            def __init__(self, view, versioned):
                self.view, self.versioned = view, versioned

            def __dlpack__(self, **wanted):
                if wanted and not self.versioned:
                    raise TypeError("an old library")
                return self.view.__dlpack__(**wanted)

        for versioned in (True, False):
            self.producer.publish(Foreign(self.frame, versioned))
            with self.consumer.take() as frame:
                self.assertEqual(memoryview(frame)[3, 4], 7)
        self.frame.release()
        self.assertEqual(self.consumer.stats()["held"], 0)

    @needs_numpy
    def test_ten_thousand_frames_leak_nothing(self):
        types = (framelane.Frame, framelane.View, framelane.Loan)

        def run(count):
            for _ in range(count):
                with self.producer.loan() as loan:
                    numpy.from_dlpack(loan["x"])
                for frame in self.consumer.take_many(1):
                    self.assertFalse(frame.is_copy)
                    array = numpy.from_dlpack(frame["x"])
                    whole = frame.numpy()
                    unused = frame.__dlpack__(max_version=(1, 0))
                    copied = frame.__dlpack__(copy=True)
                del frame, array, whole, unused, copied

        self.frame.release()
        run(1000)
        gc.collect()
        before, references = rss(), [sys.getrefcount(one) for one in types]
        run(10000)
        gc.collect()
        self.assertLess(rss() - before, 2 << 20)
        self.assertEqual([sys.getrefcount(one) for one in types], references)
        self.assertEqual((self.consumer.stats()["held"], self.producer.stats()["loans"]), (0, 0))


CONSUMER = """
import sys, framelane
consumer = framelane.Consumer("cam0", timeout=60)
kept = []
for f in consumer:
    if len(kept) < 2:
        kept.append(memoryview(f))
    print(f.seq, flush=True)
"""


class Processes(LaneTest):
    def test_a_killed_consumer_costs_the_others_nothing(self):
        producer, consumer = pair(framelane, tensors=X)
        victim = self.start(CONSUMER)
        producer.wait_for_consumers(2, timeout=LIMIT)
        for _ in range(4):
            producer.publish(bytes(4096))
            next(consumer)
        for _ in range(4):
            victim.stdout.readline()
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait(LIMIT)
        self.wait_until(lambda: producer.num_consumers == 1, "its death wasn't noticed")
        for i in range(100):
            self.assertTrue(producer.publish(bytes(4096)))
            self.assertEqual(next(consumer).seq, 4 + i)
        self.assertEqual((consumer.stats()["skipped"], producer.stats()["dropped_full"]), (0, 0))

    def test_a_killed_producer_is_lost(self):
        victim = self.start("""
import framelane, time
producer = framelane.Producer("cam0")
producer.wait_for_consumers()
producer.publish(bytes(100))
print("sent", flush=True)
time.sleep(60)
""")
        consumer = framelane.Consumer("cam0", timeout=LIMIT, reconnect=False)
        view = memoryview(next(consumer))
        victim.stdout.readline()
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait(LIMIT)
        with self.assertRaises(framelane.PeerLost) as lost:
            next(consumer)
        self.assertIsInstance(lost.exception, ConnectionError)
        self.assertEqual(bytes(view), bytes(100))

    def test_the_interpreter_may_end_with_views_alive(self):
        out = self.run_code("""
import builtins, framelane, sys, threading
producer = framelane.Producer("cam0", tensors={"x": ("float32", (32, 32))})
consumer = framelane.Consumer("cam0", timeout=60)
consumer.connect()
for _ in range(3):
    producer.publish(bytes(4096))
frame = next(consumer)
builtins.kept = [memoryview(frame), frame["x"], frame.__dlpack__(), consumer.take(), producer.loan(), consumer]
loan = producer.loan()
builtins.more = memoryview(loan)
class Cycle: pass
cycle = Cycle(); cycle.me = cycle; cycle.view = memoryview(frame)
threading.Thread(target=lambda: [None for f in consumer], daemon=True).start()
threading.Thread(target=lambda: producer.drain(), daemon=True).start()
print("ended well")
""")
        self.assertEqual(out, "ended well\n")

    def test_a_deleter_may_run_after_the_interpreter(self):
        out = self.run_code("""
import ctypes, framelane, sys
producer = framelane.Producer("cam0")
consumer = framelane.Consumer("cam0", timeout=60)
consumer.connect()
producer.publish(bytes(100))
capsule = next(consumer).__dlpack__()
api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_void_p]
managed = api.PyCapsule_GetPointer(capsule, b"dltensor")
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
# A name of the process's: the capsule goes after the constants of this code.
api.PyCapsule_SetName(capsule, libc.strdup(b"used_dltensor"))
class Managed(ctypes.Structure):
    _fields_ = [("tensor", ctypes.c_char * int(sys.argv[1])), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
# libc calls it when the interpreter is gone.
assert libc.__cxa_atexit(Managed.from_address(managed).deleter, managed, None) == 0
print("ended well", flush=True)
""", str(ctypes.sizeof(Tensor)))
        self.assertEqual(out, "ended well\n")

    def test_a_forked_child_may_not_use_what_it_inherits(self):
        out = self.run_code("""
import framelane, os, sys
producer = framelane.Producer("cam0")
consumer = framelane.Consumer("cam0", timeout=60)
consumer.connect()
producer.publish(bytes(100))
frame = next(consumer)
child = os.fork()
if child == 0:
    said = []
    for use in (consumer.take, lambda: producer.publish(b"x"), lambda: memoryview(frame), producer.stats):
        try:
            use()
        except framelane.InvalidArgument as error:
            said.append("the process that forked" in str(error))
    print(said, flush=True)
    frame.release()
    del frame, consumer, producer
    os._exit(0 if said == [True] * 4 else 1)
assert os.waitpid(child, 0)[1] == 0
assert bytes(frame) == bytes(100) and consumer.stats()["held"] == 1
frame.release()
assert consumer.stats()["held"] == 0
producer.publish(b"still there")
print(bytes(consumer.take()))
""")
        self.assertEqual(out, "[True, True, True, True]\nb'still there'\n")


if __name__ == "__main__":
    unittest.main()
