#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One second of a film with sound, on two lanes: pictures that flash and a beep at every fifth of them."""
import numpy as np

import framelane

VIDEO = "video/x-raw, format=GRAY8, width=160, height=120, framerate=25/1"
AUDIO = "audio/x-raw, format=S16LE, layout=interleaved, rate=16000, channels=1"
FRAME = 40_000_000  # ns; 640 samples
beep = (8000 * np.sin(2 * np.pi * 1000 * np.arange(640) / 16000)).astype("int16")

with framelane.Producer("video", caps=VIDEO) as video, framelane.Producer("audio", caps=AUDIO) as audio:
    video.wait_for_consumers(1, timeout=30)
    audio.wait_for_consumers(1, timeout=30)
    for i in range(25):
        flash = i % 5 == 0
        with video.loan() as f:
            f.numpy()[...] = 255 if flash else 16
            f.pts = i * FRAME
        with audio.loan(samples=640) as f:
            f.numpy()[:, 0] = beep if flash else 0
            f.pts = i * FRAME
