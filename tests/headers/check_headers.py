#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public header compiles alone, and twice in a row, without a warning; those of C as C99 and as C++.

check_headers.py INCLUDE_DIR COMPILER [FLAG...]
"""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion",
         "-Werror"]


CPP = ("-x", "c++", "-std=c++20")
C99 = ("-x", "c", "-std=c99")


def compile_alone(header: Path, language: tuple, include_dir: Path, compiler: list) -> str:
    """What the compiler says; empty when all is well."""
    line = f'#include "{header.relative_to(include_dir)}"\n'
    result = subprocess.run([*compiler, *FLAGS, *language, f"-I{include_dir}", "-"], input=line + line, text=True,
                            capture_output=True)
    return f"{header}:\n{result.stderr or result.stdout}" if result.returncode != 0 else ""


def main(arguments: list) -> int:
    include_dir, compiler = Path(arguments[0]), arguments[1:]
    headers = sorted(path for path in include_dir.rglob("*") if path.suffix in {".h", ".hpp"})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        ways = [(header, CPP) for header in headers] + [(header, C99) for header in headers if header.suffix == ".h"]
        said = pool.map(lambda way: compile_alone(*way, include_dir, compiler), ways)
        complaints = [text for text in said if text]
    print("\n".join(complaints) if complaints else f"{len(headers)} public headers compile alone")
    return 1 if complaints or not headers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
