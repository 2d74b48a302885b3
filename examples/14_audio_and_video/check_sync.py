#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads both lanes, and puts together what belongs together by its time."""
import asyncio

import numpy as np

import framelane


async def flashes(found: set) -> None:
    async for f in framelane.Consumer("video", timeout=30):
        if f.numpy().mean() > 200:
            found.add(f.pts)


async def beeps(found: set) -> None:
    async for f in framelane.Consumer("audio", timeout=30):
        samples = f.numpy()[:, 0]
        if np.abs(samples.astype(int)).max() > 4000:
            start = int(np.flatnonzero(np.abs(samples.astype(int)) > 400)[0]) - 1
            found.add(f.pts + start * 1_000_000_000 // f.caps.rate)


async def main() -> None:
    seen, heard = set(), set()
    await asyncio.gather(flashes(seen), beeps(heard))
    worst = max(min(abs(beep - flash) for beep in heard) for flash in seen)
    print(f"{len(seen)} flashes, {len(heard)} beeps, at most {worst / 1e6:.1f} ms apart")


asyncio.run(main())
