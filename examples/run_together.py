#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs programs side by side in a lane folder of their own and compares what the first one prints.

run_together.py [--in-turns] EXPECTED COMMAND [-- COMMAND]...

EXPECTED      a file with all that it prints, or lines with a bar between them, which may come in any order
--in-turns    once more in the other order: whoever is started first waits for the others
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def split(arguments: list) -> list:
    commands = [[]]
    for argument in arguments:
        if argument == "--":
            commands.append([])
        else:
            commands[-1].append(argument)
    return commands


def is_right(said: str, expected: str) -> bool:
    if os.path.isfile(expected):
        return said == pathlib.Path(expected).read_text()
    return sorted(said.splitlines()) == sorted(expected.split("|"))


def run(commands: list, order: list, pause: float, expected: str) -> bool:
    """Starts the commands in that order of their numbers, with a pause after each."""
    processes = {}
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FRAMELANE_DIR=folder)
        try:
            for number in order:
                stdout = subprocess.PIPE if number == 0 else subprocess.DEVNULL
                processes[number] = subprocess.Popen(commands[number], env=env, stdout=stdout, text=True)
                time.sleep(pause)
            said = processes[0].communicate(timeout=50)[0]
            codes = [processes[number].wait(timeout=20) for number in sorted(processes)]
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    fine = not any(codes) and is_right(said, expected)
    if not fine:
        print(f"started in the order {order}: exit codes {codes}; the first program said:\n{said}", file=sys.stderr)
    return fine


def main(*arguments: str) -> int:
    in_turns = arguments[0] == "--in-turns"
    expected, *rest = arguments[1:] if in_turns else arguments
    commands = split(rest)
    order = list(range(len(commands)))
    pause = 0.2 if in_turns else 0  # so that the first one really is there first
    orders = [order, order[::-1]] if in_turns else [order]
    fine = [run(commands, one, pause, expected) for one in orders]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
