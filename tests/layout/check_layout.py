#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the shared-memory layout of a build with expected.txt, byte for byte.

check_layout.py program PROGRAM         the layout that PROGRAM (print_layout) prints
check_layout.py m32 COMPILER            builds print_layout for 32-bit x86 and runs it; skips (77) where that can't be
check_layout.py complete                every field and constant of layout.hpp is in expected.txt

A difference means that builds can't share memory any more. If it is wanted: raise kAbiVersion (src/ring/ABI.md says
when) and replace expected.txt by print_layout's output.
"""
import difflib
import errno
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED = HERE / "expected.txt"
SKIP = 77


def compare(output: str, what: str) -> int:
    expected = EXPECTED.read_text()
    if output == expected:
        print(f"{what}: {len(output.splitlines())} lines, all as expected")
        return 0
    sys.stderr.writelines(difflib.unified_diff(
        expected.splitlines(True), output.splitlines(True), "tests/layout/expected.txt", what))
    return 1


def check_program(program: str) -> int:
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return compare(output, "this build")


def check_m32(compiler: str) -> int:
    # -idirafter: g++-12-multilib alone lacks the link /usr/include/asm, and the kernel's headers serve both sizes.
    flags = ["-m32", "-std=c++20", "-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64", f"-I{ROOT}/include", f"-I{ROOT}/src",
             "-idirafter", "/usr/include/x86_64-linux-gnu"]
    with tempfile.TemporaryDirectory() as folder:
        probe = subprocess.run([compiler, *flags, "-x", "c++", "-", "-o", f"{folder}/probe"], text=True,
                               input="#include <atomic>\nint main() { return 0; }\n", capture_output=True)
        if probe.returncode != 0:
            print(f"skipped: {compiler} can't build 32-bit programs here (Debian: install g++-12-multilib)")
            return SKIP
        subprocess.run([compiler, *flags, HERE / "print_layout.cpp", "-o", f"{folder}/print_layout"], check=True)
        try:
            output = subprocess.run([f"{folder}/print_layout"], check=True, capture_output=True, text=True).stdout
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            print("skipped: this kernel doesn't run 32-bit programs")
            return SKIP
    return compare(output, "32-bit build")


def names_in_header(header: str) -> list:
    constants = re.findall(r"^inline constexpr [\w:]+ (k\w+) =", header, re.M)
    tags = re.findall(r"^  (kTag\w+) = \d", header, re.M)
    type_name = r"(?:std::atomic<[\w:]+>|[\w:]+)"
    fields = re.findall(rf"^\s+(?:alignas\(\w+\) )*{type_name} (\w+)(?:\[[^\]]*\])?;", header, re.M)
    return constants + tags + [field for field in fields if not re.fullmatch(r"pad\d*", field)]


def check_complete() -> int:
    header = (ROOT / "src/ring/layout.hpp").read_text()
    expected = EXPECTED.read_text()
    names = names_in_header(header)
    missing = [name for name in names if not re.search(rf"^(?:\s+\d+ {name}:|{name} = )", expected, re.M)]
    for name in missing:
        print(f"layout.hpp has {name}, print_layout.cpp doesn't print it", file=sys.stderr)
    if len(names) < 50:
        print(f"only {len(names)} names found in layout.hpp: this check no longer understands it", file=sys.stderr)
        return 1
    print(f"{len(names)} names of layout.hpp looked up, {len(missing)} missing")
    return 1 if missing else 0


def main(arguments: list) -> int:
    if arguments[:1] == ["program"]:
        return check_program(arguments[1])
    if arguments[:1] == ["m32"]:
        return check_m32(arguments[1])
    if arguments == ["complete"]:
        return check_complete()
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
