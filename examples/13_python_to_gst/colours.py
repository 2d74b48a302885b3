#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends two seconds of a picture that changes its colour."""
import numpy as np

import framelane

CAPS = "video/x-raw, format=RGB, width=320, height=240, framerate=25/1"

with framelane.Producer("colours", caps=CAPS) as producer:
    producer.wait_for_consumers(1, timeout=30)
    for i in range(50):
        with producer.loan() as f:
            np.asarray(f)[...] = (5 * i, 0, 255 - 5 * i)
            f.pts = i * 40_000_000              # ns; 25 frames a second
            f.duration = 40_000_000
    producer.drain(timeout=30)
    print(f"the pipeline took {producer.stats()['consumers'][0]['taken']} frames")
