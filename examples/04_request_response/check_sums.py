#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the two programs, once with each of them started first, and compares what the client prints.

check_sums.py SERVER CLIENT
"""
import os
import subprocess
import sys
import tempfile
import time

EXPECTED = "1 + 2 + 3 = 6\n" + "".join(f"a hundred times that number = {i * 100}\n" for i in range(1, 5)) + \
    "five bytes: 8 bytes are a number\n"


def run(first: str, second: str, client: str) -> bool:
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
    if codes != [0, 0] or said[client] != EXPECTED:
        print(f"{first} first: exit codes {codes}, the client said:\n{said[client]}", file=sys.stderr)
        return False
    return True


def main(server: str, client: str) -> int:
    fine = [run(server, client, client), run(client, server, client)]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
