"""EuroSAT: satellite pictures of land use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.core.types import Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_files
from headrace.tfds.features import ClassLabel, Image, Text

NAMES = [
    "AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial", "Pasture", "PermanentCrop", "Residential",
    "River", "SeaLake",
]  # fmt: skip


@public_dataset(
    "eurosat",
    config="rgb",
    version="2.0.0",
    features={"image": Image(shape=(64, 64, 3)), "label": ClassLabel(names=NAMES), "filename": Text()},
    rows={"train": 27_000},
    files=["rgb"],
    config_description="The visible bands of Sentinel-2.",
    supervised_keys=("image", "label"),
    homepage="https://github.com/phelber/eurosat",
    license="MIT",
    citation="@misc{helber2017eurosat, title={EuroSAT: A Novel Dataset and Deep Learning Benchmark for Land Use and Land "
    "Cover Classification}, author={Patrick Helber and Benjamin Bischke and Andreas Dengel and Damian Borth}, "
    "year={2017}, eprint={1709.00029}}",
)
def eurosat(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
    """Pictures of 64 × 64 pixels by the satellite Sentinel-2, of ten kinds of land cover in Europe."""
    for path, file in archive_files(sources["rgb"], lambda name: name.startswith("2750/") and name.count("/") == 2):
        name = path.rsplit("/", 1)[-1]
        label = name.split("_")[0]
        yield f"{label}_{name}", {"image": file.read(), "label": label, "filename": name}
