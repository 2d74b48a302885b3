#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command with a lane folder of its own, so that runs in parallel don't meet.

own_folder.py COMMAND...
"""
import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    sys.exit(subprocess.run(sys.argv[1:], env=dict(os.environ, FRAMELANE_DIR=folder)).returncode)
