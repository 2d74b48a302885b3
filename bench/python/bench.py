#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a lane costs from Python, against what Python has otherwise, in turns in one run.

bench.py [frames] [take] [rtt] [--rounds N] [--seconds S] [--json]       run it in ./quickstart shell

frames   1080p frames at full speed: a lane against GStreamer's appsink with a copy, frames a second
take     what take + numpy() costs for each frame that is there already, µs
rtt      round trips of 32 bytes and 1 KiB between two Python processes, against multiprocessing.Pipe
"""
import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import framelane

WIDTH, HEIGHT = 1920, 1080
SIZE = WIDTH * HEIGHT * 3 // 2
CAPS = f"video/x-raw, format=NV12, width={WIDTH}, height={HEIGHT}, framerate=60/1"
GST_CAPS = CAPS.replace(" ", "")


def touch(y, uv):
    """As little as an application can read of a frame: both ends of it."""
    return int(y[0, 0]) + int(uv[-1, -1, -1])


# --- frames

def produce_until_killed(lane):
    with framelane.Producer(lane, caps=CAPS, full_timeout=10) as producer:
        producer.wait_for_consumers(1, timeout=30)
        while True:
            producer.loan().publish()  # whatever lies there: making the picture isn't what is measured


def lane_frames(lane, seconds):
    """Frames a second that this process gets from a lane whose producer it doesn't make."""
    count = 0
    consumer = framelane.Consumer(lane, timeout=30)
    next(consumer)
    start = time.perf_counter()
    for f in consumer:
        planes = f.numpy()
        touch(planes["y"], planes["uv"])
        count += 1
        if time.perf_counter() - start > seconds:
            break
    return count / (time.perf_counter() - start)


def lane_full_speed(lane, seconds):
    producer = multiprocessing.get_context("spawn").Process(target=produce_until_killed, args=(lane,))
    producer.start()
    try:
        return lane_frames(lane, seconds)
    finally:
        producer.kill()
        producer.join()


def appsink_frames(source, seconds):
    """Frames a second through an appsink of this process, each copied to an array."""
    import gi
    gi.require_version("Gst", "1.0")
    from gi.repository import Gst
    Gst.init(None)
    pipeline = Gst.parse_launch(f"{source} ! appsink name=out sync=false max-buffers=8")
    out = pipeline.get_by_name("out")
    pipeline.set_state(Gst.State.PLAYING)

    copy = numpy.empty(SIZE, "u1")  # made once: the fastest way that there is

    def one():
        buffer = out.emit("pull-sample").get_buffer()
        _, info = buffer.map(Gst.MapFlags.READ)
        copy[...] = numpy.frombuffer(info.data, "u1", SIZE)  # a memoryview; bytes without Debian's python3-gst-1.0
        buffer.unmap(info)
        return copy[:WIDTH * HEIGHT].reshape(HEIGHT, WIDTH), copy[WIDTH * HEIGHT:].reshape(HEIGHT // 2, WIDTH // 2, 2)

    try:
        one()
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            touch(*one())
            count += 1
        return count / (time.perf_counter() - start)
    finally:
        pipeline.set_state(Gst.State.NULL)


def through_gst_launch(sink, consume):
    """A producer that copies one picture into each frame, in a process of its own; what `consume` then counts."""
    process = subprocess.Popen(["gst-launch-1.0", "-q", *f"videotestsrc num-buffers=1 ! {GST_CAPS} ! imagefreeze ! "
                                f"{GST_CAPS} ! {sink}".split()], stderr=subprocess.DEVNULL)
    try:
        return consume()
    finally:
        process.kill()
        process.wait()


def wait_for_file(path):
    deadline = time.monotonic() + 30
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.01)


def shm_frames(folder, turn, seconds):
    path = f"{folder}/shm{turn}"

    def consume():
        wait_for_file(path)
        return appsink_frames(f"shmsrc socket-path={path} ! {GST_CAPS}", seconds)

    return through_gst_launch(f"shmsink socket-path={path} shm-size={SIZE * 12} wait-for-connection=true sync=false",
                              consume)


def bench_frames(options, folder):
    rows = {"lane": [], "appsink": [], "lane from gst-launch": [], "shmsrc ! appsink": []}
    for turn in range(options.rounds):
        rows["lane"].append(lane_full_speed(f"full{turn}", options.seconds))
        # imagefreeze repeats one buffer: a source that costs nothing, in this very process.
        source = f"videotestsrc num-buffers=1 ! {GST_CAPS} ! imagefreeze"
        rows["appsink"].append(appsink_frames(source, options.seconds))
        lane = f"gst{turn}"
        rows["lane from gst-launch"].append(through_gst_launch(
            f"lanesink lane={lane} sync=false", lambda lane=lane: lane_frames(lane, options.seconds)))
        rows["shmsrc ! appsink"].append(shm_frames(folder, turn, options.seconds))
    middle = {name: statistics.median(values) for name, values in rows.items()}
    return {"frames_per_second": middle, "rounds": rows,
            "ratio": middle["lane"] / middle["appsink"],
            "ratio_gst_launch": middle["lane from gst-launch"] / middle["shmsrc ! appsink"]}


# --- take

