#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_layers.py finds what it is for: each test breaks one rule in a small tree of its own."""
import tempfile
import unittest
from pathlib import Path

import check_layers

TABLE = """
| room | holds | may use |
| --- | --- | --- |
| `base` | results | (nothing) |
| `ring` | frames | base |
| `lane` | what applications call | all the above |

| folder | private headers |
| --- | --- |
| `src/cli` | base |
| `examples` | (nothing) |
"""


class LayerCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("src/README.md", TABLE)
        self.write("src/base/meson.build", "# Room: base.\n# May use: (nothing).\n")
        self.write("src/ring/meson.build", "# Room: ring.\n# May use: base.\n")
        self.write("src/lane/meson.build", "# Room: lane.\n# May use: all the rooms above.\n")
        self.write("src/ring/writer.cpp", '#include "ring/writer.hpp"\n#include <vector>\n#include "base/clock.hpp"\n')
        self.write("src/lane/producer.cpp", '#include "framelane/base/result.hpp"\n#include "ring/writer.hpp"\n')
        self.write("include/framelane/base/result.hpp", "#pragma once\n#include <sys/types.h>\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def errors(self):
        return check_layers.check_tree(self.root)[1]

    def assert_found(self, *words):
        errors = self.errors()
        self.assertEqual(len(errors), 1, errors)
        for word in words:
            self.assertIn(word, errors[0])

    def test_accepts_a_tree_that_keeps_the_rules(self):
        self.assertEqual(self.errors(), [])

    def test_finds_a_private_header_of_a_room_below(self):
        self.write("src/base/clock.cpp", '\n#include "ring/writer.hpp"\n')
        self.assert_found("src/base/clock.cpp:2", "room base", "room ring", "may use: nothing")

    def test_finds_a_public_header_of_a_room_below(self):
        self.write("src/ring/reader.cpp", '#include "framelane/lane/frame.hpp"\n')
        self.assert_found("src/ring/reader.cpp:1", "room lane", "may use: base")

    def test_finds_a_violation_in_a_public_header(self):
        self.write("include/framelane/base/result.hpp", "#pragma once\n  #  include <framelane/ring/ring.hpp>\n")
        self.assert_found("include/framelane/base/result.hpp:2", "room ring")

    def test_finds_a_violation_in_a_test(self):
        self.write("tests/ring/deep/writer_test.cpp", '#include "lane/producer_core.hpp"\n')
        self.assert_found("tests/ring/deep/writer_test.cpp:1", "room lane")

    def test_finds_a_private_header_in_an_example(self):
        self.write("examples/01_hello/hello.cpp", '#include "framelane/lane/producer.hpp"\n#include "lane/core.hpp"\n')
        self.assert_found("examples/01_hello/hello.cpp:2", "private header of room lane", "none")

    def test_allows_the_command_the_private_headers_of_its_row(self):
        self.write("src/cli/main.cpp", '#include "base/clock.hpp"\n#include "cli/table.hpp"\n')
        self.assertEqual(self.errors(), [])

    def test_tells_a_plugin_header_from_a_room_of_the_same_name(self):
        self.write("src/README.md", TABLE + "| `plugins` | (nothing) |\n")
        self.write("plugins/lane/slots.hpp", "")
        self.write("plugins/lane/sink.cpp", '#include "lane/slots.hpp"\n#include "lane/producer_core.hpp"\n')
        self.assert_found("plugins/lane/sink.cpp:2", "room lane")

    def test_finds_a_way_around_by_dots(self):
        self.write("src/base/clock.cpp", '#include "../ring/writer.hpp"\n')
        self.assert_found("src/base/clock.cpp:1", "..")

    def test_finds_a_table_with_a_room_that_uses_one_below_it(self):
        self.write("src/README.md", TABLE.replace("| results | (nothing) |", "| results | ring |"))
        self.assertTrue(any("not a row above it" in error for error in self.errors()))

    def test_finds_a_meson_build_that_says_something_else(self):
        self.write("src/ring/meson.build", "# May use: base, lane.\n")
        self.assert_found("src/ring/meson.build", "differs from the table")

    def test_finds_a_folder_that_is_no_room(self):
        self.write("src/extra/thing.cpp", "")
        self.assert_found("src/extra", "not a row")

    def test_lets_a_folder_without_code_be(self):
        self.write("src/cmake/thing.cmake.in", "")
        self.assertEqual(self.errors(), [])

    def test_finds_a_missing_table(self):
        self.write("src/README.md", "no table here\n")
        self.assertTrue(any("no layer table" in error for error in self.errors()))


if __name__ == "__main__":
    unittest.main()
