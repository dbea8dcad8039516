"""Datasets of OpenML by number: `hr.load("openml:40945", split="train")`."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from headrace.catalogue.arff import NUMBERS, ArffAttribute, read_arff
from headrace.catalogue.in_memory import InMemoryBuilder
from headrace.catalogue.sources import SourceFile, fetch_source
from headrace.core.types import JsonObject, Nested
from headrace.errors import StorageError
from headrace.tfds.feature import ClassLabel, FeatureConnector, FeaturesDict, Scalar, Text
from headrace.tfds.info import DatasetInfo, SplitInfo, Splits
from headrace.tfds.versions import Version

PREFIX = "openml:"
VARIABLE = "HEADRACE_OPENML_URL"
SERVER = "https://www.openml.org"
DESCRIPTION, DATA = "description.json", "data.arff"


def openml_builder(name: str, data_dir: Path, *, download: bool = True) -> InMemoryBuilder:
    """Return what reads a dataset of OpenML; its files are downloaded the first time.

    Numbers are float64 (NaN where they are missing), nominal values numbers of classes (-1 where they are missing),
    texts str. Columns that OpenML marks as row identifiers or to be ignored are left out.

    Args:
        name: `openml:` and the number of the dataset.
        data_dir: the folder of datasets, below which downloads lie.
        download: whether files that are not here may be downloaded.
    """
    folder = openml_folder(name, data_dir)
    number = folder.name
    if not download and not ((folder / DESCRIPTION).exists() and (folder / DATA).exists()):
        raise FileNotFoundError(
            f"{name} is not in {folder}, and was not to be downloaded: `headrace dataset build {name}` does, or "
            "hr.load with download=True"
        )
    server = os.environ.get(VARIABLE, SERVER).rstrip("/")
    about = _description(f"{server}/api/v1/json/data/{number}", folder, name)
    table = read_arff(_data(about, folder))
    left_out = {*_names(about.get("ignore_attribute")), *_names(about.get("row_id_attribute"))}
    chosen = [
        (each, column)
        for each, column in zip(table.attributes, table.columns, strict=True)
        if each.name not in left_out
    ]
    made = {each.name: _column(each, column) for each, column in chosen}
    features = FeaturesDict({key: feature for key, (feature, _) in made.items()})
    columns = {key: values for key, (_, values) in made.items()}
    rows = len(table.columns[0])
    info = DatasetInfo(
        f"openml_{number}", Version(int(about.get("version") or 1), 0, 0), features,
        Splits({"train": SplitInfo("train", (rows,))}), description=str(about.get("description") or ""),
        citation=str(about.get("citation") or ""), homepage=f"{server}/d/{number}",
        license=str(about.get("licence") or ""), supervised_keys=_supervised_keys(about, list(columns)),
        file_format="memory", module_name="openml",
    )  # fmt: skip
    return InMemoryBuilder(info, columns)


def openml_folder(name: str, data_dir: Path) -> Path:
    """Return the folder of all that is downloaded of a dataset of OpenML."""
    number = name.removeprefix(PREFIX)
    if not number.isdecimal():
        raise ValueError(f"{name!r} names no dataset of OpenML: write its number, as in openml:40945")
    return data_dir / "downloads" / "openml" / number


def _description(url: str, folder: Path, name: str) -> JsonObject:
    path = fetch_source(SourceFile(url, filename=DESCRIPTION), folder)
    try:
        found: JsonObject = json.loads(path.read_bytes())["data_set_description"]
        found["url"]
    except (ValueError, LookupError, TypeError) as error:
        path.unlink()
        raise StorageError(f"{name}: {url} does not describe a dataset ({type(error).__name__}: {error})") from None
    return found


def _data(about: JsonObject, folder: Path) -> Path:
    """Return the file of rows, with the MD5 that OpenML promises."""
    source = SourceFile(str(about["url"]), filename=DATA)
    path = fetch_source(source, folder)
    promised = about.get("md5_checksum")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if promised and found != str(promised).lower():
        path.unlink()
        (folder / DESCRIPTION).unlink()  # which may be of another version than the file
        raise StorageError(f"{source.url}: checksum mismatch: its MD5 is {found}, and {promised} was expected")
    return path


def _column(attribute: ArffAttribute, values: list[str | None]) -> tuple[FeatureConnector, Any]:
    if attribute.kind == "nominal":
        numbers: dict[str | None, int] = {value: number for number, value in enumerate(attribute.values)}
        numbers[None] = -1
        unknown = next((value for value in values if value not in numbers), None)
        if unknown is not None:
            raise StorageError(f"column {attribute.name!r} has the value {unknown!r}, which is not among its values")
        return ClassLabel(names=list(attribute.values)), np.array([numbers[value] for value in values], np.int64)
    if attribute.kind in NUMBERS:
        try:
            return Scalar(np.float64), np.array([np.nan if value is None else float(value) for value in values])
        except ValueError as error:
            raise StorageError(f"column {attribute.name!r} is {attribute.kind}: {error}") from None
    return Text(), ["" if value is None else value for value in values]


def _names(said: object) -> list[str]:
    """Return the columns of a field that is a list, or a text with commas between."""
    if said is None:
        return []
    return [str(name) for name in said] if isinstance(said, list) else [name.strip() for name in str(said).split(",")]


def _supervised_keys(about: JsonObject, columns: list[str]) -> Nested:
    targets = [name for name in _names(about.get("default_target_attribute")) if name in columns]
    if not targets:
        return None
    inputs = {name: name for name in columns if name not in targets}
    return inputs, targets[0] if len(targets) == 1 else {name: name for name in targets}
