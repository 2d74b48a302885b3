#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the two programs, once with each of them started first, and compares what the consumer prints.

check_hello.py PRODUCER CONSUMER
"""
import os
import subprocess
import sys
import tempfile
import time

EXPECTED = "".join(f"{i} at {i * 100} ms: Hello from frame {i}, which lies in shared memory\n" for i in range(10)) + \
    "end of text/plain\n"


def run(first: str, second: str, consumer: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FRAMELANE_DIR=folder)
        processes = []
        try:
            for program in (first, second):
                processes.append(subprocess.Popen([program], env=env, stdout=subprocess.PIPE, text=True))
                time.sleep(0.2)  # so that the first one really is there first; either order must work
            said = {process.args[0]: process.communicate(timeout=20)[0] for process in processes}
        finally:
            for process in processes:
                process.kill()
                process.wait()
    codes = [process.returncode for process in processes]
    if codes != [0, 0] or said[consumer] != EXPECTED:
        print(f"{first} first: exit codes {codes}, the consumer said:\n{said[consumer]}", file=sys.stderr)
        return False
    return True


def main(producer: str, consumer: str) -> int:
    fine = [run(producer, consumer, consumer), run(consumer, producer, consumer)]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
