"""Compare two versions of a dataset, and the version number that the changes require.

As in TFDS: major, if existing rows have changed or can no longer be read the same way; minor, if something was added;
patch, if nothing visible changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from headrace.core.types import Nested
from headrace.errors import HeadraceError
from headrace.storage.files import read_page
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.decode import PartialDecoding
from headrace.tfds.feature import ClassLabel, FeatureConnector, FeaturesDict, SequenceFeature, canonical
from headrace.tfds.versions import Version
from headrace.tfds.writing import MADE_BY

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike

KINDS = ("patch", "minor", "major")


class VersionError(HeadraceError, ValueError):
    """A version number says less than what has changed."""


class Change(NamedTuple):
    """One difference."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def changes_between(
    before: FeatureConnector, after: FeatureConnector, splits_before: Sequence[str], splits_after: Sequence[str]
) -> list[Change]:
    """Return what has changed of features and splits."""
    found = list(feature_changes(before, after))
    found += [Change("major", f"split {name!r} is gone") for name in splits_before if name not in splits_after]
    found += [Change("minor", f"split {name!r} is new") for name in splits_after if name not in splits_before]
    return found


def feature_changes(before: FeatureConnector, after: FeatureConnector, path: str = "") -> Iterator[Change]:
    """Yield what has changed of features."""
    if isinstance(before, FeaturesDict) and isinstance(after, FeaturesDict):
        for name in sorted({*before, *after}):
            where = f"{path}/{name}".strip("/")
            if name not in after:
                yield Change("major", f"feature {where!r} is gone")
            elif name not in before:
                yield Change("minor", f"feature {where!r} is new")
            else:
                yield from feature_changes(before[name], after[name], where)
        return
    if type(before) is type(after) and isinstance(before, SequenceFeature) and isinstance(after, SequenceFeature):
        if before.length != after.length:
            yield Change("major", f"feature {path!r} had length {before.length}, now {after.length}")
        yield from feature_changes(before.feature, after.feature, path)
        return
    if isinstance(before, ClassLabel) and isinstance(after, ClassLabel):
        yield from _label_changes(before, after, path)
        return
    if _plain(before) != _plain(after):
        yield Change("major", f"feature {path!r} was {before}, now {after}")
    elif before.description != after.description:
        yield Change("patch", f"feature {path!r} is described in other words")


def _plain(feature: FeatureConnector) -> str:
    """Return a feature without what does not affect reading."""
    return (
        canonical(feature)
        .replace(f', "description": "{feature.description}"', "")
        .replace(f'"description": "{feature.description}", ', "")
    )


def _label_changes(before: ClassLabel, after: ClassLabel, path: str) -> Iterator[Change]:
    old, new = before.names, after.names
    if new[: len(old)] != old:
        yield Change("major", f"feature {path!r}: classes are numbered anew, {old} → {new}")
    elif len(new) > len(old):
        yield Change("minor", f"feature {path!r} has new classes: {', '.join(new[len(old) :])}")


def row_changes(before: ReadOnlyBuilder, after: ReadOnlyBuilder) -> Iterator[Change]:
    """Yield splits whose rows differ, among those of both versions."""
    common = _common(before.info.features, after.info.features)
    for split in before.info.splits:
        if split not in after.info.splits:
            continue
        old, new = before.info.splits[split].num_examples, after.info.splits[split].num_examples
        if old != new:
            yield Change("major", f"split {split!r} had {old} rows, now {new}")
        elif common:
            only = PartialDecoding(common)
            pairs = zip(*(b.as_dataset(split, decoders=only, order="file") for b in (before, after)), strict=True)
            for number, (a, b) in enumerate(pairs):
                if not _same(a, b):
                    yield Change("major", f"split {split!r}: row {number} is another")
                    break


def _common(before: FeatureConnector, after: FeatureConnector) -> Nested:
    """Return the features that both have, as PartialDecoding takes them."""
    if isinstance(before, FeaturesDict) and isinstance(after, FeaturesDict):
        return {name: part for name in before if name in after and (part := _common(before[name], after[name]))}
    if isinstance(before, ClassLabel) and isinstance(after, ClassLabel):
        return True
    return _plain(before) == _plain(after)


def _same(a: FeatureLike, b: FeatureLike) -> bool:
    if isinstance(a, dict):
        return all(_same(a[name], b[name]) for name in a)
    if hasattr(a, "_node"):
        return all(_same(x, y) for x, y in zip(a, b, strict=False)) and len(a) == len(b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return bool(a == b) or (a != a and b != b)  # noqa: PLR0124 - NaN


def demanded_kind(changes: Sequence[Change]) -> str:
    """Return the largest of the changes."""
    return max((change.kind for change in changes), key=KINDS.index, default="patch")


def next_version(before: Version, kind: str) -> Version:
    """Return the least number that says so much."""
    if kind == "major":
        return Version(before.major + 1, 0, 0)
    return Version(before.major, before.minor + 1, 0) if kind == "minor" else before._replace(patch=before.patch + 1)


def check_version(before: Version, after: Version, changes: Sequence[Change], name: str) -> None:
    """Refuse a number that says less than the changes do."""
    kind = demanded_kind(changes)
    wanted = next_version(before, kind)
    if after < wanted and changes:
        listed = "; ".join(change.what for change in changes if change.kind == kind)
        raise VersionError(
            f"{name} {after} after {before}: {listed}. That is a {kind} change, which demands {wanted} or higher"
        )


def check_made_by(folder: Path, now: Mapping[str, object], name: str) -> None:
    """Refuse a version that was built by something else than it would be built by now; one that says nothing passes."""
    if not (folder / MADE_BY).exists():
        return
    was = read_page(folder / MADE_BY)
    same_python = was.get("python") == now["python"]
    changed = [key for key in ("features", "sources", "limit") if was.get(key) != now[key]]
    if was.get("code") != now["code"] and same_python:
        changed.insert(0, "code")
    if changed:
        raise VersionError(
            f"{name} is built already in {folder}, by {CHANGED[changed[0]]} since, and is not built again: raise the "
            "version (major: rows have changed, minor: something was added, patch: nothing shows), or say "
            "overwrite=True (--overwrite) if it is not used yet"
        )


CHANGED = {
    "code": "code that has changed",
    "features": "features that have changed",
    "sources": "sources that have changed",
    "limit": "another limit of rows",
}
