"""Datasets that are made here: a class, or a generator with a decorator, and `build`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.catalogue.download import sha256_of
from headrace.catalogue.evolution import Change, changes_between, check_made_by, check_version
from headrace.catalogue.folders import INDEX, write_index
from headrace.catalogue.sources import SourceFile, fetch_sources
from headrace.core.types import JsonObject, JsonValue, Nested, StrPath
from headrace.dataset import Dataset
from headrace.execute.budget import cpus
from headrace.identity.digests import PYTHON
from headrace.identity.looker import Looker
from headrace.remote.redact import show_path
from headrace.tfds.builder import ReadOnlyBuilder, builder_from_directory, data_directory, list_versions
from headrace.tfds.feature import FeatureConnector, FeatureLike, as_feature, canonical
from headrace.tfds.files import Folder
from headrace.tfds.pipelines import PipelineRows, local_folder
from headrace.tfds.staging import BuildError, Key, keyed
from headrace.tfds.versions import Version, snake_case
from headrace.tfds.writing import DatasetPlan, write_dataset

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike

KNOWN: dict[str, DatasetBuilder] = {}
"""The builders of this process, by name."""


class DatasetBuilder(ABC):
    """A dataset that can be built: its name, its features, and the source of its rows.

    A subclass names these as attributes and gives the rows of each part of a split in `examples`, as dicts, or as pairs
    of a key and a dict. Keys order the rows and must differ; without them rows have their numbers. The same part must
    always give the same rows: a killed build continues after those that it has.

    >>> class Squares(hr.catalogue.DatasetBuilder):
    ...     name = "squares"
    ...     version = "1.0.0"
    ...     features = {"x": np.int64, "square": np.int64}
    ...     splits = {"train": range(10), "test": range(10, 12)}
    ...
    ...     def examples(self, part):
    ...         yield part, {"x": part, "square": part * part}
    >>> Squares().build(folder)
    ReadOnlyBuilder('squares/1.0.0')
    >>> hr.tfds.load("squares", split="test", data_dir=folder, order="file")[0]
    {'square': np.int64(100), 'x': np.int64(10)}
    """

    name: str
    version: str
    features: FeatureLike
    splits: JsonValue = ("train",)
    """Names, each of which is a part; or by name the parts of a split, each of which `examples` is called with."""
    config: str | None = None
    description: str = ""
    config_description: str = ""
    citation: str = ""
    homepage: str = ""
    license: str = ""
    supervised_keys: Nested = None
    release_notes: Mapping[str, str] = {}
    sources: Mapping[str, SourceFile | str] = {}
    file_format: str = "tfrecord"
    shuffle: bool = True
    shards: int | None = None
    readers: int = 1
    metadata: JsonValue = None
    row_counts: Mapping[str, int] = {}
    """How many rows each split will have, if known beforehand."""

    _fetched: Mapping[str, Path] = {}

    @abstractmethod
    def examples(self, part: object) -> Iterable[Nested]:
        """Return the rows of one part; a Dataset will do."""

    @property
    def maker(self) -> Callable[..., Iterable[Nested]]:
        """The user's function that makes rows."""
        return self.examples

    def source(self, name: str) -> Any:
        """Return one of the `sources`, on this machine and checked."""
        return self._fetched[name]

    @property
    def feature(self) -> FeatureConnector:
        """The features, a dict of them made a FeaturesDict."""
        return as_feature(self.features)

    def parts(self) -> dict[str, list[Any]]:
        """Return the parts of each split."""
        if isinstance(self.splits, Mapping):
            return {
                name: list(given) if isinstance(given, Sequence) and not isinstance(given, str | bytes) else [given]
                for name, given in self.splits.items()
            }
        return {name: [name] for name in ([self.splits] if isinstance(self.splits, str) else self.splits)}

    def plan(self, checksums: Mapping[str, str], download_size: int) -> DatasetPlan:
        """Return what is to be written."""
        return DatasetPlan(
            name=snake_case(self.name), version=Version.of(self.version), features=self.feature, config=self.config,
            description=inspect.cleandoc(self.description or type(self).__doc__ or ""),
            config_description=self.config_description, citation=self.citation, homepage=self.homepage,
            license=self.license, supervised_keys=self.supervised_keys, release_notes=self.release_notes,
            file_format=self.file_format, shuffle=self.shuffle, shards=self.shards, readers=self.readers,
            checksums=checksums, download_size=download_size, metadata=self.metadata,
        )  # fmt: skip

    def build(
        self,
        data_dir: StrPath | None = None,
        *,
        processes: int | None = None,
        overwrite: bool = False,
        progress: bool | None = None,
        check_versions: bool = True,
        limit: int | None = None,
    ) -> ReadOnlyBuilder:
        """Write the dataset below `data_dir`, and return its reader. An existing one is not built again.

        If it is there, and was made by other code, features or sources, that is an error: raise the version.

        A killed build continues. Parts of a split are made by several `processes` at a time (None: as many as there are
        CPUs, if there are several parts). If an earlier version exists, and the features or splits have changed more
        than the version says, that is an error. `limit` rows of each part are enough for a trial.
        """
        folder = local_folder(data_directory(data_dir).path)
        code = self._code()
        plan = self.plan(*self._fetch(folder, progress=progress))
        made_by = {
            "python": PYTHON, "code": code, "features": canonical(plan.features), "limit": limit,
            "sources": dict(plan.checksums),
        }  # fmt: skip
        plan = replace(plan, made_by=made_by)
        target = plan.home(folder) / str(plan.version)
        if target.exists() and not overwrite:
            if check_versions:
                check_made_by(target, made_by, f"{plan.name} {plan.version}")
            return builder_from_directory(target)
        if check_versions:
            self._check_version(plan, folder)
        splits = {
            split: [
                GeneratedRows(self, part, f"{number}/" if number else "", limit) for number, part in enumerate(parts)
            ]
            for split, parts in self.parts().items()
        }
        if not splits:
            raise BuildError(f"{plan.name} has no splits")
        width = cpus() if processes is None else processes
        found: dict[str, Sequence[Any]] = {name: [each.source() for each in rows] for name, rows in splits.items()}
        counts = dict(self.row_counts) if limit is None else None
        written = write_dataset(
            plan, folder, found, processes=width, overwrite=overwrite, progress=progress, counts=counts
        )
        if (folder / INDEX).exists():  # so that a copy of the folder in a store lists this version too
            write_index(folder)
        return builder_from_directory(written)

    def _code(self) -> dict[str, list[str]]:
        """Return digests of the code that makes each part, and of what it holds."""
        self._fetched = {}  # the location of sources says nothing about their contents
        return {
            split: [str(Looker().digest((self.maker, part))) for part in parts] for split, parts in self.parts().items()
        }

    def source_files(self) -> dict[str, SourceFile]:
        """Return the `sources`, those that are paths or URLs alone made SourceFiles."""
        return {name: each if isinstance(each, SourceFile) else SourceFile(each) for name, each in self.sources.items()}

    def source_folder(self, data_dir: Path) -> Path:
        """Return the directory of its downloads, and of files that are put there by hand."""
        return data_dir / "downloads" / "manual" / snake_case(self.name)

    def download(self, data_dir: StrPath | None = None, *, progress: bool | None = None) -> dict[str, Path]:
        """Download and verify all sources without building anything. Return their paths.

        Args:
            data_dir: the directory of datasets, with downloads below it; TFDS's own by default.
            progress: whether to show bars; None shows them if standard error is a terminal.
        """
        self._fetch(local_folder(data_directory(data_dir).path), progress=progress)
        return dict(self._fetched)

    def _fetch(self, folder: Path, *, progress: bool | None = None) -> tuple[dict[str, str], int]:
        """Fetch all sources. Return their checksums and their size."""
        named = self.source_files()
        title = f"{self.name} {self.version}"
        self._fetched = fetch_sources(named, self.source_folder(folder), title=title, progress=progress)
        sums: dict[str, str] = {}
        for name, source in named.items():
            shown = show_path(source.url)  # it is written into dataset_info.json
            shown = f"{shown} ({name})" if shown in sums else shown
            sums[shown] = source.sha256 or sha256_of(self._fetched[name])
        return sums, sum(path.stat().st_size for path in self._fetched.values())

    def _check_version(self, plan: DatasetPlan, folder: Path) -> None:
        """Refuse a version number that says less than what has changed since the last one."""
        home = Folder(plan.home(folder))
        earlier = [v for v in list_versions(home).get(None, []) if v < plan.version]
        if not earlier:
            return
        before = builder_from_directory(str(plan.home(folder) / str(earlier[-1]))).info
        found: list[Change] = changes_between(before.features, plan.features, list(before.splits), list(self.parts()))
        check_version(earlier[-1], plan.version, found, plan.name)


