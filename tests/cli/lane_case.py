# SPDX-License-Identifier: MIT
"""What the tests of `framelane send`, `recv` and others share: a directory, processes that end, and files of frames."""

import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

COMMAND = os.environ["FRAMELANE_COMMAND"]
PEER = os.environ.get("FRAMELANE_LANE_PEER")
LIMIT = 60  # seconds until a hung process is killed; no test expects a duration


class LaneCase(unittest.TestCase):
    """Each test has a directory of its own, for lanes and files; what it starts is gone when it ends."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="fl", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.directory)
        self.environment = dict(os.environ, TMPDIR=self.directory, FRAMELANE_DIR=os.path.join(self.directory, "lanes"))
        os.mkdir(self.environment["FRAMELANE_DIR"], 0o700)

    def path(self, name):
        return os.path.join(self.directory, name)

    def run_command(self, *arguments, **options):
        return subprocess.run([COMMAND, *arguments], **{
            "env": self.environment, "capture_output": True, "timeout": LIMIT, "stdin": subprocess.DEVNULL,
            "check": False, **options})

    def start(self, *arguments, **options):
        process = subprocess.Popen([COMMAND, *arguments], **{
            "env": self.environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL,
            **options})
        self.addCleanup(self.end, process)
        return process

    def peer(self, *arguments):
        """lane_peer.cpp, when it is ready."""
        process = subprocess.Popen([PEER, *arguments], env=self.environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LIMIT)

    def finish(self, process, code=0):
        """Waits for its end; what it wrote, as (bytes, text)."""
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, errors.decode())
        return output, errors.decode()

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def wait_until(self, true, process=None):
        deadline = time.monotonic() + LIMIT
        while not true():
            self.assertLess(time.monotonic(), deadline)
            if process is not None:
                self.assertIsNone(process.poll(), "ended early")
            time.sleep(0.01)

    def wait_for_lane(self, name, process):
        self.wait_until(lambda: os.path.exists(os.path.join(self.environment["FRAMELANE_DIR"], name)), process)

    def interrupt(self, process):
        process.send_signal(signal.SIGINT)

    def stop(self, process):
        """Until SIGCONT, which it gets at the end of the test at the latest."""
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] == "T":
                    return
            time.sleep(0.01)
        self.fail("it doesn't stop")


def y4m(width=6, height=5, frames=4, header=b"F25:1 Ip A0:0 C420", planes=None):
    """A file whose rows need padding in the lane."""
    half = ((width + 1) // 2) * ((height + 1) // 2)
    size = planes if planes is not None else width * height + 2 * half
    text = b"YUV4MPEG2 W%d H%d %s\n" % (width, height, header)
    return text + b"".join(b"FRAME\n" + bytes((31 * i + j) % 251 for j in range(size)) for i in range(frames))


def wav(tag=1, channels=2, bits=16, rate=48000, samples=5000):
    align = channels * bits // 8
    data = bytes(i * 7 % 253 for i in range(samples * align))
    data += b"\0" * (len(data) % 2)
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, tag, channels, rate, rate * align, align, bits)
    size = len(head) + 8 + len(data)
    return b"RIFF" + struct.pack("<I", size) + head + b"data" + struct.pack("<I", samples * align) + data


def npy(descr="<f4", shape=(6, 3, 4), order="False", size=4):
    count = size
    for axis in shape:
        count *= axis
    text = ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, tuple(shape))).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(i * 5 % 256 for i in range(count))


def npy_content(data):
    """(shape, bytes) of a file of version 1."""
    length = struct.unpack("<H", data[8:10])[0]
    shape = data[10:10 + length].split(b"'shape': ")[1].split(b")")[0] + b")"
    return shape.decode(), data[10 + length:]
