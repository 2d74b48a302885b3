#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the Promela models of the ring with spin.

Each model as designed must search its whole state space and find no error. Each mutation (a step left out, or moved)
must be found out, in the way that its line says; else the check could not fail, and would prove nothing.

usage: run.py [--quick] [--only TEXT] [--list]
exit code: 0 all as expected, 1 something differs, 77 spin or a C compiler is missing
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
MEMORY_MB = 4000
MAX_DEPTH = 100_000
TIMEOUT_S = 300
SKIP = 77

CLEAN, ASSERTION, DEADLOCK = "clean", "assertion violated", "invalid end state"


class Check(NamedTuple):
    model: str
    defines: str  # options, then at most one mutation
    expect: str = CLEAN
    quick: bool = False

    @property
    def name(self) -> str:
        return f"{self.model} {self.defines}".strip()


CHECKS = [
    Check("take", "LAST=5", quick=True),
    Check("take", "LAST=5 POLICY"),
    Check("take", "LAST=4 POLICY MAX_HELD=2"),
    Check("take", "LAST=6 NE=2 BURST=1 MARGIN=0"),
    Check("take", "LAST=5 DIES=0"),
    Check("take", "LAST=5 DIES=1"),
    Check("take", "LAST=4 POLICY DIES=0"),
    Check("take", "LAST=5 EVICTS"),
    Check("take", "LAST=6 NO_RECHECK", ASSERTION, quick=True),
    Check("take", "LAST=6 HOLD_PLAIN_STORE", ASSERTION),
    Check("take", "LAST=6 HOLD_AFTER_RECHECK", ASSERTION),
    Check("take", "LAST=6 CURSOR_BEFORE_HOLD", ASSERTION),
    Check("take", "LAST=6 NO_CLEAR_ON_RETRY", DEADLOCK),
    Check("take", "LAST=6 SKIP_TO_OLDEST_ONLY", ASSERTION),
    Check("take", "LAST=6 NO_R3_FENCE", ASSERTION, quick=True),
    Check("take", "LAST=6 RETIRE_AFTER_CHECK", ASSERTION),
    Check("take", "LAST=6 TAG_LAST_ONLY", ASSERTION),
    Check("take", "LAST=6 NE=2 BURST=1 MARGIN=0 TAG_LAST_ONLY", ASSERTION),
    Check("take", "LAST=6 NO_GATE", ASSERTION),
    Check("take", "LAST=6 IGNORE_LATEST", ASSERTION),
    Check("take", "LAST=5 DIES=1 KEEP_DEAD_BITS", DEADLOCK),
    Check("take", "LAST=6 EVICTS EVICT_DROPS_BITS", ASSERTION),
    Check("wait", "", quick=True),
    Check("wait", "BURST=1"),
    Check("wait", "CONSUMERS=2 LAST=2"),
    Check("wait", "JOINS"),
    Check("wait", "ENDS"),
    Check("wait", "ENDS JOINS"),
    Check("wait", "ENDS DEMOTES"),
    Check("wait", "INTERRUPT"),
    Check("wait", "DEMOTES LAST=6"),
    Check("wait", "LOANER"),
    Check("wait", "LOANER ENDS LAST=3"),
    Check("wait", "NO_P5_FENCE", DEADLOCK, quick=True),
    Check("wait", "WAITING_PLAIN_STORE", DEADLOCK),
    Check("wait", "WAIT_NO_RECHECK", DEADLOCK),
    Check("wait", "WORD_READ_LATE", DEADLOCK),
    Check("wait", "SAME_TICKET", DEADLOCK),
    Check("wait", "CLEAR_FLAG_INSTEAD_OF_TICKET", ASSERTION),
    Check("wait", "JOINS TABLE_BEFORE_FENCE", DEADLOCK),
    Check("wait", "JOINS WELCOME_BEFORE_TABLE", DEADLOCK),
    Check("wait", "FLAG_PLAIN_STORE", DEADLOCK),
    Check("wait", "FULL_NO_RELOAD", DEADLOCK, quick=True),
    Check("wait", "CURSOR_PLAIN_STORE", DEADLOCK),
    Check("wait", "BURST=1 T6_LOOK_FIRST", DEADLOCK),
    Check("wait", "ENDS FLAG_AFTER_UNLOCK", DEADLOCK),
    Check("wait", "ENDS NO_WAKE_ON_DROP", DEADLOCK),
    Check("wait", "ENDS DROP_WAKES_ONLY_IF_SET", DEADLOCK),
    Check("wait", "INTERRUPT INTERRUPT_CHECK_FIRST", DEADLOCK),
    Check("wait", "DEMOTES LAST=6 LOOK_ONLY_IF_TOLD_GATING", DEADLOCK),
    Check("wait", "LOANER WAKE_ONE", DEADLOCK),
    Check("wait", "LOANER WAITER_CLEARS_FLAG", DEADLOCK),
    Check("wait", "LOANER FLAG_INSTEAD_OF_FULL_TICKET", DEADLOCK),
    Check("order", "", quick=True),
    Check("order", "LAST=8"),
    Check("order", "LATEST"),
    Check("order", "LATEST LAST=8"),
    Check("order", "JOINS"),
    Check("order", "JOINS LATEST"),
    Check("order", "MARKER_BEFORE_MESSAGE", ASSERTION),
    Check("order", "APPLY_BEFORE_RECHECK", ASSERTION),
    Check("order", "SKIP_APPLIES_ALL", ASSERTION),
    Check("order", "NO_CTL_IN_FRAMES", ASSERTION, quick=True),
    Check("order", "NO_RECHECK", ASSERTION),
    Check("order", "TAG_LAST_ONLY", ASSERTION),
    Check("order", "R0_NEVER_YIELDS", DEADLOCK),
    Check("order", "LATEST NO_CTL_IN_FRAMES", ASSERTION),
    Check("order", "LATEST NO_RECHECK", ASSERTION),
    Check("order", "JOINS STICKY_AT_HEAD", ASSERTION),
    Check("order", "JOINS JOIN_WITHOUT_MUTEX", ASSERTION),
]


