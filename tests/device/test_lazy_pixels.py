"""Chains of operations on pixels, which are computed when something reads the pixels."""

import numpy as np
import pytest

import headrace as hr
from headrace.device.evaluate import evaluate
from headrace.device.expression import number, pixel, schedule
from headrace.device.machine import machine_of
from headrace.device.pixels import Pixels

torch = pytest.importorskip("torch")
MEAN = np.float32([0.4, 0.5, 0.6])
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 30, 31, 3), np.uint8)


class Kernels:
    """What stands for Triton's kernels: notes each run, and computes by PyTorch."""

    def __init__(self):
        self.runs = []

    def fits(self, pixels, expression):
        return True

    def compute(self, machine, pixels, expression, tables):
        self.runs.append("compute")
        return Pixels.of(evaluate(machine, expression, pixels.dense(machine), tables))

    def sums(self, machine, pixels, expression, tables):
        self.runs.append("sums")
        return evaluate(machine, expression, pixels.dense(machine), tables).to(torch.int64).sum((1, 2))


def jitter(x, rng):
    x = hr.image.random_brightness(hr.image.random_flip_left_right(x, rng), 0.2, rng)
    x = hr.image.random_saturation(hr.image.random_contrast(x, 0.8, 1.2, rng), 0.8, 1.2, rng)
    return (hr.image.convert_image_dtype(x, np.float32) - MEAN) / np.float32(0.3)


def resized_on_the_way(x, rng):
    return hr.image.resize(hr.image.random_brightness(x, 0.2, rng), (8, 9)) / np.float32(2)


def of_two_images(x, rng):
    return hr.image.flip_left_right(x) * np.float32(0.5) + x * np.float32(0.5)


def of_one_image_twice(x, rng):
    half = x * np.float32(0.5)
    return half + np.where(rng.random() < 0.5, half, x)


@pytest.mark.parametrize(
    ("change", "runs"),
    [
        (jitter, ["sums", "compute"]),  # contrast needs the mean of each channel first
        (resized_on_the_way, ["compute", "compute"]),
        (of_two_images, ["compute", "compute"]),
        (of_one_image_twice, ["compute"]),
    ],
)
@pytest.mark.parametrize("batches", [False, True])
def test_a_chain_is_one_kernel_and_one_more_for_each_mean(monkeypatch, change, runs, batches):
    ds = hr.Dataset.from_tensor_slices(IMAGES).batch(4) if batches else hr.Dataset.from_tensor_slices(IMAGES)
    wanted = next(iter(ds.random_map(change, seed=1).batch(1 if batches else 4)))
    kernels = Kernels()
    monkeypatch.setitem(machine_of("cpu").__dict__, "fused", kernels)
    ds = ds.random_map(change, seed=1, device="cpu").batch(1 if batches else 4)
    assert np.allclose(next(iter(ds)), wanted, atol=0.02)
    assert kernels.runs == runs


def test_images_of_different_numbers_of_channels_are_changed_one_by_one():
    def change(x, rng):
        x = hr.image.random_brightness(hr.image.random_flip_left_right(x, rng), 0.2, rng)
        return hr.image.random_contrast(x, 0.5, 1.5, rng)

    rows = [IMAGES[i, : 9 + i, :, : 1 + 2 * (i % 2)] for i in range(4)]
    unknown = hr.TensorSpec((None, None, None), np.uint8)
    ds = hr.Dataset.from_generator(lambda: iter(rows), output_signature=unknown)
    pairs = zip(ds.random_map(change, seed=1, device="cpu"), ds.random_map(change, seed=1), strict=True)
    assert [a.shape == b.shape and np.allclose(a, b, atol=1) for a, b in pairs] == [True] * 4


def test_explain_joins_what_is_computed_at_once():
    ds = hr.Dataset.from_tensor_slices(IMAGES).random_map(resized_on_the_way, seed=1, device="cpu")
    assert "the device adjust_brightness, resize, true_divide" in " ".join(ds.explain().split())
    ds = hr.Dataset.from_tensor_slices(IMAGES).random_map(jitter, seed=1, device="cpu")
    chain = "flip_if adjust_brightness adjust_contrast adjust_saturation convert_image_dtype subtract true_divide"
    assert f"the device {' → '.join(chain.split())}]" in " ".join(ds.explain().split())


def test_a_long_chain_is_computed_on_the_way(monkeypatch):
    def change(x):
        for _ in range(300):
            x = np.float32(1) - x
        return x

    kernels = Kernels()
    monkeypatch.setitem(machine_of("cpu").__dict__, "fused", kernels)
    ds = hr.Dataset.from_tensor_slices(IMAGES.astype(np.float32)).map(change, device="cpu").batch(4)
    assert np.array_equal(next(iter(ds)), IMAGES)
    assert len(kernels.runs) == 2


def test_expressions_that_are_built_alike_are_one():
    x = pixel(np.float32, 3)
    assert (x * 2 + 1) is (x * 2.0 + np.float32(1))
    assert number(0.0, np.float32) is not number(-0.0, np.float32)
    assert number(1, np.float32) is not number(1, np.int64)


def test_values_are_freed_after_their_last_use():
    x = pixel(np.float32, 3)
    double = x + x
    made = double * x - double
    assert [(one.op, [arg.op for arg in unused]) for one, unused in schedule(made)] == [
        ("pixel", []),
        ("add", []),
        ("mul", ["pixel"]),
        ("sub", ["mul", "add"]),
    ]
