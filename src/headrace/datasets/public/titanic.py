"""Titanic: who survived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import JsonObject, Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.tables import table_rows
from headrace.tfds.features import ClassLabel, Tensor

CLASSES = {"1": "1st_class", "2": "2nd_class", "3": "3rd_class"}
SURVIVED = {"0": "died", "1": "survived"}
PORTS = {"C": "Cherbourg", "Q": "Queenstown", "S": "Southampton", "?": "Unknown"}
TEXTS = ("name", "ticket", "cabin", "boat", "home.dest")
FLOATS = ("age", "fare")
INTEGERS = ("sibsp", "parch", "body")
FEATURES: JsonObject = {
    "pclass": ClassLabel(names=list(CLASSES.values())),
    "survived": ClassLabel(names=list(SURVIVED.values())),
    "sex": ClassLabel(names=["male", "female"]),
    "embarked": ClassLabel(names=list(PORTS.values())),
    **{name: Tensor(shape=(), dtype=bytes) for name in TEXTS},
    **{name: Tensor(shape=(), dtype=np.float32) for name in FLOATS},
    **{name: Tensor(shape=(), dtype=np.int32) for name in INTEGERS},
}


@public_dataset(
    "titanic",
    version="4.0.0",
    features=FEATURES,
    rows={"train": 1_309},
    disk_bytes=392_000,
    supervised_keys=({name: name for name in FEATURES if name != "survived"}, "survived"),
    homepage="https://www.openml.org/d/40945",
    license="public",
    citation="@online{titanic, author={Frank E. Harrell Jr. and Thomas Cason}, title={Titanic dataset}, year={2017}, "
    "url={https://www.openml.org/d/40945}}",
)
def titanic(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Passengers of the Titanic. Unknown texts are `Unknown`, unknown numbers -1."""
    for number, row in enumerate(table_rows(sources["table"])):
        yield (
            number,
            {
                "pclass": CLASSES[row["pclass"]],
                "survived": SURVIVED[row["survived"]],
                "sex": row["sex"],
                "embarked": PORTS[row["embarked"]],
                **{name: "Unknown" if row[name] == "?" else row[name] for name in TEXTS},
                **{name: np.float32(-1 if row[name] == "?" else row[name]) for name in FLOATS},
                **{name: -1 if row[name] == "?" else int(row[name]) for name in INTEGERS},
            },
        )
