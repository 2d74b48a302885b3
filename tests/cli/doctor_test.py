# SPDX-License-Identifier: MIT
"""`framelane doctor`, here and where something is missing."""

import ctypes
import json
import os
import platform
import resource
import socket
import struct
import unittest

from lane_case import LaneCase

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
MEMFD_CREATE = 319  # x86-64


def without_memfd():
    """The kernel of a container that knows no memfd_create: a filter that answers ENOSYS."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = b"".join(struct.pack("<HBBI", *step) for step in (
        (0x20, 0, 0, 0),              # load the call's number
        (0x15, 0, 1, MEMFD_CREATE),   # is it this one?
        (0x06, 0, 0, 0x00050000 | 38),  # then ENOSYS
        (0x06, 0, 0, 0x7fff0000)))    # else go on
    steps = ctypes.create_string_buffer(program)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(steps)))
    zero = ctypes.c_ulong(0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero)
    if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.c_ulong(ctypes.addressof(header)), zero, zero) != 0:
        os._exit(99)


class Doctor(LaneCase):
    def findings(self, code=0, **options):
        done = self.run_command("doctor", "--json", **options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["lanes_work"], code == 0)
        return {finding["name"]: finding for finding in result["findings"]}

    def test_finds_that_lanes_work_and_leaves_nothing_behind(self):
        found = self.findings()
        for name in "memfd with seals", "F_SEAL_FUTURE_WRITE", "futex", "shared memory", "Unix domain socket":
            self.assertEqual(found[name]["verdict"], "ok", found[name])
        self.assertRegex(found["wake of a sleeper"]["found"], r"p50 \d+\.\d µs, p99 \d+\.\d µs")
        self.assertEqual(os.listdir(self.directory), ["lanes"])
        self.assertEqual(os.listdir(self.environment["FRAMELANE_DIR"]), [])

    def test_text_fits_80_columns_and_tells_how_to_change_it(self):
        done = self.run_command("doctor", "--all")
        text = done.stdout.decode()
        self.assertIn("Lanes work here", text)
        for line in text.splitlines():
            if " " in line.strip() and not line.strip().startswith(("/", "->")):
                self.assertLessEqual(len(line), 100, line)

    def test_directory_that_lanes_refuse_is_fatal_and_named(self):
        directory = self.environment["FRAMELANE_DIR"]
        os.chmod(directory, 0o755)
        found = self.findings(1)["directory"]
        self.assertEqual(found["verdict"], "problem")
        self.assertEqual(found["change"], "chmod 700 '%s'" % directory)
        os.rmdir(directory)
        self.assertEqual(self.findings()["directory"]["verdict"], "ok")
        with open(directory, "wb"):
            pass
        self.assertIn("no directory", self.findings(1)["directory"]["found"])
        self.environment["FRAMELANE_DIR"] = "relative"
        self.assertIn("absolute", self.findings(1)["directory"]["means"])

    def test_directory_of_control_characters_is_shown_without_them(self):
        for name in "\x1b[31mred", "\x9b31m", "\n\x7f":
            self.environment["FRAMELANE_DIR"] = os.path.join(self.directory, name)
            for mode in None, 0o755, 0o700:
                if mode == 0o755:
                    os.mkdir(self.environment["FRAMELANE_DIR"])
                if mode is not None:
                    os.chmod(self.environment["FRAMELANE_DIR"], mode)
                with self.subTest(name=name, mode=mode):
                    done = self.run_command("doctor", "--all")
                    self.assertEqual(done.returncode, 1 if mode == 0o755 else 0, done.stderr)
                    shown = done.stdout.replace(b"\n", b"").decode()
                    self.assertTrue(shown.isprintable(), shown)
                    self.assertIn("\\x", shown)

    def test_stale_sockets_are_told_from_lanes_in_use(self):
        sender = self.start("send", "cam0", "--frame-size", "4")
        self.wait_for_lane("cam0", sender)
        dead = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        dead.bind(os.path.join(self.environment["FRAMELANE_DIR"], "old"))
        dead.close()
        with open(os.path.join(self.environment["FRAMELANE_DIR"], "old.lock"), "wb"):
            pass
        self.assertIn("1 socket of dead producers (old); 1 in use", self.findings()["stale files"]["found"])
        self.assertIsNone(sender.poll())
        self.interrupt(sender)
        self.finish(sender, 130)

    def test_few_descriptors_are_a_problem_with_the_command_that_helps(self):
        done = self.run_command(
            "doctor", "--json", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)))
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual(found["open files"]["verdict"], "problem")
        self.assertIn("ulimit -n", found["open files"]["change"])

    @unittest.skipUnless(platform.machine() == "x86_64", "the filter knows this machine's numbers only")
    def test_kernel_without_memfd_is_fatal_and_says_why(self):
        found = self.findings(1, preexec_fn=without_memfd)
        self.assertEqual(found["memfd with seals"]["verdict"], "problem")
        self.assertIn("seccomp", found["memfd with seals"]["change"])
        self.assertEqual(found["shared memory"]["verdict"], "problem")


if __name__ == "__main__":
    unittest.main()
