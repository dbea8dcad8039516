"""What can be tested of the GPU's decoder without one: which arguments and files it is given."""

import io

import numpy as np
import pytest

import headrace as hr
from headrace.device.program import DeviceError, make_program
from headrace.image.on_device.decode import is_baseline
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


def test_only_whole_baseline_files_go_to_the_gpu():
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)

    def jpeg(picture, **how):
        out = io.BytesIO()
        picture.save(out, "JPEG", **how)
        return np.frombuffer(out.getvalue(), np.uint8)

    plain = jpeg(image.fromarray(pixels))
    assert is_baseline(plain)
    assert is_baseline(jpeg(image.fromarray(pixels[..., 0])))
    assert not is_baseline(plain[:-40])
    assert not is_baseline(jpeg(image.fromarray(pixels), progressive=True))
    assert not is_baseline(jpeg(image.fromarray(pixels).convert("CMYK")))
    assert not is_baseline(np.frombuffer(b"\xff\xd8\xff", np.uint8))
    assert not is_baseline(np.frombuffer(hr.image.encode_png(pixels), np.uint8))
