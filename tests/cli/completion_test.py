# SPDX-License-Identifier: MIT
"""Shell completion in a real bash, and the manual page; both against what --help says."""

import os
import re
import shutil
import socket
import subprocess
import unittest

from lane_case import COMMAND, LIMIT, LaneCase


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))


class Help(LaneCase):
    def help(self, *path):
        return self.run_command(*path, "--help").stdout.decode()

    def commands(self, path=()):
        """Every subcommand, as the help names it."""
        text = self.help(*path)
        yield path
        if "Subcommands:\n" in text:
            for line in text.split("Subcommands:\n")[1].split("\n\n")[0].splitlines():
                name = re.match(r"  (\S+)", line)
                if name:
                    yield from self.commands((*path, name.group(1)))

    def described_options(self, path):
        """Of the option table of the help, not of its examples."""
        text = self.help(*path)
        start = text.find("Options:\n")
        return options_of(re.split(r"\n\n", text[start:])[0])


class Completion(Help):
    def complete(self, *words):
        """What bash offers for the last word."""
        script = f"""
            source <("{COMMAND}" completion bash)
            complete -p framelane >/dev/null || exit 3
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _framelane
            if [[ ${{#COMPREPLY[@]}} != 0 ]]; then printf '%s\\n' "${{COMPREPLY[@]}}"; fi"""
        done = subprocess.run(["bash", "-c", script, "bash", "framelane", *words], env=self.environment, timeout=LIMIT,
                              capture_output=True, text=True, check=False, cwd=self.directory)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_help_names_the_subcommands(self):
        self.assertGreater(len(list(self.commands())), 10, "the other tests would look at the root alone")

    def test_every_subcommand_and_option_of_the_help_is_offered(self):
        for path in self.commands():
            with self.subTest(path):
                self.assertEqual(set(word for word in self.complete(*path, "--")), self.described_options(path))

    def test_subcommands_complete(self):
        self.assertLessEqual({"send", "recv", "doctor", "bench", "demo"}, set(self.complete("")))
        self.assertEqual(self.complete("se"), ["send"])
        self.assertEqual(self.complete("bench", "rt"), ["rtt"])
        self.assertNotIn("demo-consumer", self.complete("de"))

    def test_words_of_options_complete(self):
        self.assertEqual(self.complete("send", "cam0", "--format", ""), ["auto", "raw", "y4m", "wav", "npy"])
        self.assertEqual(self.complete("recv", "--mode", "l"), ["latest"])
        self.assertEqual(self.complete("recv", "--mode", "=", "l"), ["latest"])
        self.assertEqual(self.complete("recv", "--mode", "="), ["every", "latest"])
        self.assertEqual(self.complete("top", "--sort", "la"), ["latency"])
        self.assertEqual(self.complete("bench", "rtt", "--touch", ""), ["edges", "all"])
        self.assertEqual(self.complete("send", "--full-timeout", ""), ["none"])
        self.assertEqual(self.complete("top", "--sort", "f"), ["fps"])
        self.assertEqual(self.complete("send", "--burst", ""), [])

    def test_lanes_that_are_there_complete(self):
        sender = self.start("send", "camera-0", "--frame-size", "4")
        self.wait_for_lane("camera-0", sender)
        self.assertEqual(self.complete("recv", ""), ["camera-0"])
        self.assertEqual(self.complete("recv", "--mode", "latest", "cam"), ["camera-0"])
        self.write("file.y4m", b"")
        self.assertEqual(self.complete("send", "camera-0", "file"), ["file.y4m"])
        self.assertEqual(self.complete("send", "--psk-file", "file"), ["file.y4m"])
        self.interrupt(sender)
        self.finish(sender, 130)

    def test_names_of_files_are_never_run_or_expanded(self):
        self.write("two words.y4m", b"")
        self.write("star*.y4m", b"")
        self.write("$(touch PWNED).y4m", b"")
        for name in "$(touch PWNED)", "`touch PWNED`", "two words", "*", "-dash", "x.stream", "good_1-2":
            with socket.socket(socket.AF_UNIX) as lane:
                lane.bind(os.path.join(self.environment["FRAMELANE_DIR"], name))
        self.assertEqual(self.complete("recv", ""), ["good_1-2"])
        self.assertEqual(self.complete("recv", "$("), [])
        self.assertEqual(self.complete("send", "cam0", "two"), ["two words.y4m"])
        self.assertEqual(self.complete("send", "cam0", "star"), ["star*.y4m"])
        self.assertEqual(self.complete("send", "cam0", "$("), ["$(touch PWNED).y4m"])
        self.assertFalse(os.path.exists(self.path("PWNED")))


class Manual(Help):
    def setUp(self):
        super().setUp()
        self.page = self.run_command("completion", "man").stdout

    def test_has_every_subcommand_with_its_options(self):
        text = self.page.decode().replace("\\-", "-").replace("\\fB", "").replace("\\fR", "").replace("\\fI", "")
        sections = re.split(r"\n\.S[SH] ", text)
        for path in self.commands():
            title = " ".join(("framelane", *path)) if path else "OPTIONS"
            found = [section for section in sections if section.startswith(title + (" [" if path else "\n"))]
            self.assertEqual(len(found), 1, title)
            table = found[0].split("\n.nf\n")[0]
            described = options_of("\n".join(re.findall(r"\.TP\n(.*)", table)))
            self.assertEqual(described, self.described_options(path), title)
        for code in "2 wrong usage", "130 interrupted", "141 whoever":
            self.assertIn(code, text)

    @unittest.skipUnless(shutil.which("groff"), "needs groff")
    def test_groff_has_nothing_to_complain_about(self):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=self.page, capture_output=True,
                              timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    @unittest.skipUnless(shutil.which("mandoc"), "needs mandoc")
    def test_mandoc_finds_no_error(self):
        done = subprocess.run(["mandoc", "-Tlint", "-Werror"], input=self.page, capture_output=True, timeout=LIMIT,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


class Everywhere(Help):
    def test_each_subcommand_has_examples_and_fits_a_terminal(self):
        for path in self.commands():
            text = self.help(*path)
            self.assertIn("Example", text, path)
            self.assertLessEqual(max(map(len, text.splitlines())), 80, path)

    def test_each_that_gives_figures_has_json(self):
        for path in self.commands():
            leaf = not self.complete_below(path)
            if leaf and path not in ((), ("completion",)):
                self.assertIn("--json", self.described_options(path), path)

    def complete_below(self, path):
        return "Subcommands:\n" in self.help(*path)


if __name__ == "__main__":
    unittest.main()
