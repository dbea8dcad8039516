"""Paths on this machine, and URLs of files elsewhere."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headrace.core.types import StrPath

LOCAL_SCHEMES = ("file://", "local://")
_SHORTENED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")


def local_path(path: str) -> str | None:
    """Return the local path of a file, None if it is remote."""
    if "://" not in path:
        return path
    for scheme in LOCAL_SCHEMES:
        if path.startswith(scheme):
            return path.removeprefix(scheme)
    return None


def completed_url(path: str) -> str | None:
    """Return the URL that a path may stand for if one of its slashes was forgotten, as in `s3:/bucket/x`."""
    return path.replace(":/", "://", 1) if _SHORTENED.match(path) else None


def refuse_shortened_url(path: object, argument: str) -> None:
    """Raise ValueError if `path` is `Path("s3://bucket/x")`, which pathlib makes the relative path `s3:/bucket/x`."""
    if isinstance(path, os.PathLike) and _SHORTENED.match(os.fsdecode(path)):
        scheme = os.fsdecode(path).partition(":")[0]
        raise ValueError(
            f"{argument}: pathlib.Path has made a relative path of a URL {scheme}://…: give the URL as a string; "
            f"for a folder of this machine that is called '{scheme}:', give an absolute path"
        )


def local_only(
    path: StrPath, argument: str, remedy: str = "give a path of this machine, and copy what is there"
) -> Path:
    """Return a path argument that must be local; raises ValueError if it is a URL.

    Args:
        path: What the user gave: a path, or a `file://` URL.
        argument: How the error names the argument, e.g. "save".
        remedy: What the error tells the user to do instead.

    The error shows no more of the URL than its scheme: the rest may hold secrets.
    """
    refuse_shortened_url(path, argument)
    text = os.fsdecode(path)
    here = local_path(text)
    if here is None:
        scheme = text.partition("://")[0]
        raise ValueError(f"{argument} takes a path of this machine, not a URL ({scheme}://…): {remedy}")
    return Path(here)
