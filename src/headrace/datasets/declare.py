"""Declare a public dataset: its features, row counts, and source files."""

from __future__ import annotations

import csv
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from importlib.resources import files

from headrace.catalogue.builder import GeneratorDataset
from headrace.catalogue.sources import SourceFile
from headrace.core.types import Argument, Nested
from headrace.datasets.formats.inflated import keeping_checkpoints
from headrace.errors import HeadraceError, StorageError
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.feature import as_feature
from headrace.tfds.info import DatasetInfo, SplitInfo, Splits
from headrace.tfds.versions import Version
from headrace.tfds.writing import DatasetPlan

TABLE = "sources.tsv"
DAMAGE = (
    OSError, EOFError, ValueError, LookupError, TypeError, zlib.error, csv.Error, tarfile.TarError, zipfile.BadZipFile,
)  # fmt: skip
"""What parsers raise for files that are not in their format."""

DECLARED: dict[str, dict[str | None, PublicDataset]] = {}
"""The datasets that were imported, by name and config; the first config is the default one."""


class PublicDataset(GeneratorDataset):
    """A dataset made from files on the web, which are downloaded when it is built.

    `disk_bytes` is about how large the built dataset is. `earlier` are versions with other numbers and the same rows.
    """

    disk_bytes: int | None = None
    earlier: Sequence[str] = ()

    @property
    def versions(self) -> list[Version]:
        """All versions that can be built, the current one last."""
        return sorted(map(Version.of, (*self.earlier, self.version)))

    @property
    def download_bytes(self) -> int:
        """Return the size of its files."""
        return sum(source.size or 0 for source in self.source_files().values())

    @property
    def default_config(self) -> str | None:
        """The config that its name alone means: the first that was declared."""
        return next(iter(DECLARED[self.name]))

    def build(self, *args: Argument, **kwargs: Argument) -> ReadOnlyBuilder:
        """See DatasetBuilder. What one split has inflated of an archive, the others need not inflate again."""
        with keeping_checkpoints():
            return super().build(*args, **kwargs)

    def plan(self, checksums: Mapping[str, str], download_size: int) -> DatasetPlan:
        """See DatasetBuilder."""
        return replace(super().plan(checksums, download_size), default_config=self.default_config)

    def examples(self, part: object) -> Iterator[Nested]:
        """Yield what the generator gives; files that it cannot parse, or that have no rows, are named."""
        count = 0
        try:
            for row in super().examples(part):
                yield row
                count += 1
        except HeadraceError:
            raise
        except DAMAGE as error:
            raise self._bad_files(part, f"{type(error).__name__}: {error}") from error
        if not count:
            raise self._bad_files(part, "there are no rows in them")

    def _bad_files(self, part: object, what: str) -> StorageError:
        paths = ", ".join(map(str, self._fetched.values()))
        return StorageError(f"{self.name}, split {part!r}: its files are not what they should be ({what}): {paths}")

    def at_version(self, version: Version) -> PublicDataset:
        """Return the same dataset under another of its numbers."""
        made = copy(self)
        made.version = str(version)
        return made

    @property
    def info(self) -> DatasetInfo:
        """What is known before it is built."""
        splits = {name: SplitInfo(name, (count,)) for name, count in self.row_counts.items()}
        return DatasetInfo(
            self.name, Version.of(self.version), self.feature, Splits(splits), config_name=self.config,
            description=self.description, citation=self.citation, homepage=self.homepage, license=self.license,
            supervised_keys=self.supervised_keys, download_size=self.download_bytes,
            download_checksums={each.url: each.sha256 or "" for each in self.source_files().values()},
        )  # fmt: skip


def public_dataset(
    name: str,
    *,
    version: str,
    features: object,
    rows: Mapping[str, int],
    config: str | None = None,
    files: Sequence[str] | None = None,
    note: str = "",
    **attributes: object,
) -> Callable[[Callable[..., Iterable[Nested]]], PublicDataset]:
    """Declare a dataset by its generator, which is called with the name of a split and the paths of its files.

    Args:
        name: what it is called.
        version: its version, as in TensorFlow Datasets.
        features: what its rows hold.
        rows: how many rows each split has.
        config: which variant it is.
        files: which lines of the table of files it needs; by default all of its name.
        note: how to get the files by hand, if a host requires a login.
        attributes: further attributes of `hr.catalogue.DatasetBuilder` and PublicDataset.
    """
    known = {key: each for key, each in source_table(note).get(name, {}).items() if files is None or key in files}
    said = {
        "name": name, "version": version, "features": as_feature(features), "config": config, "splits": list(rows),
        "row_counts": dict(rows), "sources": known, **attributes,
    }  # fmt: skip

    def declare(generator: Callable[..., Iterable[object]]) -> PublicDataset:
        made = PublicDataset(generator, said)
        DECLARED.setdefault(name, {})[config] = made
        return made

    return declare


@cache
def source_table(note: str = "") -> dict[str, dict[str, SourceFile]]:
    """Return the files of all datasets, by name and key."""
    found: dict[str, dict[str, SourceFile]] = {}
    lines = (files("headrace.datasets.public") / TABLE).read_text().splitlines()
    for line in lines[1:]:
        name, key, size, sha256, filename, urls = line.split("\t")
        url, *mirrors = urls.split()
        found.setdefault(name, {})[key] = SourceFile(
            url, sha256, note, size=int(size), mirrors=tuple(mirrors), filename=filename
        )
    return found


def label_names(name: str) -> list[str]:
    """Return the names of classes, of a dataset that has many of them."""
    return (files("headrace.datasets.public") / "labels" / f"{name}.txt").read_text().splitlines()
