# SPDX-License-Identifier: MIT
"""`async for frame in consumer`."""
import asyncio

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
    while True:
        frame = consumer._poll()
        if frame is None:
            await _readable(consumer.fileno(), consumer.timeout, consumer.lane)
        elif frame is False:
            return
        else:
            yield frame
            taken += 1
            if taken % _IN_A_ROW == 0:
                await asyncio.sleep(0)
