# SPDX-License-Identifier: MIT
"""`async for frame in consumer`."""
import asyncio
import os

from ._errors import Timeout

_IN_A_ROW = 32  # frames that are there already, before other tasks get a turn


async def _readable(fd, timeout, lane):
    loop = asyncio.get_running_loop()
    there = asyncio.Event()
    loop.add_reader(fd, there.set)
    try:
        await asyncio.wait_for(there.wait(), timeout)
    except asyncio.TimeoutError:
        raise Timeout(f'no frame of "{lane}" came within {timeout} s') from None
    finally:
        loop.remove_reader(fd)


async def frames(consumer):
    """Each frame of a consumer; valid until the next one is asked for."""
    taken = 0
    fd = -1  # a duplicate, which stays in the event loop when the consumer is closed, and is readable then
    try:
        while True:
            frame = consumer._poll()
            if frame is None:
                fd = os.dup(consumer.fileno()) if fd < 0 else fd
                await _readable(fd, consumer.timeout, consumer.lane)
            elif frame is False:
                return
            else:
                yield frame
                taken += 1
                if taken % _IN_A_ROW == 0:
                    await asyncio.sleep(0)
    finally:
        if fd >= 0:
            os.close(fd)
