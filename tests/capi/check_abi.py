#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the C ABI with abi_expected.txt: programs that were compiled against it must go on working.

check_abi.py symbols LIBRARY              what the library exports with a version, and framelane.h declares
check_abi.py structs 64|32 COMPILER...    numbers, and the layout of the structs, as the compiler sees them; skips (77)
                                          where 32-bit programs can't be built or run
check_abi.py write LIBRARY COMPILER32...  makes abi_expected.txt anew

A difference means that old programs break, unless something was only added: a function in src/framelane.map, a number,
a member at the end of a struct that has a size. Then write it anew, and look at what git says has changed.
"""
import difflib
import errno
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include"
HEADER = INCLUDE / "framelane/framelane.h"
EXPECTED = HERE / "abi_expected.txt"
SKIP = 77


def declarations() -> str:
    """The header without comments."""
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)


def functions() -> list:
    return sorted(re.findall(r"FRAMELANE_API[\w\s*]+?\b(framelane_\w+)\(", declarations()))


def symbols_of(library: str) -> str:
    listed = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions", library], check=True,
                            capture_output=True, text=True).stdout
    return "".join(f"{name}\n" for name in sorted(re.findall(r" T (framelane_\S+)", listed)))


def printer() -> str:
    """A C program that prints every number, and every struct with its members."""
    text = declarations()
    lines = []
    for body in re.findall(r"enum(?:\s+\w+)?\s*\{(.*?)\}", text, re.S):
        for name in re.findall(r"\b(FRAMELANE_\w+)\b\s*(?:=[^,}]*)?", body):
            lines.append(f'  printf("%s = %lld\\n", "{name}", (long long){name});')
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.S):
        lines.append(f'  printf("\\n%s: size %zu\\n", "{name}", sizeof({name}));')
        for member in re.findall(r"(\w+)(?:\[[^\]]*\])?;", body):
            lines.append(f'  printf("  %zu %s: size %zu\\n", offsetof({name}, {member}), "{member}", '
                         f"sizeof((({name}*)0)->{member}));")
    return ('#include <stdio.h>\n#include "framelane/framelane.h"\nint main(void) {\n' + "\n".join(lines) +
            "\n  return 0;\n}\n")


def layout(compiler: list) -> str | None:
    """None where such programs can't be built or run."""
    # -idirafter: g++-12-multilib alone lacks the link /usr/include/asm, and the kernel's headers serve both sizes.
    flags = ["-x", "c", "-std=c99", "-pedantic", "-Werror", f"-I{INCLUDE}", "-idirafter",
             "/usr/include/x86_64-linux-gnu"]
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/print_abi"
        built = subprocess.run([*compiler, *flags, "-", "-o", program], input=printer(), text=True, capture_output=True)
        if built.returncode != 0:
            print(built.stderr, file=sys.stderr)
            return None
        try:
            return subprocess.run([program], check=True, capture_output=True, text=True).stdout
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return None


def expected(section: str) -> str:
    return re.search(rf"^== {section}\n(.*?)(?=^== |\Z)", EXPECTED.read_text(), re.M | re.S)[1]


def compare(found: str, section: str) -> int:
    wanted = expected(section)
    if found == wanted:
        print(f"{section}: {len(found.splitlines())} lines, all as expected")
        return 0
    sys.stderr.writelines(difflib.unified_diff(wanted.splitlines(True), found.splitlines(True),
                                               f"abi_expected.txt, {section}", "this build"))
    return 1


def check_symbols(library: str) -> int:
    found = symbols_of(library)
    exported = sorted(re.findall(r"^(\w+)@", found, re.M))
    called = set(re.findall(r"framelane_\w+(?=\()", (HERE / "every_function.c").read_text()))
    differing = set(exported) ^ set(functions())
    for name in sorted(differing):
        print(f"{name}: only one of framelane.h and src/framelane.map has it", file=sys.stderr)
    for name in sorted(set(exported) - called):
        print(f"{name}: every_function.c doesn't call it", file=sys.stderr)
    return 1 if differing or set(exported) - called else compare(found, "symbols")


def check_structs(bits: str, compiler: list) -> int:
    found = layout(compiler)
    if found is None and bits == "32":
        print("skipped: 32-bit programs can't be built and run here (Debian: install g++-12-multilib)")
        return SKIP
    return compare(found or "", f"structs {bits}-bit")


def write(library: str, compiler32: list) -> int:
    parts = {"symbols": symbols_of(library), "structs 64-bit": layout([os.environ.get("CC", "cc").split()[-1]]),
             "structs 32-bit": layout([*compiler32, "-m32"])}
    EXPECTED.write_text("".join(f"== {name}\n{text}" for name, text in parts.items()))
    return 0


def main(arguments: list) -> int:
    if arguments[:1] == ["symbols"]:
        return check_symbols(arguments[1])
    if arguments[:1] == ["structs"]:
        return check_structs(arguments[1], arguments[2:])
    if arguments[:1] == ["write"]:
        return write(arguments[1], arguments[2:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
