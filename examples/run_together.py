#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs side by side in a lane folder of their own and compares what the first one prints.

run_together.py EXPECTED COMMAND [-- COMMAND]...    EXPECTED: lines, in any order, separated by a bar
"""
import os
import subprocess
import sys
import tempfile


def split(arguments: list) -> list:
    commands = [[]]
    for argument in arguments:
        if argument == "--":
            commands.append([])
        else:
            commands[-1].append(argument)
    return commands


def main(expected: str, *arguments: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FRAMELANE_DIR=folder)
        processes = []
        try:
            for number, command in enumerate(split(list(arguments))):
                stdout = subprocess.PIPE if number == 0 else subprocess.DEVNULL
                processes.append(subprocess.Popen(command, env=env, stdout=stdout, text=True))
            said = processes[0].communicate(timeout=50)[0]
            codes = [process.wait(timeout=20) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    if any(codes) or sorted(said.splitlines()) != sorted(expected.split("|")):
        print(f"exit codes {codes}; the first program said:\n{said}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
