# SPDX-License-Identifier: MIT
"""What a person reads about the elements is so: gst-inspect-1.0 teaches each of them, the tables of
plugins/lane/README.md say what it prints, and every launch line of the documents runs."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from lane_test import LIMIT, LaneTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = os.path.join(ROOT, "plugins", "lane", "README.md")
SINKS = ("lanesink", "shmringsink", "udslanesink", "tcplanesink")
ELEMENTS = SINKS + ("lanesrc", "shmringsrc", "udslanesrc", "tcplanesrc")
FILM = next(iter(sorted(glob.glob("/usr/share/help/*/gnome-help/figures/display-dual-monitors.webm"))), None)

# Of the base classes, so not ours to explain.
INHERITED = {"async", "blocksize", "enable-last-sample", "last-sample", "max-bitrate", "max-lateness", "name", "parent",
             "processing-deadline", "qos", "render-delay", "sync", "throttle-time", "ts-offset", "do-timestamp",
             "num-buffers", "typefind"}

FOR_EVER = "18446744073709551615"
# The design's table of defaults.
BOTH = {"lane": "null", "max-held": "4", "max-frame-size": str(256 << 20), "spin": "adaptive", "spin-budget": "0.02"}
SINK = {"burst": "8", "burst-time": "0", "leaky": "auto", "full-timeout": "1000000000", "stall-timeout": "5000000000",
        "history": "0", "max-loans": "16", "max-consumers": "32", "wait-for-consumers": "-1", "stamps": "auto",
        "linger": "2000000000", "sync": "false", "enable-last-sample": "false", "processing-deadline": "0"}
SOURCE = {"mode": "every", "gating": "true", "reconnect": "true", "connect-timeout": "10000000000", "is-live": "true",
          "timestamp-mode": "auto"}
# Of the elements that have them.
SOCKETS = {"handshake-timeout": "2000000000", "insecure": "false", "psk-file": "null", "host": "127.0.0.1"}
HAVE = {"lanesink": {"handshake-timeout", "insecure", "psk-file"}, "lanesrc": {"psk-file"},
        "shmringsink": set(), "shmringsrc": set(), "udslanesink": {"handshake-timeout"}, "udslanesrc": set(),
        "tcplanesink": set(SOCKETS), "tcplanesrc": {"psk-file", "host"}}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Inspected:
    """What gst-inspect-1.0 prints of an element."""

    def __init__(self, element):
        self.text = subprocess.run(["gst-inspect-1.0", "--no-colors", element], capture_output=True, text=True,
                                   timeout=LIMIT, check=True).stdout
        self.description = re.search(r"Description +(.*)", self.text)[1]
        self.blurbs, self.types, self.defaults = {}, {}, {}
        name = None
        for line in self.text[self.text.index("Element Properties"):].splitlines():
            if heading := re.match(r"  ([a-z-]+) +: (.*)", line):
                name = heading[1]
                self.blurbs[name] = heading[2]
            if name and (default := re.search(r"(\S.*?)\.?(?: Range:.*| +)Default: +(?:\d+, )?(.*?) *$", line)):
                self.types.setdefault(name, default[1])
                self.defaults.setdefault(name, default[2].strip('"'))
        self.own = set(self.blurbs) - INHERITED
        self.signals = set(re.findall(r'^  "([a-z-]+)" :', self.text, re.M))


def page(element):
    text = read(PAGES)
    start = text.index(f"\n## {element}\n") + 1
    end = text.find("\n## ", start)
    return text[start:end]


def table(element, heading):
    """The rows below the heading row that begins with `heading`."""
    lines = page(element).splitlines()
    first = next(i for i, line in enumerate(lines[1:]) if line.startswith("| ---") and
                 lines[i].startswith(f"| {heading} |")) + 2
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def names(cell):
    return re.findall(r"`([a-z0-9-]+)`", cell)


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.inspected = {element: Inspected(element) for element in ELEMENTS}

    def test_defaults_are_those_of_the_design(self):
        for element, inspected in self.inspected.items():
            for name, default in {**BOTH, **(SINK if "sink" in element else SOURCE)}.items():
                self.assertEqual(inspected.defaults.get(name), default, f"{element} {name}")
            for name, default in SOCKETS.items():
                self.assertEqual(name in inspected.own, name in HAVE[element], f"{element} {name}")
                self.assertEqual(inspected.defaults.get(name, default), default, f"{element} {name}")

    def test_descriptions_and_blurbs_teach(self):
        units = r"\(ns|\(frames|\(bytes|\(slots|[Cc]onsumers|CPU|Port"
        for element, inspected in self.inspected.items():
            self.assertGreater(len(inspected.description), 120, element)
            for name in inspected.own:
                self.assertGreater(len(inspected.blurbs[name]), 15, f"{element} {name}")
                if re.match(r"(Unsigned )?Integer|Double", inspected.types.get(name, "")):
                    self.assertRegex(inspected.blurbs[name], units, f"{element} {name}")

    def test_property_tables_are_complete_and_true(self):
        for element, inspected in self.inspected.items():
            rows = {names(row[0])[0]: row[1].strip("`") for row in table(element, "property")}
            self.assertEqual(set(rows), inspected.own, element)
            for name, default in rows.items():
                if default:
                    self.assertEqual(inspected.defaults[name], default, f"{element} {name}")

    def test_signals_are_those_of_the_page(self):
        rows = {re.match(r"`([a-z-]+) \(", row[0])[1] for row in table("lanesink", "signal")}
        for sink in SINKS:
            self.assertEqual(rows, self.inspected[sink].signals, sink)

    def test_stats_fields_are_those_of_the_page(self):
        script = ("import sys, gi; gi.require_version('Gst', '1.0'); from gi.repository import Gst; Gst.init(None); "
                  "p = Gst.parse_launch(sys.argv[1]); p.set_state(Gst.State.PAUSED); "
                  "s = p.get_by_name('e').get_property('stats'); "
                  "print(*[s.nth_field_name(i) for i in range(s.n_fields())]); p.set_state(Gst.State.NULL)")
        directory = tempfile.mkdtemp(prefix="framelane-test-")
        self.addCleanup(shutil.rmtree, directory)
        for element, pipeline in (("lanesink", "videotestsrc is-live=true ! lanesink name=e lane=stats"),
                                  ("lanesrc", "lanesrc name=e lane=stats ! fakesink")):
            done = subprocess.run([sys.executable, "-c", script, pipeline], capture_output=True, text=True,
                                  timeout=LIMIT, check=True, env=dict(os.environ, FRAMELANE_DIR=directory))
            documented = {name for row in table(element, "`stats`") for name in names(row[0])}
            self.assertEqual(documented, set(done.stdout.split()), element)


def launch_blocks(path):
    """The fenced blocks that hold launch lines, each a list of lines."""
    for block in re.findall(r"^```sh\n(.*?)^```", read(path), re.M | re.S):
        lines = [line for line in block.splitlines() if line.startswith("gst-launch-1.0 ")]
        if lines:
            yield lines


class Line:
    """A launch line that runs."""

    def __init__(self, test, text, port):
        self.text = text
        self.receives = re.search(r"lanesrc|shmringsrc|uri=lane", text) is not None
        self.ends = "num-buffers" in text
        text = re.sub(r"auto(video|audio)sink", "fakesink sync=true", text)  # a test has no screen
        text = text.replace("7411", port)  # other tests run at the same time
        self.process = test.start(*text.replace("location=film.webm", f"location={FILM}").split())

    def connected(self):
        return any("connected to" in line for line in list(self.process.err))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


class LaunchLines(LaneTest):
    def run_block(self, texts):
        self.env["GST_DEBUG"] = "lane:4"
        here = os.getcwd()
        os.chdir(self.directory)
        self.addCleanup(os.chdir, here)
        port = free_port()
        lines = [Line(self, text, port) for text in texts]
        for line in lines:
            if line.receives:
                self.until("connected: " + line.text, lambda each=line: each.connected() or not each.process.running())
        time.sleep(0.5)  # some frames
        # Receivers first: `-e` writes the end of a file, and needs a producer that goes on.
        finite = any(line.ends for line in lines)
        for line in reversed(lines):
            if not finite and line.process.running():
                line.process.signal(signal.SIGINT)
            status = line.process.wait()
            self.assertEqual(status, 0, line.text + "\n" + "\n".join(line.process.err[-20:]))
            self.assertTrue(line.connected() or not line.receives, line.text)

    def check(self, path):
        blocks = list(launch_blocks(path))
        self.assertTrue(blocks)
        for lines in blocks:
            with self.subTest(lines[0]):
                if FILM is None and "film.webm" in "".join(lines):
                    continue
                self.setUp()  # a directory for each
                self.run_block(lines)

    def test_pages_of_the_elements(self):
        self.check(PAGES)

    def test_readme(self):
        self.check(os.path.join(ROOT, "README.md"))


if __name__ == "__main__":
    unittest.main()
