#!/usr/bin/env bash
# Install a wheel into a fresh environment without a compiler, and run the self-test.
#   tools/test_wheel.sh dist                      the newest headrace in a folder that fits the interpreter
#   tools/test_wheel.sh dist/headrace-*.whl       this wheel
#   PYTHON=python3.12 tools/test_wheel.sh dist    with this interpreter; python3 by default
# With qemu-user installed, the self-test runs again on an emulated CPU that has neither AVX2 nor AVX-512.
set -euo pipefail
python=${PYTHON:-python3}
given=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
started=$SECONDS
"$python" -m venv "$folder/env"
python=$folder/env/bin/python
install=(env CC=/nonexistent CXX=/nonexistent "$python" -m pip --disable-pip-version-check install --quiet --only-binary :all:)
if [ -d "$given" ]; then
  # Only headrace comes from the folder: a published version must not be taken instead.
  "${install[@]}" --no-index --no-deps --find-links "$given" headrace
  "${install[@]}" headrace
else
  "${install[@]}" "$given"
fi
cd "$folder"
"$python" - <<'CODE'
import headrace as hr
import numpy as np

images = np.random.randint(0, 255, (60_000, 28, 28), np.uint8)
labels = np.random.randint(0, 10, 60_000)
train = hr.Dataset.from_tensor_slices((images, labels))
train = train.shuffle(10_000, seed=1).batch(128).prefetch(hr.AUTOTUNE)
image, label = next(iter(train))
assert image.shape == (128, 28, 28) and label.shape == (128,)
CODE
echo "first batch of the README's example $((SECONDS - started)) s after the environment was begun"
"$python" -m headrace.selftest
"$folder/env/bin/headrace" doctor
qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64 || true)
if [ -n "$qemu" ] && [ "$(uname -m)" = x86_64 ]; then
  echo "on an emulated Nehalem CPU:"
  # OpenBLAS, inside NumPy, would choose its kernels by the CPU below the emulator.
  OPENBLAS_CORETYPE=Nehalem "$qemu" -cpu Nehalem "$python" -m headrace.selftest
fi
