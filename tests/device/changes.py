"""Images, the functions that change them, and the bounds of docs/device.md: for the tests of each kind of device."""

import io
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import headrace as hr

TABLE = Path(__file__).parents[2] / "docs" / "device.md"
ROW = re.compile(r"^\| `([\w.]+)` \|[^|]*\| ([\d.]+) \| ([\d.]+|-) \|", re.M)


def bounds():
    """The bounds that the documentation states for PyTorch: levels of 255 by operation."""
    return {name: float(bound) for name, bound, _ in ROW.findall(TABLE.read_text(encoding="utf-8"))}


def jax_bounds():
    """Those for JAX, which does not have all operations."""
    found = ROW.findall(TABLE.read_text(encoding="utf-8"))
    return {name: float(bound) for name, _, bound in found if bound != "-"}


def images(dtype, count=12, *, even=False):
    rng = np.random.default_rng(5)
    made = []
    for i in range(count):
        height, width = (40, 56) if even else rng.integers(33, 70, 2)
        y, x = np.mgrid[:height, :width]
        colours = [np.sin(x / 5 + i) * 100 + 120, np.cos(y / 3) * 90 + 130, rng.integers(0, 256, (height, width))]
        image = np.stack(colours, -1).astype(np.uint8)
        made.append(image if dtype == np.uint8 else hr.image.convert_image_dtype(image, dtype))
    return made


def dataset(dtype=np.uint8, *, even=False):
    rows = [hr.image.encode_png(image) for image in images(np.uint8, even=even)]
    ds = hr.Dataset.from_tensor_slices(rows).map(partial(hr.image.decode_png, channels=3))
    return ds if dtype == np.uint8 else ds.map(lambda image: hr.image.convert_image_dtype(image, np.float32))


i = hr.image
CHANGES = {
    "flip_left_right": i.flip_left_right,
    "flip_up_down": i.flip_up_down,
    "rot90": lambda image: i.rot90(image, 3),
    "transpose": i.transpose,
    "central_crop": lambda image: i.central_crop(image, 0.6),
    "crop_to_bounding_box": lambda image: i.crop_to_bounding_box(image, 3, 4, 20, 24),
    "pad_to_bounding_box": lambda image: i.pad_to_bounding_box(image, 3, 4, 80, 90),
    "resize_with_crop_or_pad": lambda image: i.resize_with_crop_or_pad(image, 50, 40),
    "resize": lambda image: i.resize(image, (24, 31)),
    "resize (antialias)": lambda image: i.resize(image, (24, 31), antialias=True),
    "resize (other methods)": lambda image: i.resize(image, (24, 31), method="bicubic"),
    "resize (area)": lambda image: i.resize(image, (24, 31), method="area"),
    "resize (bytes)": lambda image: i.resize(image, (24, 31), dtype=np.uint8),
    "resize (nearest)": lambda image: i.resize(image, (24, 31), method="nearest"),
    "resize_with_pad": lambda image: i.resize_with_pad(image, 30, 44),
    "rgb_to_grayscale": i.rgb_to_grayscale,
    "grayscale_to_rgb": lambda image: i.grayscale_to_rgb(i.rgb_to_grayscale(image)),
    "adjust_gamma": lambda image: i.adjust_gamma(image, 0.7, 1.1),
    "adjust_brightness": lambda image: i.adjust_brightness(image, 0.11),
    "adjust_contrast": lambda image: i.adjust_contrast(image, 1.3),
    "adjust_saturation": lambda image: i.adjust_saturation(image, 1.4),
    "adjust_hue": lambda image: i.adjust_hue(image, 0.2),
    "convert_image_dtype": lambda image: i.convert_image_dtype(image, np.float32),
    "per_image_standardization": i.per_image_standardization,
}
DRAWN = {
    "random_crop": lambda image, rng: i.random_crop(image, (20, 24), rng),
    "random_resized_crop": lambda image, rng: i.random_resized_crop(image, (20, 24), rng),
    "random_resized_crop (bytes)": lambda image, rng: i.random_resized_crop(image, (20, 24), rng, dtype=np.uint8),
    "random_flip_left_right": i.random_flip_left_right,
    "random_flip_up_down": i.random_flip_up_down,
    "random_brightness": lambda image, rng: i.random_brightness(image, 0.3, rng),
    "random_contrast": lambda image, rng: i.random_contrast(image, 0.5, 1.5, rng),
    "random_saturation": lambda image, rng: i.random_saturation(image, 0.5, 1.5, rng),
    "random_hue": lambda image, rng: i.random_hue(image, 0.2, rng),
}
FLOATS_ONLY = {
    "rgb_to_hsv": i.rgb_to_hsv,
    "hsv_to_rgb": lambda image: i.hsv_to_rgb(i.rgb_to_hsv(image)),
}


def levels(ours, theirs, *, scale):
    """The largest difference in levels of 255."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0)) * scale


def jpegs():
    """JPEGs by name: an engine of a GPU can decode those in capitals."""
    image, rng = pytest.importorskip("PIL.Image"), np.random.default_rng(0)

    def jpeg(height, width, mode="RGB", **how):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        out = io.BytesIO()
        image.fromarray(pixels).convert(mode).save(out, "JPEG", **{"quality": 90, "subsampling": "4:4:4", **how})
        return out.getvalue()

    return {
        "A": jpeg(19, 23),
        "B": jpeg(40, 31, quality=40),
        "a": jpeg(20, 20, progressive=True),
        "C": jpeg(21, 35, subsampling="4:2:0"),
        "D": jpeg(22, 33, subsampling="4:2:2"),
        "F": jpeg(9, 31, "L"),
    }
