"""Cats and dogs: photographs of pets."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.image import decode_image
from headrace.image.codecs import image_library
from headrace.tfds.features import ClassLabel, Image, Text

NAME = re.compile(r"PetImages/(Cat|Dog)/\d+\.jpg")


def encode_again(data: bytes) -> bytes:
    """A JPEG with the same picture, as TensorFlow would write it: of the original some decoders complain."""
    picture = decode_image(data)
    out = io.BytesIO()
    pixels = picture[..., 0] if picture.shape[-1] == 1 else picture
    image_library("PIL.Image").fromarray(pixels).save(out, "JPEG", quality=95, subsampling="4:2:0")
    return out.getvalue()


@public_dataset(
    "cats_vs_dogs",
    version="4.0.1",
    features={"image": Image(), "image/filename": Text(), "label": ClassLabel(names=["cat", "dog"])},
    rows={"train": 23_262},
    supervised_keys=("image", "label"),
    homepage="https://www.microsoft.com/en-us/download/details.aspx?id=54765",
    citation="@inproceedings{elson2007asirra, author={Elson, Jeremy and Douceur, John and Howell, Jon and Saul, Jared}, "
    "title={Asirra: A CAPTCHA that Exploits Interest-Aligned Manual Image Categorization}, year={2007}}",
)
def cats_vs_dogs(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Photographs of cats and dogs of different sizes. The 1,738 files that are no proper JPEGs are left out."""
    for path, file in archive_files(sources["archive"]):
        found = NAME.fullmatch(path)
        if found is None or b"JFIF" not in file.peek(10):  # type: ignore[attr-defined]
            continue
        yield path, {"image": encode_again(file.read()), "image/filename": path, "label": found[1].lower()}
