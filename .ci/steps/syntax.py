#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""syntax.py TREE: lets a configured tree's compiler read every file of it, with all warnings, and make nothing."""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def read(tree, entry):
    command = shlex.split(entry["command"])
    command = command[:command.index("-MD")] + ["-fsyntax-only", entry["file"]]
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def main():
    tree = pathlib.Path(sys.argv[1])
    entries = json.loads((tree / "compile_commands.json").read_text())
    entries = list({(e["file"], e["command"].split(" -MD ")[0]): e for e in entries}.values())
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for code, text in pool.map(lambda entry: read(tree, entry), entries):
            wrong += code != 0
            print(text, end="", flush=True)
    print(f"{len(entries)} files, {wrong} with errors or warnings")
    return 1 if wrong or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
