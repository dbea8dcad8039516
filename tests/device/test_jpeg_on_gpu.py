"""What can be tested of the GPU's decoder without one: which arguments and files it is given."""

import io
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.device.forms import FORMS
from headrace.device.machine import Machine
from headrace.device.program import DeviceError, make_program
from headrace.image.on_device.decode import samplings
from headrace.plan.spec import Spec

pytest.importorskip("torch")
SPEC = Spec.of_signature(hr.TensorSpec((), bytes))


def program(*, approximate=False, **how):
    decode = lambda jpeg: hr.image.resize(hr.image.decode_jpeg(jpeg, channels=3, **how), (8, 8))  # noqa: E731
    return make_program(decode, SPEC, draws=False, on_gpu=True, approximate=approximate)


def test_the_gpu_decodes_with_the_arguments_that_it_equals():
    made = program(dct_method="INTEGER_ACCURATE", fancy_upscaling=False)
    assert (made.on_host, made.on_device) == ([], ["decode_jpeg", "resize"])


@pytest.mark.parametrize("how", [{}, {"dct_method": "INTEGER_ACCURATE"}, {"fancy_upscaling": False}])
def test_other_arguments_are_refused_unless_approximate(how):
    with pytest.raises(DeviceError, match=r"decode_jpeg: the GPU decodes with another.*approximate=True"):
        program(**how)
    assert program(approximate=True, **how).on_device == ["decode_jpeg", "resize"]


def test_what_the_gpu_cannot_do_at_all_is_refused():
    with pytest.raises(DeviceError, match="with a ratio or try_recover_truncated the GPU cannot decode"):
        program(ratio=2, approximate=True)


def jpeg(pixels, mode="RGB", **how):
    out = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(pixels).convert(mode).save(out, "JPEG", **how)
    return out.getvalue()


def test_only_whole_baseline_files_go_to_the_gpu():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    plain = jpeg(pixels)
    files = {
        plain: [3, 2, 2],
        jpeg(pixels, subsampling="4:2:2"): [3, 2, 1],
        jpeg(pixels, subsampling="4:4:4"): [3, 1, 1],
        jpeg(pixels, "L"): [1, 1, 1],
        plain.replace(bytes([0xFF, 0xC0]), bytes([0xFF, 0xC1])): [0, 0, 0],
        plain.replace(bytes([1, 0x22, 0, 2, 0x11]), bytes([1, 0x12, 0, 2, 0x11])): [0, 0, 0],  # 4:4:0
        plain[:-40]: [0, 0, 0],
        jpeg(pixels, progressive=True): [0, 0, 0],
        jpeg(pixels, "CMYK"): [0, 0, 0],
        jpeg(pixels, keep_rgb=True): [0, 0, 0],
        b"\xff\xd8\xff": [0, 0, 0],
        b"": [0, 0, 0],
        hr.image.encode_png(pixels): [0, 0, 0],
    }
    offsets = np.cumsum([0, *map(len, files)])
    assert samplings(np.frombuffer(b"".join(files), np.uint8), offsets).tolist() == list(files.values())


def test_torchvision_decodes_where_there_is_no_engine(monkeypatch):
    torch = pytest.importorskip("torch")
    how = {"channels": 3, "dct_method": "INTEGER_ACCURATE", "fancy_upscaling": False}
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    files = [jpeg(pixels[:20]), jpeg(pixels, progressive=True), jpeg(pixels[:, :11])]
    lists = []

    def decode(given, mode, device):
        assert (mode, device.type) == ("RGB", "cpu")
        lists.append([each.numpy().tobytes() for each in given])
        return [torch.from_numpy(hr.image.decode_jpeg(each, **how).transpose(2, 0, 1).copy()) for each in lists[-1]]

    modes = SimpleNamespace(UNCHANGED="UNCHANGED", GRAY="GRAY", RGB="RGB")
    library = SimpleNamespace(ImageReadMode=modes, decode_jpeg=decode)
    monkeypatch.setattr("headrace.image.on_device.decode.framework", lambda *_: library)
    given = {"ratio": 1, "try_recover_truncated": False, "max_pixels": None, **how}
    machine = Machine("cpu")
    ready = FORMS["decode_jpeg"].prepare(machine, pa.array(files, pa.large_binary()), **given)
    made = FORMS["decode_jpeg"].run(machine, **{**given, **ready})
    assert lists == [[files[0], files[2]]]
    for i, file in enumerate(files):
        np.testing.assert_array_equal(made.rows(i, i + 1).dense(machine)[0], hr.image.decode_jpeg(file, **how))
