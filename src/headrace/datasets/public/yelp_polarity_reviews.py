"""Yelp: reviews, positive and negative."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.tfds.features import ClassLabel, Text


@public_dataset(
    "yelp_polarity_reviews",
    version="0.2.0",
    features={"text": Text(), "label": ClassLabel(names=["1", "2"])},
    rows={"train": 560_000, "test": 38_000},
    supervised_keys=("text", "label"),
    homepage="https://course.fast.ai/datasets",
    citation="@misc{zhang2015characterlevel, title={Character-level Convolutional Networks for Text Classification}, "
    "author={Xiang Zhang and Junbo Zhao and Yann LeCun}, year={2015}, eprint={1509.01626}}",
)
def yelp_polarity_reviews(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Reviews of businesses with one or two stars (class 1) and with three or four (class 2)."""
    for _, file in archive_files(sources["archive"], lambda name: name == f"yelp_review_polarity_csv/{split}.csv"):
        with io.TextIOWrapper(file, "utf-8") as lines:
            for number, line in enumerate(lines):  # "1","The text."
                yield number, {"text": line[5:-2].strip(), "label": line[1]}
