#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count_tests.py adds up what ran, and can't be talked out of a failure."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COUNT = Path(__file__).resolve().parent.parent.parent / ".ci/steps/count_tests.py"

GTEST = """[==========] 7 tests from 2 test suites ran. (3 ms total)
[  PASSED  ] 4 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Ring.NeedsHugePages
"""
GTEST_FAILED = GTEST + """[  FAILED  ] 2 tests, listed below:
[  FAILED  ] Ring.A
[  FAILED  ] Ring.B
"""


class CountTests(unittest.TestCase):
    def count(self, *tests, exit_code=0):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            for number, (result, output) in enumerate(tests):
                log.write(json.dumps({"name": f"test {number}", "result": result, **output}) + "\n")
            log.flush()
            return self.run_count(log.name, exit_code)

    def run_count(self, path, exit_code):
        run = subprocess.run([sys.executable, COUNT, path, str(exit_code)], check=True, capture_output=True, text=True)
        return run.stdout.splitlines()

    def test_counts_every_test_of_a_gtest_program(self):
        self.assertEqual(self.count(("OK", {"stdout": GTEST})), ["4 0 1", "   skipped: test 0: Ring.NeedsHugePages"])

    def test_names_only_the_first_of_many_skipped_tests(self):
        many = "".join(f"[  SKIPPED ] Ring.T{number}\n" for number in range(9))
        lines = self.count(("OK", {"stdout": "[  SKIPPED ] 9 tests, listed below:\n" + many}))
        self.assertEqual([lines[0], len(lines), lines[-1]], ["0 0 9", 5, "   skipped: test 0: 6 more"])

    def test_counts_failures_and_names_the_program(self):
        lines = self.count(("FAIL", {"stdout": GTEST_FAILED}), ("OK", {}), exit_code=1)
        self.assertEqual(lines[:2], ["5 2 1", "   fail: test 0"])

    def test_counts_unittest_programs(self):
        passed = "Ran 9 tests in 0.1s\n\nOK (skipped=2)\n"
        failed = "Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n"
        self.assertEqual(self.count(("OK", {"stderr": passed}), ("FAIL", {"stderr": failed}), exit_code=1)[0], "10 2 2")

    def test_counts_a_plain_program_as_one(self):
        self.assertEqual(self.count(("OK", {"stdout": "hello"}), ("OK", {}))[0], "2 0 0")

    def test_a_crash_after_passing_tests_is_a_failure(self):
        self.assertEqual(self.count(("ERROR", {"stdout": "[  PASSED  ] 4 tests.\n"}), exit_code=1)[0], "4 1 0")

    def test_a_time_out_is_a_failure(self):
        self.assertEqual(self.count(("TIMEOUT", {}), exit_code=1)[0], "0 1 0")

    def test_says_why_a_test_was_skipped(self):
        lines = self.count(("SKIP", {"stdout": "skipped: no 32-bit compiler here\n"}))
        self.assertEqual(lines, ["0 0 1", "   skipped: test 0: skipped: no 32-bit compiler here"])

    def test_meson_that_fails_without_saying_which_test_is_a_failure(self):
        self.assertEqual(self.count(("OK", {}), exit_code=2)[0], "1 1 0")

    def test_a_suite_of_which_nothing_ran_is_a_failure(self):
        self.assertEqual(self.run_count("/nonexistent/log.json", 0), ["0 1 0", "   no test ran"])


if __name__ == "__main__":
    unittest.main()
