#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs two programs that meet on a lane, once with each of them started first, and compares what one of them prints.

check_pair.py EXPECTED OTHER TALKER    EXPECTED: file with what TALKER prints
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def run(first: str, second: str, talker: str, expected: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FRAMELANE_DIR=folder)
        processes = []
        try:
            for program in (first, second):
                processes.append(subprocess.Popen([program], env=env, stdout=subprocess.PIPE, text=True))
                time.sleep(0.2)  # so that the first one really is there first; either order must work
            said = {process.args[0]: process.communicate(timeout=40)[0] for process in processes}
        finally:
            for process in processes:
                process.kill()
                process.wait()
    codes = [process.returncode for process in processes]
    if codes != [0, 0] or said[talker] != expected:
        print(f"{first} first: exit codes {codes}, {talker} said:\n{said[talker]}", file=sys.stderr)
        return False
    return True


def main(expected: str, other: str, talker: str) -> int:
    text = pathlib.Path(expected).read_text()
    fine = [run(other, talker, talker, text), run(talker, other, talker, text)]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
