"""Functions of images, as people write them."""

import numpy as np
import pytest
from tests.trace.checks import check, how, rows, small

import headrace as hr

BYTES = rows("u1", 6, 5, 3)
GREY = rows("u1", 8, 8)
FLOATS = rows("f4", 6, 5, 3)
LABELS = small("i8")
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
KERNEL = np.array([[1, 2, 1], [0, 0, 0], [-1, -2, -1]], np.float32)


def normalise(x):
    x = x.astype(np.float32)
    x /= 255
    return (x - MEAN) / STD


def standardise(x):
    x = x.astype(np.float32)
    x -= x.mean()
    return x / max(1, 1) / (x.std() + np.float32(1e-6))


def centre_crop(x):
    h, w, _ = x.shape
    top, left = (h - 4) // 2, (w - 4) // 2
    return x[top : top + 4, left : left + 4]


def pad_and_crop(x):
    return np.pad(x, ((2, 2), (2, 2), (0, 0)), mode="constant")[1:7, 2:7]


def grey(x):
    return (x @ np.array([0.299, 0.587, 0.114])).astype(np.float32)


def whiten_channels(x):
    x = x.astype(np.float64)
    return (x - x.mean(axis=(0, 1), keepdims=True)) / (x.std(axis=(0, 1), keepdims=True) + 1e-3)


def cut_out(x):
    x[1:3, 1:3] = 0
    return x


def box_blur(x):
    x = x.astype(np.float32)
    padded = np.pad(x, 1, mode="edge")
    return sum(padded[i : i + 8, j : j + 8] for i in range(3) for j in range(3)) / 9


def sobel(x):
    x = x.astype(np.float32)
    out = np.zeros((6, 6), np.float32)
    for i in range(3):
        for j in range(3):
            out += KERNEL[i, j] * x[i : i + 6, j : j + 6]
    return out


def patches(x):
    return x.reshape(4, 2, 4, 2).transpose(0, 2, 1, 3).reshape(16, 4)


def gamma(x):
    return np.clip((x / 255.0) ** 2.2 * 255, 0, 255).astype(np.uint8)


def local_errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return x.astype(np.float32) / x.sum()


def binarise_in_place(x):
    x[x > 127] = 255
    x[x <= 127] = 0
    return x


