"""GLUE: sentences of SST-2 with their sentiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.datasets.formats.tables import table_rows
from headrace.tfds.features import ClassLabel, Text

FILES = {"train": "train", "validation": "dev", "test": "test"}


@public_dataset(
    "glue",
    config="sst2",
    version="2.0.0",
    features={"sentence": Text(), "label": ClassLabel(names=["negative", "positive"]), "idx": np.int32},
    rows={"train": 67_349, "validation": 872, "test": 1_821},
    files=["sst2"],
    config_description="The Stanford Sentiment Treebank, with two classes.",
    homepage="https://nlp.stanford.edu/sentiment/index.html",
    citation="@inproceedings{socher2013recursive, title={Recursive deep models for semantic compositionality over a "
    "sentiment treebank}, author={Socher, Richard and others}, year={2013}}\n@inproceedings{wang2019glue, title={GLUE: A "
    "Multi-Task Benchmark and Analysis Platform for Natural Language Understanding}, author={Wang, Alex and others}, "
    "year={2019}}",
)
def sst2(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Sentences of film reviews, positive or negative; those of the test split have no label (-1)."""
    for _, file in archive_files(sources["sst2"], lambda name: name == f"SST-2/{FILES[split]}.tsv"):
        for number, row in enumerate(table_rows(file, delimiter="\t", quoting=False)):
            yield number, {"sentence": row["sentence"], "label": int(row.get("label", -1)), "idx": number}
