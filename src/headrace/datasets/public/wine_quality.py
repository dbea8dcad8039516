"""Wine quality: what is in a wine, and how it tastes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.tables import table_rows

COLUMNS = (
    "fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "free sulfur dioxide",
    "total sulfur dioxide", "density", "pH", "sulphates", "alcohol",
)  # fmt: skip


def _of_config(config: str) -> Callable[..., Iterator[Nested]]:
    def generate(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
        """Portuguese wines: eleven measurements, and the quality between 0 and 10 that experts gave them."""
        for number, row in enumerate(table_rows(sources[config], delimiter=";")):
            features = {name: float(row[name]) for name in COLUMNS}
            yield number, {"quality": int(row["quality"]), "features": features}

    return generate


for _config, _rows in (("white", 4_898), ("red", 1_599)):
    public_dataset(
        "wine_quality",
        config=_config,
        version="1.0.0",
        features={
            "quality": np.int32,
            "features": {name: np.float64 if name == "sulphates" else np.float32 for name in COLUMNS},
        },
        rows={"train": _rows},
        files=[_config],
        config_description=f"{_config.title()} Wine",
        supervised_keys=("features", "quality"),
        homepage="https://archive.ics.uci.edu/ml/datasets/wine+quality",
        license="CC BY 4.0",
        citation="@article{cortez2009modeling, author={Cortez, Paulo and Cerdeira, Antonio and Almeida, Fernando and Matos, "
        "Telmo and Reis, Jose}, title={Modeling wine preferences by data mining from physicochemical properties}, "
        "year={2009}}",
    )(_of_config(_config))
