#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The core library needs the C and C++ runtime and nothing else.

check_needed.py LIBRARY
"""
import re
import subprocess
import sys

ALLOWED = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|ld-linux[\w-]*)\.so\.\d+")


def main(library: str) -> int:
    dynamic = subprocess.run(["readelf", "--dynamic", "--wide", library], check=True, capture_output=True, text=True,
                             env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    needed = re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", dynamic)
    surplus = [name for name in needed if not ALLOWED.fullmatch(name)]
    print(f"needs {', '.join(needed) or 'nothing?'}")
    if surplus:
        print(f"the core library must not need {', '.join(surplus)}", file=sys.stderr)
    return 1 if surplus or not needed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