def run(command: list, cwd: str) -> str:
    """Output of one step; a step that fails to start or to end is an error."""
    done = subprocess.run(command, cwd=cwd, text=True, timeout=TIMEOUT_S, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout[-2000:]}")
    return done.stdout


def search(check: Check, spin: str, compiler: str) -> str:
    """What pan prints about one model."""
    with tempfile.TemporaryDirectory(prefix="framelane-model-") as work:
        defines = ["-D" + word for word in check.defines.split()]
        run([spin, "-a", *defines, str(HERE / f"{check.model}.pml")], work)
        # A mutation is found within seconds: compiling it well would take longer than the search.
        level = "-O2" if check.expect == CLEAN else "-O0"
        run([compiler, level, "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}", "-o", "pan", "pan.c"], work)
        return run([os.path.join(work, "pan"), f"-m{MAX_DEPTH}", "-n"], work)


def verdict(report: str) -> str:
    """CLEAN only for a search that went everywhere."""
    for error in (ASSERTION, DEADLOCK):
        if error in report.replace("invalid end states\t", ""):
            return error
    for cut in ("max search depth too small", "out of memory", "reached -DMEMLIM", "Search not completed"):
        if cut in report:
            return f"truncated: {cut}"
    return CLEAN if re.search(r"errors: 0$", report, re.M) else "no result"


def states(report: str) -> str:
    found = re.search(r"^\s*([0-9.e+]+) states, stored", report, re.M)
    return f"{int(float(found.group(1))):,}" if found else "?"


def perform(check: Check, spin: str, compiler: str) -> bool:
    """Runs one check and prints its line."""
    began = time.monotonic()
    try:
        report = search(check, spin, compiler)
        got, count = verdict(report), states(report)
    except subprocess.TimeoutExpired:
        got, count = "timed out", "?"
    except RuntimeError as error:
        got, count = str(error), "?"
    good = got == check.expect
    took = time.monotonic() - began
    note = got if good else f"{got}, expected: {check.expect}"
    print(f"{'ok  ' if good else 'FAIL'} {check.name:<58} {count:>12} states {took:6.1f} s  {note}", flush=True)
    return good


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a subset that takes a few seconds")
    parser.add_argument("--only", default="", metavar="TEXT", help="only checks whose name contains TEXT")
    parser.add_argument("--list", action="store_true", help="print the checks and stop")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    chosen = [c for c in CHECKS if options.only in c.name and (c.quick or not options.quick)]
    if options.list:
        print("\n".join(f"{c.name:<58} {c.expect}" for c in chosen))
        return 0
    spin, compiler = shutil.which("spin"), shutil.which("gcc") or shutil.which("cc")
    if spin is None or compiler is None:
        print("skipped: " + ("spin not installed" if spin is None else "no C compiler"))
        return SKIP
    failed = [c for c in chosen if not perform(c, spin, compiler)]
    print(f"{len(chosen)} checks, {len(failed)} not as expected")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
