"""Diamonds: what they are like, and their prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.tables import table_rows
from headrace.tfds.features import ClassLabel

CLASSES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": ["D", "E", "F", "G", "H", "I", "J"],
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}
NUMBERS = ("carat", "x", "y", "z", "depth", "table")


@public_dataset(
    "diamonds",
    version="1.0.0",
    features={
        "features": {
            **{name: ClassLabel(names=names) for name, names in CLASSES.items()},
            **dict.fromkeys(NUMBERS, np.float32),
        },
        "price": np.float32,
    },
    rows={"train": 53_940},
    release_notes={"1.0.0": "Initial release."},
    supervised_keys=("features", "price"),
    homepage="https://ggplot2.tidyverse.org/reference/diamonds.html",
    citation="@book{wickham2016ggplot2, author={Hadley Wickham}, title={ggplot2: Elegant Graphics for Data Analysis}, "
    "year={2016}}",
)
def diamonds(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Weight, cut, colour, clarity and sizes of diamonds, and their prices in US dollars."""
    for number, row in enumerate(table_rows(sources["table"])):
        features = {name: row[name] for name in CLASSES} | {name: float(row[name]) for name in NUMBERS}
        yield number, {"features": features, "price": float(row["price"])}