class GeneratedRows:
    """The rows of one part of a split."""

    def __init__(self, builder: DatasetBuilder, part: object, prefix: str, limit: int | None) -> None:
        self._builder, self._part, self._prefix, self._limit = builder, part, prefix, limit

    def source(self) -> Any:
        """Return the source of rows: any row of a Dataset is read without those before it."""
        if inspect.isgeneratorfunction(getattr(self._builder.examples, "__func__", None)):
            return self
        made = self._builder.examples(self._part)
        if isinstance(made, Dataset):
            return PipelineRows(made if self._limit is None else made.take(self._limit))
        return self

    def identity(self) -> JsonValue:
        """See RowSource: by the code of the generator and by what it is called with."""
        return [str(Looker().digest((self._builder.maker, repr(self._part)))), self._limit]

    def rows(self, skip: int) -> tuple[int, Iterator[tuple[Key, Nested]]]:  # noqa: ARG002 - a generator starts in front
        """See RowSource."""
        made = keyed(self._builder.examples(self._part), self._prefix)
        return 0, made if self._limit is None else islice(made, self._limit)


class GeneratorDataset(DatasetBuilder):
    """A builder whose rows come from a function."""

    def __init__(self, generator: Callable[..., Iterable[Nested]], attributes: Mapping[str, object]) -> None:
        self._generator = generator
        self.__doc__ = generator.__doc__
        for name, value in attributes.items():
            setattr(self, name, value)
        self.description: str = self.description or inspect.cleandoc(generator.__doc__ or "")
        self._takes = inspect.signature(generator).parameters

    def __repr__(self) -> str:
        return f"<dataset {self.name}:{self.version}>"

    def __call__(self, *args: object, **kwargs: object) -> Nested:
        """Return the generator itself."""
        return self._generator(*args, **kwargs)

    @property
    def maker(self) -> Callable[..., Iterable[Nested]]:
        """See DatasetBuilder."""
        return self._generator

    def examples(self, part: object) -> Iterable[Nested]:
        """Return what the function gives."""
        extra: JsonObject = {"sources": self._fetched} if "sources" in self._takes else {}
        return self._generator(*([part] if len(self._takes) > len(extra) else []), **extra)


