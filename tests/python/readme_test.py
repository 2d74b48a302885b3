# SPDX-License-Identifier: MIT
"""The Python in the READMEs runs as it stands."""
import os
import pathlib
import re
import unittest

from lane_test import LaneTest

try:
    import numpy
except ImportError:
    numpy = None

SOURCE = pathlib.Path(os.environ["FRAMELANE_SOURCE"])


def blocks(path):
    """The ```python blocks of a page, with the lines where they begin."""
    text = (SOURCE / path).read_text(encoding="utf-8")
    return [(text[:found.start()].count("\n") + 1, found[1])
            for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]


@unittest.skipIf(numpy is None, "numpy isn't installed")
class Readme(LaneTest):
    def run_blocks(self, path, at_least):
        found = blocks(path)
        self.assertGreaterEqual(len(found), at_least)
        return [self.run_code(code) for _, code in found]

    def test_the_tutorial_runs(self):
        said = self.run_blocks("src/python/README.md", 4)
        self.assertEqual(said[0], "0 0 0 (480, 640, 3) [255   0   0]\n")
        self.assertEqual(said[1], "(80, 100) float32 True 0.5\n")
        self.assertEqual(said[2], "b'hello'\n")
        self.assertEqual(said[3], "b'144'\n" + str([str(i * i).encode() for i in range(8)]) + "\n")

    def test_the_projects_own_page_runs(self):
        self.assertEqual(self.run_blocks("README.md", 1), ["0 (480, 640, 3) 7\n"])


if __name__ == "__main__":
    unittest.main()
