# SPDX-License-Identifier: MIT
"""The C ABI by ctypes, for what the package doesn't let through: odd caps, and events."""
import ctypes

from framelane import _framelane
from lane_test import LIMIT

# Its own library is the one that the module is linked to.
_library = ctypes.CDLL(_framelane.__file__)
_library.framelane_error_text.restype = ctypes.c_char_p

TYPES = {1: "stream-start", 2: "caps", 3: "segment", 4: "tag", 5: "gap", 6: "custom", 7: "end-of-stream", 8: "state"}


class Event(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("type", ctypes.c_int32), ("number", ctypes.c_uint32),
                ("group", ctypes.c_uint32), ("pts", ctypes.c_uint64), ("duration", ctypes.c_uint64),
                ("segment", ctypes.c_uint64 * 10), ("text", ctypes.c_char_p)]


def call(name, *arguments):
    if getattr(_library, name)(*arguments) != 0:
        raise AssertionError(f"{name}: {_library.framelane_error_text().decode()}")


class RawProducer:
    """One that may say any caps."""

    def __init__(self, lane, caps):
        self._handle = ctypes.c_void_p()
        call("framelane_producer_open", lane.encode(), None, ctypes.byref(self._handle))
        call("framelane_producer_set_caps", self._handle, caps)

    def publish(self, data):
        call("framelane_producer_publish_copy", self._handle, data, ctypes.c_size_t(len(data)), None, None, None)

    def close(self):
        _library.framelane_producer_close(self._handle)


class RawConsumer:
    """One that sees the events."""

    def __init__(self, lane):
        self._handle = ctypes.c_void_p()
        call("framelane_consumer_open", lane.encode(), None, ctypes.byref(self._handle))
        call("framelane_consumer_connect", self._handle, ctypes.c_int64(int(LIMIT * 1e9)))

    def take_item(self):
        """(type, number, text, pts, duration) of an event, or the string "frame"."""
        event = Event(size=ctypes.sizeof(Event))
        frame = ctypes.c_void_p()
        call("framelane_consumer_take_item", self._handle, ctypes.c_int64(int(LIMIT * 1e9)), ctypes.byref(frame),
             ctypes.byref(event))
        if frame.value is not None:
            _library.framelane_frame_unref(frame)
            return "frame"
        return TYPES[event.type], event.number, event.text.decode(), event.pts, event.duration

    def close(self):
        _library.framelane_consumer_close(self._handle)
