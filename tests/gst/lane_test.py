# SPDX-License-Identifier: MIT
"""What the element tests share: processes with time limits, and directories of their own."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import zlib

DUMP = os.environ["FRAMELANE_DUMP"]
LIMIT = 60.0  # seconds; a hang, not a slow machine

# The same tests over each transport: "shm", "uds" or "tcp"; without it lanesink and lanesrc choose.
TRANSPORT = os.environ.get("FRAMELANE_TEST_TRANSPORT", "")
OVER_A_STREAM = TRANSPORT in ("uds", "tcp")


def address_of(lane, directory):
    """The descriptor of a lane over the tested transport. With TCP an address of loopback that depends on the lane
    directory, so that no other test has it."""
    if TRANSPORT != "tcp":
        return lane
    host = ".".join(str(1 + byte % 254) for byte in zlib.crc32(directory.encode()).to_bytes(4, "big")[:3])
    return f"lane.tcp://127.{host}:{20000 + zlib.crc32(lane.encode()) % 10000}/{lane}"


def place_of(lane, directory):
    """Where consumers connect: the path of a socket; with TCP host and port."""
    if TRANSPORT != "tcp":
        return os.path.join(directory, lane + (".stream" if TRANSPORT == "uds" else ""))
    host, port = re.search(r"//([0-9.]+):([0-9]+)/", address_of(lane, directory)).groups()
    return host, int(port)


def raw_peer(lane, directory):
    """A connection to a lane's producer that has said nothing yet."""
    family = socket.AF_INET if TRANSPORT == "tcp" else socket.AF_UNIX
    peer = socket.socket(family, socket.SOCK_STREAM if OVER_A_STREAM else socket.SOCK_SEQPACKET)
    peer.connect(place_of(lane, directory))
    return peer


def is_served(lane, directory):
    """Whether somebody listens for the lane's consumers."""
    if TRANSPORT != "tcp":
        return os.path.exists(place_of(lane, directory))
    host, port = place_of(lane, directory)
    local = bytes(int(byte) for byte in reversed(host.split("."))).hex().upper() + f":{port:04X}"
    with open("/proc/net/tcp", encoding="ascii") as sockets:
        return any(row.split()[1] == local and row.split()[3] == "0A" for row in sockets)  # LISTEN


def over(pipeline, directory):
    """A pipeline's text with the elements of the tested transport, and with addresses of the lanes."""
    if not TRANSPORT:
        return pipeline
    prefix = "shmring" if TRANSPORT == "shm" else TRANSPORT + "lane"
    pipeline = re.sub(r"\blane(sink|src)\b", prefix + r"\1", pipeline)
    return re.sub(r"\blane=([a-z]+)\b(?![.:/-])", lambda found: "lane=" + address_of(found[1], directory), pipeline)


class Process:
    """A child whose output is read all the time, so that it never waits for us."""

    def __init__(self, command, env):
        self.popen = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, errors="replace")
        self.out = []
        self.err = []
        self._threads = [threading.Thread(target=self._read, args=pair, daemon=True)
                         for pair in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.popen.pid

    def signal(self, number):
        self.popen.send_signal(number)

    def running(self):
        return self.popen.poll() is None

    def wait(self, seconds=LIMIT):
        """Exit status; the output is complete."""
        status = self.popen.wait(seconds)
        for thread in self._threads:
            thread.join(seconds)
        return status

    def end(self):
        if self.running():
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
        self.popen.wait(LIMIT)
        for thread in self._threads:
            thread.join(LIMIT)
        self.popen.stdout.close()
        self.popen.stderr.close()


class LaneTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="framelane-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.lanes = os.path.join(self.directory, "lanes")
        self.env = dict(os.environ, FRAMELANE_DIR=self.lanes)

    def start(self, *command):
        process = Process(command, self.env)
        self.addCleanup(process.end)
        return process

    def launch(self, pipeline, *options):
        """A gst-launch-1.0 process."""
        return self.start("gst-launch-1.0", *options, *over(pipeline, self.lanes).split())

    def dump(self, pipeline, *options):
        """A process that prints what reaches the element `out`."""
        return self.start(DUMP, *options, over(pipeline, self.lanes))

    def finish(self, process, status=0):
        self.assertEqual(process.wait(), status, "\n".join(process.err[-20:] + process.out[-5:]))
        return process

    def until(self, what, condition, seconds=LIMIT):
        """Waits for a condition; only a hang makes it fail."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail("never came: " + what)
            time.sleep(0.01)

    def until_served(self, lane="x"):
        self.until("lane " + lane, lambda: is_served(lane, self.lanes))

    def until_prints(self, process, text, times=1):
        def printed():
            return sum(text in line for line in list(process.out)) >= times or not process.running()

        self.until(text, printed)
        self.assertTrue(sum(text in line for line in process.out) >= times, "\n".join(process.err))


CROSSES = ("stream-start", "caps", "segment", "tag", "gap", "custom", "eos", "buffer")


def crossing(lines, ids=False):
    """The lines that a lane carries, without what the receiving pipeline decides: where the segment lies in its running
    time, and the ids that a pipeline without a lane makes up by itself."""
    kept = []
    for line in lines:
        kind = line.split(" ", 1)[0]
        if kind not in CROSSES:
            continue
        if kind == "segment":
            line = line[:line.index(" base=")]
        if kind == "stream-start" and not ids:
            line = line[:line.index(" id=")]
        kept.append(line)
    return kept


def buffers(process):
    return [line for line in process.out if line.startswith("buffer")]


class ComparingTest(LaneTest):
    """The same pipeline with and without a lane."""

    def through_a_lane(self, source, sender="lanesink", receiver="lanesrc", options=()):
        """Sends with gst-launch, receives with dump. Returns the receiver."""
        receiving = self.dump(f"{receiver} lane=x ! fakesink name=out", *options)
        sending = self.launch(f"{source} ! {sender} lane=x")
        self.finish(sending)
        return self.finish(receiving)

    def same(self, source, ids=False, **kwargs):
        direct = self.finish(self.dump(f"{source} ! fakesink name=out"))
        received = self.through_a_lane(source, **kwargs)
        self.assertTrue(buffers(direct))
        self.assertEqual(crossing(received.out, ids), crossing(direct.out, ids))
        return received
