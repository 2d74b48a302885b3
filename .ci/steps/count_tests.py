#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds up the tests of one `meson test` run.

count_tests.py TESTLOG.JSON EXIT_CODE

First line: "passed failed skipped". Then a line for each program that failed or was skipped. A GoogleTest or unittest
program counts with all its tests, any other program as one test. The numbers come from what the programs printed in
this run, so nothing stale is counted.
"""
import json
import re
import sys

FINE = {"OK", "EXPECTEDFAIL"}


def last_number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text, re.M)
    return int(found[-1]) if found else 0


def count_gtest(text: str) -> tuple:
    passed = last_number(r"^\[  PASSED  \] (\d+) tests?\.", text)
    failed = last_number(r"^\[  FAILED  \] (\d+) tests?, listed below", text)
    skipped = last_number(r"^\[  SKIPPED \] (\d+) tests?, listed below", text)
    return passed, failed, skipped


def count_unittest(text: str) -> tuple:
    ran = last_number(r"^Ran (\d+) tests? in", text)
    closing = (re.findall(r"^(?:OK|FAILED)(?: \((.*)\))?$", text, re.M) or [""])[-1]
    told = {name.strip(): int(number) for name, number in re.findall(r"([a-z ]+)=(\d+)", closing)}
    failed = told.get("failures", 0) + told.get("errors", 0)
    skipped = told.get("skipped", 0)
    return max(ran - failed - skipped, 0), failed, skipped


def count_program(test: dict) -> tuple:
    result = test["result"]
    if result == "SKIP":
        return 0, 0, 1
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    passed, failed, skipped = (sum(pair) for pair in zip(count_gtest(text), count_unittest(text)))
    if result not in FINE:
        return passed, max(failed, 1), skipped  # also when it crashed or ran out of time before it could count
    return passed or (0 if skipped else 1), 0, skipped


def skipped_inside(text: str) -> list:
    """The tests that a program skipped, by name; unittest programs name them with -v."""
    return sorted(set(re.findall(r"^\[  SKIPPED \] (\w[\w/]*\.[\w/]+)$", text, re.M) +
                      re.findall(r"^(test_\w+) .*\.\.\. skipped .*$", text, re.M)))


def remarks(test: dict) -> list:
    """What a reader should know of a program: that it failed, or what it skipped and why."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    names = skipped_inside(text)
    lines = [f"skipped: {test['name']}: {name}" for name in names[:3]]
    if len(names) > 3:
        lines.append(f"skipped: {test['name']}: {len(names) - 3} more")
    if test["result"] == "SKIP":
        words = re.findall(r"^.*skip.*$", text, re.M | re.I)
        return [f"skipped: {test['name']}" + (": " + words[0].strip() if words else "")]
    return lines if test["result"] in FINE else [f"{test['result'].lower()}: {test['name']}", *lines]


def main(path: str, exit_code: int) -> None:
    try:
        with open(path) as lines:
            tests = [json.loads(line) for line in lines if line.strip()]
    except FileNotFoundError:
        print("0 1 0\n   no test ran")
        return
    passed, failed, skipped = (sum(column) for column in zip((0, 0, 0), *map(count_program, tests)))
    if exit_code != 0 and failed == 0:
        failed = 1  # Meson itself failed
    print(passed, failed, skipped)
    for test in tests:
        for remark in remarks(test):
            print(f"   {remark}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
