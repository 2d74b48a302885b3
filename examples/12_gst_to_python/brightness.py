#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the brightness of the pictures of a lane, whatever their format is: the caps come with the lane."""
import framelane

count = 0
for f in framelane.Consumer("cam0", timeout=30):
    planes = f.numpy()                          # I420: {"y": [240, 320], "u": ..., "v": ...}
    luma = planes["y"] if isinstance(planes, dict) else planes
    if f.seq % 10 == 0:
        print(f"{f.pts / 1e9:.1f} s: {f.caps.format} {f.caps.width}x{f.caps.height}, mean {luma.mean():.1f}")
    count += 1
print(f"{count} frames")