FUNCTIONS = {
    "scale": (lambda x: x.astype(np.float32) / 255, BYTES),
    "scale to double": (lambda x: x / 255.0, BYTES),
    "scale to ±1": (lambda x: x.astype("float32") / 127.5 - 1, BYTES),
    "scale with a label": (lambda x, y: (x.astype(np.float32) / 255, y), (BYTES, LABELS)),
    "scale by np.float32": (lambda x: np.float32(x) * np.float32(1 / 255), BYTES),
    "multiply by a reciprocal": (lambda x: np.multiply(x, 1 / 255, dtype=np.float32), BYTES),
    "normalise": (normalise, BYTES),
    "standardise": (standardise, BYTES),
    "whiten channels": (whiten_channels, FLOATS),
    "crop": (lambda x: x[1:5, 1:4], BYTES),
    "centre crop": (centre_crop, BYTES),
    "pad and crop": (pad_and_crop, BYTES),
    "reflect pad": (lambda x: np.pad(x, ((1, 1), (1, 1), (0, 0)), mode="reflect"), BYTES),
    "flip": (lambda x: x[:, ::-1], BYTES),
    "flip up and down": (lambda x: np.flipud(x), BYTES),
    "np.flip": (lambda x: np.flip(x, axis=1), BYTES),
    "rotate": (lambda x: np.rot90(x), BYTES),
    "rotate by two": (lambda x: np.rot90(x, k=2, axes=(0, 1)), GREY),
    "transpose": (lambda x: x.T, GREY),
    "channels first": (lambda x: x.transpose(2, 0, 1), BYTES),
    "channels first by moveaxis": (lambda x: np.moveaxis(x, -1, 0).astype(np.float32), BYTES),
    "swap axes": (lambda x: np.swapaxes(x, 0, 1), FLOATS),
    "add a channel": (lambda x: x[..., None], GREY),
    "expand dims": (lambda x: np.expand_dims(x, 0), GREY),
    "squeeze": (lambda x: np.squeeze(x[..., :1]), BYTES),
    "three channels": (lambda x: np.repeat(x[:, :, None], 3, axis=2), GREY),
    "stack channels": (lambda x: np.stack([x, x, x], axis=-1), GREY),
    "swap colours": (lambda x: x[..., ::-1], BYTES),
    "one channel": (lambda x: x[:, :, 1], BYTES),
    "fancy channels": (lambda x: x[:, :, [2, 0]], BYTES),
    "grey": (grey, BYTES),
    "grey by mean": (lambda x: x.mean(axis=-1), BYTES),
    "flatten": (lambda x: x.reshape(-1), BYTES),
    "ravel": (lambda x: x.ravel().astype(np.float32), GREY),
    "downsample": (lambda x: x[::2, ::2], GREY),
    "max pool": (lambda x: x.reshape(4, 2, 4, 2).max(axis=(1, 3)), GREY),
    "mean pool": (lambda x: x.reshape(4, 2, 4, 2).astype(np.float32).mean(axis=(1, 3)), GREY),
    "tile": (lambda x: np.tile(x, (2, 1)), GREY),
    "patches": (patches, GREY),
    "roll": (lambda x: np.roll(x, 2, axis=1), GREY),
    "roll flat": (lambda x: np.roll(x, 5), GREY),
    "threshold": (lambda x: x > 127, GREY),
    "binarise": (lambda x: np.where(x > 127, 255, 0).astype(np.uint8), GREY),
    "binarise in place": (binarise_in_place, GREY),
    "invert": (lambda x: 255 - x, BYTES),
    "brightness": (lambda x: np.clip(x.astype(np.int16) + 40, 0, 255).astype(np.uint8), BYTES),
    "contrast": (lambda x: (x - x.mean(dtype=np.float64)) * 1.5 + 128, BYTES),
    "clip floats": (lambda x: x.clip(0, 1), FLOATS),
    "clip floats to nonzero": (lambda x: np.clip(x, 0.25, 0.75), FLOATS),
    "relu": (lambda x: np.maximum(x, 0), FLOATS),
    "gamma": (gamma, BYTES),
    "saturate": (lambda x: (x * 255).astype(np.uint8), FLOATS),
    "tanh": (lambda x: np.tanh(x), FLOATS),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), FLOATS),
    "log": (lambda x: np.log1p(x.astype(np.float32)), BYTES),
    "brightest": (lambda x: x.argmax(), GREY),
    "histogram": (lambda x: np.histogram(x, bins=4, range=(0, 256))[0], GREY),
    "mosaic": (lambda x: np.concatenate([np.hstack([x, x]), np.hstack([x, 255 - x])], axis=0), GREY),
    "cut out": (cut_out, BYTES),
    "box blur": (box_blur, GREY),
    "sobel": (sobel, GREY),
    "under errstate": (local_errstate, GREY),
    "broadcast a mask": (lambda x: x * np.broadcast_to(np.arange(5)[:, None] > 1, x.shape), BYTES),
    "quantise": (lambda x: (x // 32) * 32, BYTES),
    "bits": (lambda x: (x >> 4) & 0x0F, BYTES),
    "unpack bits": (lambda x: np.unpackbits(x, axis=-1), GREY),
    "total variation": (lambda x: np.abs(np.diff(x.astype(np.int32), axis=0)).sum(), GREY),
    "minmax": (lambda x: (x - x.min()) / (x.max() - x.min() + 1e-8), FLOATS),
    "nan to num": (lambda x: np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=-1.0), FLOATS),
    "bright only": (lambda x: x if x.mean() > 100 else np.zeros_like(x), GREY),
    "corner mean": (lambda x: x[:2, :2].astype(np.float32).mean(), GREY),
}
EAGER = {
    "bounding box": (lambda x: np.argwhere(x > 127).sum(), GREY, "argwhere"),
    "list of rows": (lambda x: x.tolist(), GREY, ".tolist"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_images(name):
    check(*FUNCTIONS[name])


@pytest.mark.parametrize("name", EAGER)
def test_a_function_of_images_that_is_called_on_each(name):
    check(*EAGER[name])


def test_a_random_function_is_called_on_each():
    ds = hr.Dataset.from_tensor_slices(GREY)
    assert "numpy.random" in how(lambda x: x[:, ::-1] if np.random.rand() < 0.5 else x, ds)
