#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws a white square that moves over a black picture, 100 frames."""
import numpy as np

import framelane

CAPS = "video/x-raw, format=GRAY8, width=320, height=240, framerate=100/1"

with framelane.Producer("square", caps=CAPS) as producer:
    producer.wait_for_consumers(1, timeout=30)
    for i in range(100):
        with producer.loan() as f:
            picture = np.asarray(f)             # [240, 320, 1]: the memory that consumers will read
            picture[...] = 0
            picture[100:140, 2 * i:2 * i + 40] = 255
            f.pts = i * 10_000_000              # ns
