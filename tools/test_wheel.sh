#!/usr/bin/env bash
# Install a wheel into a fresh environment without a compiler, and run the self-test: tools/test_wheel.sh dist/headrace-*.whl
# With qemu-user installed, the self-test runs again on an emulated CPU that has neither AVX2 nor AVX-512.
set -euo pipefail
wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python=$folder/env/bin/python
CC=/nonexistent CXX=/nonexistent "$python" -m pip --disable-pip-version-check install --quiet --only-binary :all: "$wheel"
cd "$folder"
"$python" -m headrace.selftest
"$folder/env/bin/headrace" doctor
qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64 || true)
if [ -n "$qemu" ] && [ "$(uname -m)" = x86_64 ]; then
  echo "on an emulated Nehalem CPU:"
  # OpenBLAS, inside NumPy, would choose its kernels by the CPU below the emulator.
  OPENBLAS_CORETYPE=Nehalem "$qemu" -cpu Nehalem "$python" -m headrace.selftest
fi
