"""AG's news: articles of four kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.datasets.formats.tables import plain_rows
from headrace.tfds.features import ClassLabel, Text


@public_dataset(
    "ag_news_subset",
    version="1.0.0",
    features={
        "label": ClassLabel(names=["World", "Sports", "Business", "Sci/Tech"]),
        "title": Text(),
        "description": Text(),
    },
    rows={"train": 120_000, "test": 7_600},
    disk_bytes=38_000_000,
    note="Google Drive: open the URL in a browser",
    supervised_keys=("description", "label"),
    homepage="https://arxiv.org/abs/1509.01626",
    citation="@misc{zhang2015characterlevel, title={Character-level Convolutional Networks for Text Classification}, "
    "author={Xiang Zhang and Junbo Zhao and Yann LeCun}, year={2015}, eprint={1509.01626}}",
)
def ag_news_subset(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Titles and first sentences of news articles of four kinds, equally many of each."""
    for _, file in archive_files(sources["archive"], lambda name: name == f"ag_news_csv/{split}.csv"):
        for number, (label, title, description) in enumerate(plain_rows(file)):
            yield number, {"label": int(label) - 1, "title": title, "description": description}
