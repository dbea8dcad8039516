"""Versions of datasets, and the names that ask for them: `mnist`, `glue/cola`, `mnist:3.*.*`, `glue/cola:1.0.0`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from headrace.errors import what_there_is

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_PATTERN = re.compile(r"(\d+|\*)\.(\d+|\*)\.(\d+|\*)")
_NAME = re.compile(r"(?P<name>[A-Za-z]\w*)(?:/(?P<config>[\w.+-]+))?(?::(?P<version>.+))?")


class Version(NamedTuple):
    """Three numbers: what they hold changes with the first, what is added with the second, neither with the third.

    Args:
        major: Major version.
        minor: Minor version.
        patch: Patch version.
    """

    major: int
    minor: int
    patch: int

    @classmethod
    def of(cls, text: str | Version) -> Version:
        """Parse `1.2.3`, and nothing else."""
        if isinstance(text, Version):
            return text
        found = _VERSION.fullmatch(text)
        if found is None:
            raise ValueError(f"a version is three numbers, such as 1.0.0, not {text!r}")
        return cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class DatasetName(NamedTuple):
    """A parsed dataset name."""

    name: str
    config: str | None
    version: str | None

    def __str__(self) -> str:
        return self.name + (f"/{self.config}" if self.config else "") + (f":{self.version}" if self.version else "")


def parse_name(text: str) -> DatasetName:
    """Return the name, config and version in a name as TFDS takes it; `ToyBox` is another way to write `toy_box`."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} names no dataset: write name, name/config, name:1.0.0 or name/config:1.*.*")
    version = found["version"]
    if version is not None and not _PATTERN.fullmatch(version):
        raise ValueError(
            f"{text!r}: {version!r} is no version: write three numbers, 1.0.0, or a star for any of them, 1.*.*"
        )
    return DatasetName(snake_case(found["name"]), found["config"], version)


def snake_case(name: str) -> str:
    """`ToyBox` as `toy_box`."""
    parted = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", parted).lower()


def resolve_version(wanted: str | None, there: Iterable[Version], of: str) -> Version:
    """Return the highest of these versions that fits."""
    known = sorted(there)
    if wanted is not None and not _PATTERN.fullmatch(str(wanted)):
        raise ValueError(f"{wanted!r} is no version: write three numbers, 1.0.0, or a star for any of them, 1.*.*")
    fitting = [version for version in known if wanted is None or _fits(wanted, version)]
    if not fitting:
        shown = ", ".join(map(str, known))
        raise ValueError(
            f"there is no version {wanted} of {of}: {'there are ' + shown if known else what_there_is(wanted, [])}"
        )
    return fitting[-1]


def _fits(pattern: str, version: Version) -> bool:
    return all(part in ("*", str(number)) for part, number in zip(_normal(pattern), version, strict=True))


def _normal(pattern: str) -> list[str]:
    return [part if part == "*" else str(int(part)) for part in str(pattern).split(".")]
