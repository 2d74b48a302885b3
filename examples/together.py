#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs commands side by side with a lane folder of their own; all must end well, and together say what is expected.

together.py REGULAR_EXPRESSION COMMAND... [-- COMMAND...]...
"""
import os
import re
import subprocess
import sys
import tempfile


def split(words: list) -> list:
    commands = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def main(expected: str, *words: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FRAMELANE_DIR=folder, PYTHONUNBUFFERED="1")
        processes = []
        try:
            for command in split(list(words)):
                processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
            said = "".join([process.communicate(timeout=50)[0] for process in processes])
        finally:
            for process in processes:
                process.kill()
                process.wait()
    print(said, end="")
    codes = [process.returncode for process in processes]
    if any(codes) or not re.search(expected, said):
        print(f"exit codes {codes}; expected: {expected}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
