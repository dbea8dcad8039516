"""Tiny Shakespeare: one text, cut into three."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.tfds.features import Text


@public_dataset(
    "tiny_shakespeare",
    version="1.0.0",
    features={"text": Text()},
    rows={"train": 1, "validation": 1, "test": 1},
    disk_bytes=1_120_000,
    homepage="https://github.com/karpathy/char-rnn/blob/master/data/tinyshakespeare/input.txt",
    citation="@misc{karpathy2015charrnn, author={Karpathy, Andrej}, title={char-rnn}, year={2015}}",
)
def tiny_shakespeare(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """40,000 lines of Shakespeare's plays as one text a split: the first 90 %, and 5 % each for the others."""
    text = sources["text"].read_bytes().decode()
    first = int(len(text) * 0.9)
    second = first + int((len(text) - first) * 0.5)
    bounds = {"train": (0, first), "validation": (first, second), "test": (second, len(text))}
    start, stop = bounds[split]
    yield split, {"text": text[start:stop]}
