"""What can be tested of the JPEG engine without one: the library that is taken, and what it is given."""

import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from tests.device.changes import jpegs
from tests.device.fake_nvjpeg import HOW, FakeNvjpeg

import headrace as hr
from headrace.device.forms import FORMS
from headrace.device.machine import Machine
from headrace.device.nvjpeg import Decoder, Files, candidates, destinations, load

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(("channels", "on_engine"), [(3, "ACDF"), (0, "ACDF"), (1, "F")])
def test_the_engine_gets_the_files_that_it_decodes_alike(channels, on_engine):
    files = jpegs()
    machine, library = Machine("cpu"), FakeNvjpeg(refused=files["B"])
    machine.__dict__["jpeg_decoder"] = Decoder(machine, library)
    given = {"channels": channels, "ratio": 1, "try_recover_truncated": False, "max_pixels": None, **HOW}
    form = FORMS["decode_jpeg"]
    ready = form.prepare(machine, pa.array(files.values(), pa.large_binary()), **given)
    made = form.run(machine, **{**given, **ready})
    assert library.files == [files[name] for name in on_engine]
    for number, file in enumerate(files.values()):
        pixels = made.rows(number, number + 1).dense(machine)[0]
        np.testing.assert_array_equal(pixels, hr.image.decode_jpeg(file, channels=channels, **HOW))


def test_nothing_is_overwritten_that_the_device_still_reads():
    library, order = FakeNvjpeg(), []
    machine = SimpleNamespace(on_gpu=False, ready=lambda: SimpleNamespace(synchronize=lambda: order.append("waits")))
    decoder = Decoder(machine, library)
    library.nvjpegDecodeBatched = lambda *_: order.append("decodes")
    files = Files(np.zeros(3, np.uint8), np.array([0]), np.array([3]))
    for _ in range(2):
        assert decoder.decode(files, destinations(0, np.array([0]), np.array([1]))) == []
    assert order == ["waits", "decodes"] * 2


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("channels", [0, 1, 3])
def test_the_engine_gives_the_pixels_of_the_cpu(channels):
    def decode(jpeg):
        return hr.image.decode_jpeg(jpeg, channels=channels, **HOW)

    ds = hr.Dataset.from_tensor_slices(list(jpegs().values()))
    for there, here in zip(ds.map(decode, device="cuda"), ds.map(decode), strict=True):
        np.testing.assert_array_equal(there, here)


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


def test_without_a_gpu_there_is_no_engine():
    assert Machine("cpu").jpeg_decoder is None
