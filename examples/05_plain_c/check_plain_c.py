#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The consumer in C prints what the producer in C sent.

check_plain_c.py RUN_TOGETHER PRODUCER CONSUMER
"""
import subprocess
import sys

LINES = ["GRAY8, 320 x 240, stride 320"] + [f"frame {i} at {i * 33333333 // 1000000} ms: grey {i}" for i in range(30)]

run_together, producer, consumer = sys.argv[1:]
sys.exit(subprocess.run([sys.executable, run_together, "|".join(LINES), consumer, "--", producer]).returncode)
