"""IMDB: reviews of films, positive and negative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.tfds.features import ClassLabel, Text


@public_dataset(
    "imdb_reviews",
    config="plain_text",
    version="1.0.0",
    features={"text": Text(), "label": ClassLabel(names=["neg", "pos"])},
    rows={"train": 25_000, "test": 25_000, "unsupervised": 50_000},
    disk_bytes=136_000_000,
    config_description="Plain text",
    supervised_keys=("text", "label"),
    homepage="http://ai.stanford.edu/~amaas/data/sentiment/",
    citation="@inproceedings{maas2011learning, title={Learning Word Vectors for Sentiment Analysis}, author={Maas, Andrew L. "
    "and Daly, Raymond E. and Pham, Peter T. and Huang, Dan and Ng, Andrew Y. and Potts, Christopher}, year={2011}}",
)
def imdb_reviews(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Reviews of films with clear opinions, as many positive as negative ones, and others without labels (-1)."""
    folders = (
        ("aclImdb/train/unsup/",) if split == "unsupervised" else (f"aclImdb/{split}/neg/", f"aclImdb/{split}/pos/")
    )
    for path, file in archive_files(sources["archive"], lambda name: name.startswith(folders)):
        label = -1 if split == "unsupervised" else path.split("/")[2]
        yield path, {"text": file.read().strip(), "label": label}
