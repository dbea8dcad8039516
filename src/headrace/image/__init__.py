"""`hr.image`: images decoded, resized and augmented inside the pipeline, under tf.image's names.

Each function works on one image, a batch and a block by one kernel. It knows tracing and files, but no pipeline.
"""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.image import on_device as _forms  # noqa: F401 - registers them
from headrace.image.boxes import crop_and_resize
from headrace.image.colour import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    grayscale_to_rgb,
    hsv_to_rgb,
    per_image_standardization,
    rgb_to_grayscale,
    rgb_to_hsv,
)
from headrace.image.convert import convert_image_dtype
from headrace.image.decode import decode_image, decode_jpeg, decode_png
from headrace.image.encode import encode_jpeg, encode_png
from headrace.image.frames import decode_gif
from headrace.image.geometry import (
    central_crop,
    crop_to_bounding_box,
    decode_and_crop_jpeg,
    flip_left_right,
    flip_up_down,
    pad_to_bounding_box,
    resize_with_crop_or_pad,
    rot90,
    transpose,
)
from headrace.image.load import load_image
from headrace.image.measures import ResizeMethod, extract_jpeg_shape, is_jpeg, psnr, ssim
from headrace.image.mixing import cutmix, mixup
from headrace.image.rand_augment import rand_augment
from headrace.image.random import (
    random_brightness,
    random_contrast,
    random_crop,
    random_flip_left_right,
    random_flip_up_down,
    random_hue,
    random_resized_crop,
    random_saturation,
)
from headrace.image.resize import decode_and_resize, resize, resize_with_pad
from headrace.image.stateless import (
    stateless_random_brightness,
    stateless_random_contrast,
    stateless_random_crop,
    stateless_random_flip_left_right,
    stateless_random_flip_up_down,
    stateless_random_hue,
    stateless_random_jpeg_quality,
    stateless_random_saturation,
)

decode_bmp = decode_image

__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "central_crop",
    "convert_image_dtype",
    "crop_and_resize",
    "crop_to_bounding_box",
    "cutmix",
    "decode_and_crop_jpeg",
    "decode_and_resize",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "is_jpeg",
    "load_image",
    "mixup",
    "pad_to_bounding_box",
    "per_image_standardization",
    "psnr",
    "rand_augment",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_hue",
    "random_resized_crop",
    "random_saturation",
    "resize",
    "resize_with_crop_or_pad",
    "resize_with_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rot90",
    "ssim",
    "stateless_random_brightness",
    "stateless_random_contrast",
    "stateless_random_crop",
    "stateless_random_flip_left_right",
    "stateless_random_flip_up_down",
    "stateless_random_hue",
    "stateless_random_jpeg_quality",
    "stateless_random_saturation",
    "transpose",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.image", name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__all__"]
