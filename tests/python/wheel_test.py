# SPDX-License-Identifier: MIT
"""A wheel is built, holds libframelane, and works in an environment where nothing else of Framelane is."""
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = os.environ["FRAMELANE_SOURCE"]
LIMIT = 1400  # seconds; it compiles the library

ROUND = """
import framelane, pathlib
here = pathlib.Path(framelane.__file__)
with framelane.Producer("cam0", tensors={"x": ("uint8", (4,))}) as producer:
    consumer = framelane.Consumer("cam0", timeout=30)
    consumer.connect()
    producer.publish(b"wave")
    print(bytes(next(consumer)).decode(), framelane.__version__, here.parent.parent.name)
maps = pathlib.Path("/proc/self/maps").read_text()
print({line.split()[-1] for line in maps.splitlines() if "libframelane" in line})
"""


def run(*command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def missing():
    names = [name for name in ("mesonpy", "pip", "venv") if importlib.util.find_spec(name) is None]
    return names + ([] if shutil.which("patchelf") else ["patchelf"])


@unittest.skipIf(missing(), f"not installed: {', '.join(missing())}")
class Wheel(unittest.TestCase):
    def test_a_wheel_brings_all_it_needs(self):
        folder = tempfile.TemporaryDirectory(prefix="fl", dir="/tmp")
        self.addCleanup(folder.cleanup)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        # Building leaves files in the source tree.
        source = folder.name + "/source"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("build*", ".git", ".ci", "__pycache__"))
        # Debian's meson before one that belongs to another interpreter.
        environment["PATH"] = "/usr/bin:" + environment["PATH"]
        run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--quiet",
            "--wheel-dir", folder.name, source, env=environment)
        (wheel,) = glob.glob(folder.name + "/*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        for wanted in ("framelane/__init__.py", "framelane/__init__.pyi", "framelane/py.typed", "libframelane.so"):
            self.assertTrue(any(wanted in name for name in names), f"{wanted} is not in {names}")
        place = folder.name + "/env"
        run(sys.executable, "-m", "venv", "--without-pip", place)
        run(sys.executable, "-m", "pip", "--python", place + "/bin/python", "install", "--no-index", "--quiet", wheel,
            env=environment)
        said = run(place + "/bin/python", "-c", ROUND, env=dict(environment, FRAMELANE_DIR=folder.name + "/lanes"))
        self.assertRegex(said, r"^wave \d+\.\d+\.\d+ site-packages\n")
        self.assertIn(place, said.splitlines()[1], "another libframelane was loaded")


if __name__ == "__main__":
    unittest.main()
