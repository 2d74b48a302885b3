#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two lanes and a timer in one event loop. The producers are tasks of it, too, so that this runs by itself."""
import asyncio

import framelane


async def produce(lane: str, count: int, pause: float) -> None:
    with framelane.Producer(lane) as producer:
        while producer.num_consumers == 0:
            await asyncio.sleep(0.01)
        for i in range(count):
            producer.publish(f"{lane} {i}".encode())
            await asyncio.sleep(pause)


async def read(lane: str, seen: dict) -> None:
    consumer = framelane.Consumer(lane, timeout=30)
    async for f in consumer:                    # the loop waits on consumer.fileno(), with add_reader
        seen[lane] = bytes(f).decode()
        seen["frames"] += 1


async def tick(seen: dict) -> None:
    while True:
        await asyncio.sleep(0.05)
        seen["ticks"] += 1


async def main() -> None:
    seen = {"frames": 0, "ticks": 0}
    timer = asyncio.create_task(tick(seen))
    await asyncio.gather(read("fast", seen), read("slow", seen), produce("fast", 100, 0.002),
                         produce("slow", 10, 0.02))
    timer.cancel()
    print(f"{seen['frames']} frames, the last ones \"{seen['fast']}\" and \"{seen['slow']}\"; "
          f"meanwhile the timer ran {'more than once' if seen['ticks'] > 1 else 'never'}")


asyncio.run(main())