def dataset(name: str, *, version: str, features: FeatureLike, **attributes: object) -> Callable[..., GeneratorDataset]:
    """Make a generator of rows a dataset: the attributes are those of `hr.catalogue.DatasetBuilder`.

    The function is called with each part of each split, or, if `splits` are only names, with the name. If it takes
    `sources`, it gets the paths of these files, by name, checked.

    Args:
        name: Name of the dataset.
        version: Version of the dataset.
        features: Features of a row.
        **attributes: Further attributes of `hr.catalogue.DatasetBuilder`.

    >>> @hr.dataset("cubes", version="1.0.0", features={"x": np.int64, "cube": np.int64}, splits=["train"])
    ... def cubes(split):
    ...     for x in range(4):
    ...         yield {"x": x, "cube": x**3}
    >>> cubes.build(folder)
    ReadOnlyBuilder('cubes/1.0.0')
    >>> sorted(int(row["cube"]) for row in hr.load("cubes", split="train", data_dir=folder))
    [0, 1, 8, 27]
    """
    known = {key for kind in DatasetBuilder.__mro__ for key in getattr(kind, "__annotations__", {})}
    for key in attributes:
        if key not in known or key.startswith("_"):
            raise TypeError(f"a dataset has no {key!r}: there are {', '.join(sorted(k for k in known if k[0] != '_'))}")
    said = {"name": name, "version": str(Version.of(version)), "features": as_feature(features), **attributes}

    def decorate(generator: Callable[..., Iterable[object]]) -> GeneratorDataset:
        made = GeneratorDataset(generator, said)
        KNOWN[snake_case(name)] = made
        return made

    return decorate
