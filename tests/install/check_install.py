#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs the build into an empty folder and builds an application against what is there, found by pkg-config.

check_install.py BUILD_DIR PREFIX LIBDIR PLUGINS TLS COMPILER...

PLUGINS: the folder of the GStreamer elements, or no. TLS: yes or no.
"""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(command: list, **options) -> str:
    result = subprocess.run(command, capture_output=True, text=True, **options)
    if result.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\nexit code {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def check_files(root: Path, libdir: Path, plugins: Path | None) -> None:
    missing = [str(path) for path in (libdir / "libframelane.so", libdir / "pkgconfig/framelane.pc",
                                      libdir / "cmake/framelane/framelaneConfig.cmake",
                                      libdir / "cmake/framelane/framelaneConfigVersion.cmake",
                                      root / "include/framelane/framelane.h",
                                      root / "include/framelane/lane/producer.hpp") if not path.exists()]
    if plugins is not None and not list(plugins.glob("libgstframelane.so")):
        missing.append(f"{plugins}/libgstframelane.so")
    if (root / "bin/framelane").exists():
        pages = (root / "share/man/man1/framelane.1", root / "share/bash-completion/completions/framelane.bash")
        missing += [str(path) for path in pages if not path.exists() or path.stat().st_size == 0]
    if missing:
        sys.exit("not installed: " + ", ".join(missing))


def check_tls(libdir: Path, compiler: tuple, program: Path) -> None:
    """The core finds its TLS library because it lies beside it: nothing else leads there."""
    source = HERE.parent.parent
    run([*compiler, "-std=c++20", HERE / "finds_tls.cpp", "-o", program, f"-I{source}/include", f"-I{source}/src",
         f"-L{libdir}", "-lframelane", f"-Wl,-rpath,{libdir}"])
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    print("the TLS library:", run([program], env=env).strip())


def check_c(folder: Path, flags: list, env: dict) -> None:
    """C users need a C compiler, the flags of pkg-config, and nothing of C++."""
    program = folder / "consumer_c"
    run(["cc", "-std=c99", "-pedantic", "-Werror", HERE / "consumer.c", "-o", program, *flags], env=env)
    print("in C:", run([program], env=env).strip())


def check_cmake(folder: Path, root: Path, env: dict) -> None:
    if shutil.which("cmake") is None:
        return print("find_package(framelane) wasn't tried: there is no cmake (Debian: install cmake)")
    for language in ("C", "CXX"):
        build = folder / f"cmake-{language}"
        run(["cmake", "-S", HERE / "cmake_project", "-B", build, f"-DLANGUAGE={language}", f"-DSOURCES={HERE}",
             f"-DCMAKE_PREFIX_PATH={root}"], env=env)
        run(["cmake", "--build", build], env=env)
        print(f"by CMake in {language}:", run([build / "consumer"], env=env).strip())
    script = folder / "newer.cmake"
    script.write_text(f"""
        set(PACKAGE_FIND_VERSION 99)
        set(PACKAGE_FIND_VERSION_MAJOR 99)
        include({next(root.rglob("framelaneConfigVersion.cmake"))})
        if(PACKAGE_VERSION_COMPATIBLE)
          message(FATAL_ERROR "version 99 isn't there, but is said to be")
        endif()
        """)
    run(["cmake", "-P", script])


def main(build: str, prefix: str, libdir: str, plugins: str, tls: str, *compiler: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder])
        root = Path(folder) / prefix.lstrip("/")
        check_files(root, root / libdir, None if plugins == "no" else Path(folder) / plugins.lstrip("/"))
        # The .pc file names the final prefix; the sysroot puts the folder before it.
        env = dict(os.environ, PKG_CONFIG_PATH=str(root / libdir / "pkgconfig"), PKG_CONFIG_SYSROOT_DIR=folder,
                   LD_LIBRARY_PATH=str(root / libdir))
        flags = shlex.split(run(["pkg-config", "--cflags", "--libs", "framelane"], env=env))
        program = Path(folder) / "consumer"
        run([*compiler, "-std=c++20", HERE / "consumer.cpp", "-o", program, *flags], env=env)
        check_c(Path(folder), flags, env)
        check_cmake(Path(folder), root, env)
        if tls == "yes":
            check_tls(root / libdir, compiler, Path(folder) / "finds_tls")
        print(f"built with {shlex.join(flags)}; it says: {run([program], env=env).strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
