"""EMNIST: handwritten letters and digits, in MNIST's format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_file
from headrace.datasets.formats.idx import read_idx
from headrace.datasets.public.mnist import paired_rows
from headrace.tfds.features import ClassLabel, Image

CONFIGS = {
    "byclass": (62, 697_932, 116_323),
    "bymerge": (47, 697_932, 116_323),
    "balanced": (47, 112_800, 18_800),
    "letters": (37, 88_800, 14_800),
    "digits": (10, 240_000, 40_000),
    "mnist": (10, 60_000, 10_000),
}
"""How many classes each has, and rows for training and testing."""


def rows(config: str, split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """The rows of a split."""
    archive = sources["archive"]
    names = [f"gzip/emnist-{config}-{split}-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1")]
    pictures, labels = (read_idx(archive_file(archive, name), name) for name in names)
    return paired_rows(pictures, labels, names[0])


def _of_config(config: str) -> Callable[..., Iterator[Nested]]:
    def generate(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
        """Handwritten letters and digits as pictures of 28 × 28 pixels, mirrored and turned as NIST publishes them."""
        yield from rows(config, split, sources)

    return generate


for _config, (_classes, _train, _test) in CONFIGS.items():
    public_dataset(
        "emnist",
        config=_config,
        version="3.1.0",
        features={"image": Image(shape=(28, 28, 1)), "label": ClassLabel(num_classes=_classes)},
        rows={"train": _train, "test": _test},
        supervised_keys=("image", "label"),
        homepage="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        citation="@article{cohen2017emnist, title={EMNIST: Extending MNIST to handwritten letters}, "
        "author={Cohen, Gregory and Afshar, Saeed and Tapson, Jonathan and Schaik, Andre Van}, year={2017}}",
    )(_of_config(_config))
