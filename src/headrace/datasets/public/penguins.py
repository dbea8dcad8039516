"""Palmer penguins: measurements of three species."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import JsonObject, Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.tables import table_rows
from headrace.tfds.features import ClassLabel, Tensor, Text

LENGTHS = ("culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g")
SIMPLE: JsonObject = {
    "species": ClassLabel(names=["Adelie", "Chinstrap", "Gentoo"]),
    "island": ClassLabel(names=["Biscoe", "Dream", "Torgersen"]),
    **dict.fromkeys(LENGTHS, np.float32),
    "sex": ClassLabel(names=["FEMALE", "MALE", "NA"]),
}
RAW_TEXTS = (
    "studyName", "Species", "Region", "Island", "Stage", "Individual ID", "Clutch Completion", "Date Egg", "Sex",
    "Comments",
)  # fmt: skip
RAW_NUMBERS = (
    "Culmen Length (mm)", "Culmen Depth (mm)", "Flipper Length (mm)", "Body Mass (g)", "Delta 15 N (o/oo)",
    "Delta 13 C (o/oo)",
)  # fmt: skip
RAW: JsonObject = {
    "Sample Number": np.int32,
    **{name: Text() for name in RAW_TEXTS},
    **dict.fromkeys(RAW_NUMBERS, np.float32),
}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def processed_row(row: dict[str, str]) -> JsonObject:
    """Measurements between 0 and 1 as one vector."""
    label = int(row.pop("species"))
    return {"species": label, "features": np.array(list(row.values()), np.float32)}


def simple_row(row: dict[str, str]) -> JsonObject:
    """Measurements, NaN where there is none, and what else is known."""
    numbers = {name: _number(row[name]) for name in LENGTHS}
    sex = row["sex"] if row["sex"] in ("FEMALE", "MALE") else "NA"
    return {"species": row["species"], "island": row["island"], **numbers, "sex": sex}


def raw_row(row: dict[str, str]) -> JsonObject:
    """All columns as they were published."""
    texts = {name: row[name] for name in RAW_TEXTS}
    return {"Sample Number": int(row["Sample Number"]), **texts, **{name: _number(row[name]) for name in RAW_NUMBERS}}


def _of_config(config: str, parse: Callable[[dict[str, str]], object]) -> Callable[..., Iterator[Nested]]:
    def generate(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
        """Penguins of three species on islands near Palmer Station in Antarctica, and their measurements."""
        for number, row in enumerate(table_rows(sources[config])):
            yield number, parse(row)

    return generate


PROCESSED = {"species": ClassLabel(num_classes=3), "features": Tensor(shape=(4,), dtype=np.float32)}
for _config, _rows, _features, _keys, _parse in (
    ("processed", 334, PROCESSED, ("features", "species"), processed_row),
    ("simple", 344, SIMPLE, ({name: name for name in SIMPLE}, "species"), simple_row),
    ("raw", 344, RAW, None, raw_row),
):
    public_dataset(
        "penguins",
        config=_config,
        version="1.0.0",
        features=_features,
        rows={"train": _rows},
        files=[_config],
        config_description=str(_parse.__doc__),
        supervised_keys=_keys,
        release_notes={"1.0.0": "Initial release."},
        homepage="https://allisonhorst.github.io/palmerpenguins/",
        license="CC0",
        citation="@manual{palmerpenguins, title={palmerpenguins: Palmer Archipelago (Antarctica) penguin data}, "
        "author={Allison Marie Horst and Alison Presmanes Hill and Kristen B Gorman}, year={2020}, "
        "doi={10.5281/zenodo.3960218}}",
    )(_of_config(_config, _parse))
