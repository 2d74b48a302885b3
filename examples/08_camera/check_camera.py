#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Two viewers check a camera's pictures, one some of them, the other until SIGINT has ended the camera.

check_camera.py CAMERA VIEWER
"""
import os
import re
import signal
import subprocess
import sys
import tempfile

RIGHT = re.compile(r"video/x-raw.*NV12.*\n(\d+) pictures, all of them right; \d+ lost\n")


def main(camera: str, viewer: str) -> int:
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, FRAMELANE_DIR=folder)

        def start(*command: str) -> subprocess.Popen:
            processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
            return processes[-1]

        try:
            running = start(camera)
            to_the_end, some = start(viewer, "camera"), start(viewer, "camera", "20")
            few = some.communicate(timeout=40)[0]
            running.send_signal(signal.SIGINT)
            taken = running.communicate(timeout=20)[0]
            all_of_them = to_the_end.communicate(timeout=20)[0]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    fine = [process.returncode == 0 for process in processes]
    looked = RIGHT.fullmatch(few)
    fine += [looked is not None and looked[1] == "20", RIGHT.fullmatch(all_of_them) is not None,
             re.fullmatch(r"\d+ pictures\n", taken) is not None]
    if not all(fine):
        print(f"{fine}: the camera said {taken!r}, the viewers {few!r} and {all_of_them!r}", file=sys.stderr)
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
