"""One billion words: sentences of news, for language models."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.tfds.features import Text

FOLDERS = {
    "train": "training-monolingual.tokenized.shuffled/news.en-",
    "test": "heldout-monolingual.tokenized.shuffled/news.en.heldout-",
}


@public_dataset(
    "lm1b",
    version="1.1.0",
    features={"text": Text()},
    rows={"train": 30_301_028, "test": 306_688},
    disk_bytes=4_700_000_000,
    supervised_keys=("text", "text"),
    homepage="http://www.statmt.org/lm-benchmark/",
    citation="@article{chelba2013one, title={One Billion Word Benchmark for Measuring Progress in Statistical Language "
    "Modeling}, author={Ciprian Chelba and Tomas Mikolov and Mike Schuster and Qi Ge and Thorsten Brants and Phillipp "
    "Koehn}, journal={CoRR}, volume={abs/1312.3005}, year={2013}}",
)
def lm1b(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Sentences of English news in random order, cut into words, one a row."""
    home = f"1-billion-word-language-modeling-benchmark-r13output/{FOLDERS[split]}"
    for path, file in archive_files(sources["archive"], lambda name: name.startswith(home)):
        name = path.rsplit("/", 1)[-1]
        for number, line in enumerate(io.TextIOWrapper(file, "utf-8")):
            yield f"{name}_{number}", {"text": line.strip()}
