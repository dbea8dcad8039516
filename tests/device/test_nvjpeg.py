"""What can be tested of the JPEG engine without one: the library, what it is given, and what is made of its planes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.device.machine import Machine
from headrace.device.nvjpeg import Planes, candidates, load, open_decoder

torch = pytest.importorskip("torch")

THROUGH_THE_KERNEL = """
import numpy as np
import pyarrow as pa

import headrace as hr
import headrace.image.on_device
from headrace.device import colour_kernels, triton_kernels
from headrace.device.forms import FORMS
from headrace.device.machine import Machine
from headrace.device.nvjpeg import Decoder, Planes
from headrace.device.pixels import Pixels
from tests.device.fake_nvjpeg import FakeNvjpeg, jpegs

HOW = {"fancy_upscaling": False, "dct_method": "INTEGER_ACCURATE"}
machine, library = Machine("cpu"), FakeNvjpeg()
machine.__dict__.update(kernels=triton_kernels, jpeg_decoder=Decoder(machine, library))
files = jpegs()
library.refused = files["B"]
for channels, on_gpu in ((3, "ACDF"), (0, "ACDF"), (1, "F")):
    library.files.clear()
    given = {"channels": channels, "ratio": 1, "try_recover_truncated": False, "max_pixels": None, **HOW}
    ready = FORMS["decode_jpeg"].prepare(machine, pa.array(files.values(), pa.large_binary()), **given)
    made = FORMS["decode_jpeg"].run(machine, **{**given, **ready})
    assert library.files == [files[name] for name in on_gpu], (channels, on_gpu)
    for name, shape, start, strides in zip(files, made.shapes, made.starts, made.strides, strict=True):
        pixels = np.lib.stride_tricks.as_strided(made.flat.numpy()[start:], shape, strides)
        wanted = hr.image.decode_jpeg(files[name], channels=channels, **HOW)
        assert np.array_equal(pixels, wanted), (name, channels)

rng = np.random.default_rng(0)
shapes = np.array([[5, 7, 3], [8, 8, 3], [3, 9, 3], [6, 1300, 3], [4, 5, 1], [4, 5, 3]])
samplings = np.array([[3, 1, 1], [3, 2, 2], [3, 2, 1], [3, 2, 2], [1, 1, 1], [1, 1, 1]])
planes = Planes(shapes, samplings)
stored = rng.integers(0, 256, planes.nbytes, dtype=np.uint8)
pixels = Pixels.empty(machine, shapes)
colour_kernels.colours(machine, machine.put(stored), planes, pixels)
for i, (height, width, channels) in enumerate(shapes):
    components, columns, rows = samplings[i]
    y, x = np.mgrid[:height, :width]
    luma, blue, red = (stored[start:].astype(int) for start in planes.starts[i])
    found = luma[y * width + x][..., None].repeat(channels, 2)
    if components == 3:
        at = y // rows * -(-width // columns) + x // columns
        blue, red = blue[at] - 128, red[at] - 128
        parts = 91881 * red, -22554 * blue - 46802 * red, 116130 * blue
        found += np.stack(parts, 2) + 32768 >> 16
    made = pixels.flat.numpy()[pixels.starts[i] :][: found.size].reshape(found.shape)
    assert np.array_equal(made, found.clip(0, 255)), i
print("equal")
"""


def test_pixels_are_those_of_the_cpu(monkeypatch):
    pytest.importorskip("triton")
    pytest.importorskip("PIL")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    done = subprocess.run([sys.executable, "-c", THROUGH_THE_KERNEL], capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr


def test_planes_lie_one_behind_the_other():
    shapes = np.array([[5, 7, 3], [5, 7, 3], [4, 3, 1]])
    planes = Planes(shapes, np.array([[3, 1, 1], [3, 2, 2], [1, 1, 1]]))
    assert planes.nbytes == 3 * 35 + 35 + 2 * 12 + 12
    assert planes.outputs(1000).tolist() == [
        [[1000, 1035, 1070, 0], [7, 7, 7, 0]],
        [[1105, 1140, 1152, 0], [7, 4, 4, 0]],
        [[1164, 0, 0, 0], [3, 0, 0, 0]],
    ]


def test_libraries_of_the_wanted_version_are_found(tmp_path):
    names = ["nvidia/cu13/lib/libnvjpeg.so.13", "torchvision.libs/libnvjpeg-0a1b.so.13.0.1"]
    for name in [*names, "nvidia/nvjpeg/lib/libnvjpeg.so.12", "nvidia/cu13/lib/libnpp.so.13"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert candidates([tmp_path, tmp_path / "missing", tmp_path], 13) == [tmp_path / name for name in names]


def test_another_library_is_not_used(tmp_path):
    damaged = tmp_path / "libnvjpeg.so.13"
    damaged.write_bytes(b"\x7fELF")
    assert load(str(tmp_path / "missing.so"), 13) is None
    assert load(str(damaged), 13) is None
    assert load(sys.modules["headrace._native"].__file__, 13) is None


def test_without_cuda_there_is_no_decoder():
    machine = Machine("cpu")
    assert machine.jpeg_decoder is None
    if machine.torch.version.cuda is None:
        assert open_decoder(machine) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_the_engine_gives_the_pixels_of_the_cpu(channels):
    pytest.importorskip("PIL")
    from tests.device.fake_nvjpeg import jpegs

    def decode(jpeg):
        return hr.image.decode_jpeg(jpeg, channels=channels, fancy_upscaling=False, dct_method="INTEGER_ACCURATE")

    ds = hr.Dataset.from_tensor_slices(list(jpegs().values()))
    for there, here in zip(ds.map(decode, device="cuda"), ds.map(decode), strict=True):
        np.testing.assert_array_equal(there, here)