def bench_take(options, _folder):
    """One process has both ends: the frames are there when the clock starts."""
    batch = 64
    producer = framelane.Producer("take", caps=CAPS.replace("NV12", "BGR"), burst=batch, full_timeout=10)
    consumer = framelane.Consumer("take", timeout=10)
    consumer.connect()
    producer.wait_for_consumers(1, timeout=10)

    def nothing():
        next(consumer)

    def numpy_array():
        next(consumer).numpy()

    def dlpack():
        numpy.from_dlpack(next(consumer))

    def view():
        memoryview(next(consumer))

    def measure(body):
        for _ in range(batch):
            producer.loan().publish()
        start = time.perf_counter_ns()
        for _ in range(batch):
            body()
        return (time.perf_counter_ns() - start) / batch / 1000

    bodies = {"take": nothing, "take + memoryview": view, "take + numpy()": numpy_array, "take + from_dlpack": dlpack}
    samples = {name: [] for name in bodies}
    for _ in range(100 * options.rounds):
        for name, body in bodies.items():
            samples[name].append(measure(body))
    return {"microseconds": {name: statistics.median(values) for name, values in samples.items()},
            "least": {name: min(values) for name, values in samples.items()}}


# --- rtt

def pin(kind, which):
    """Who spins needs a CPU; all others run where the scheduler puts them."""
    cpus = sorted(os.sched_getaffinity(0))
    if kind == "lane, spinning" and len(cpus) > 1:
        os.sched_setaffinity(0, {cpus[which]})
    return cpus


def echo(kind, lane, pipe):
    pin(kind, -1)
    if kind == "pipe":
        while True:
            pipe.send_bytes(pipe.recv_bytes())
    elif kind == "call":
        for request in framelane.Server(lane):
            request.respond(request)
    else:
        spin = "busy" if kind == "lane, spinning" else "adaptive"
        producer = framelane.Producer(f"{lane}-back", spin=spin)
        for f in framelane.Consumer(f"{lane}-there", timeout=60, spin=spin):
            producer.publish(f)


def round_trip(kind, lane, pipe):
    """A function that sends bytes and waits until they are back."""
    if kind == "pipe":
        def there_and_back(data):
            pipe.send_bytes(data)
            return pipe.recv_bytes()
        return there_and_back
    if kind == "call":
        client = framelane.Client(lane)
        return lambda data: client.call(data, 10)
    spin = "busy" if kind == "lane, spinning" else "adaptive"
    producer = framelane.Producer(f"{lane}-there", spin=spin)
    consumer = framelane.Consumer(f"{lane}-back", timeout=10, spin=spin)
    producer.wait_for_consumers(1, timeout=10)
    consumer.connect()

    def over_the_lane(data):
        producer.publish(data)
        return next(consumer)
    return over_the_lane


def measure_rtt(kind, size, lane, seconds):
    here, there = multiprocessing.Pipe()
    other = multiprocessing.get_context("spawn").Process(target=echo, args=(kind, lane, there), daemon=True)
    other.start()
    cpus = pin(kind, 0)
    try:
        trip = round_trip(kind, lane, here)
        data = bytes(range(256)) * (size // 256) if size >= 256 else bytes(range(size))
        if bytes(trip(data)) != data:
            raise AssertionError("what came back isn't what was sent")
        for _ in range(200):
            trip(data)
        times = []
        end = time.perf_counter_ns() + int(seconds * 1e9)
        before = time.perf_counter_ns()
        while before < end:
            trip(data)
            after = time.perf_counter_ns()
            times.append(after - before)
            before = after
    finally:
        os.sched_setaffinity(0, cpus)
        other.kill()
        other.join()
    return {"per_second": len(times) / seconds, "p50_us": statistics.median(times) / 1000}


def bench_rtt(options, _folder):
    result = {}
    for turn in range(options.rounds):
        for size in (32, 1024):
            for kind in ("lane, spinning", "lane", "call", "pipe"):
                one = measure_rtt(kind, size, f"rtt{turn}-{size}-{len(result)}", options.seconds / 2)
                result.setdefault(f"{kind}, {size} bytes", []).append(one)
    return {name: {key: statistics.median([one[key] for one in rounds]) for key in rounds[0]}
            for name, rounds in result.items()}


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {"cpu": names[0] if names else "?", "cpus": len(os.sched_getaffinity(0)), "python": sys.version.split()[0],
            "numpy": numpy.__version__, "date": time.strftime("%Y-%m-%d"), "framelane": framelane.__version__}


def show(name, value):
    print(f"{name}:")
    for key, one in value.items():
        text = json.dumps(one) if isinstance(one, (dict, list)) else one
        print(f"  {key:28} {text}")


def main():
    benches = {"frames": bench_frames, "take": bench_take, "rtt": bench_rtt}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", help="frames, take, rtt; none: all")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side; medians are reported")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    unknown = set(options.which) - set(benches)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(benches)}")
    result = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="fl", dir="/tmp") as folder:
        os.environ["FRAMELANE_DIR"] = folder + "/lanes"
        for name in options.which or benches:
            result[name] = benches[name](options, folder)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            show(name, value)


if __name__ == "__main__":
    main()
