"""Names and messages without what should stay secret in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

HIDDEN = "…"
_USER = re.compile(r"(\w[\w+.-]*://)[^/?#@\s]*@")
_QUERY = re.compile(r"([?&])([^=&#\s'\"]+)=([^&#\s'\"<>)]*)")
_URL = re.compile(r"\w[\w+.-]*://[^\s'\"<>]+")
_PLAIN = ("versionId", "generation", "alt")
"""What a query may say openly."""
_SECRET = re.compile(
    r"key|secret|token|passw|pwd|credential|signature|sas|auth|user|header|cookie|connection_string", re.I
)
_SHORTEST = 4
"""Shorter values are no secrets, and would turn up anywhere."""
_WORDS = {"anon", "cloud", "cache", "browser", "default", "google_default"}
"""Nor are these, which say where credentials come from."""


def show_path(path: str) -> str:
    """A path or URL as errors, logs and reprs show it: without user, password and the values of its query.

    >>> show_path("https://me:sesame@host/data.csv?part=1&sig=abc")
    'https://…@host/data.csv?part=…&sig=…'
    """
    if "://" not in path:
        return path
    return _QUERY.sub(_hidden_value, _USER.sub(rf"\1{HIDDEN}@", path))


def _hidden_value(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return f"{mark}{name}={value if name in _PLAIN else HIDDEN}"


def hide_secrets(text: str, options: Mapping[str, Any] | None = None) -> str:
    """A message of somebody else's without secrets: those in URLs, and those among a store's options.

    >>> hide_secrets("403 for s3://bucket/a, key AKIA1234", {"s3": {"key": "AKIA1234"}})
    '403 for s3://bucket/a, key …'
    """
    for secret in sorted(set(_secrets(options or {}, secret=False)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _URL.sub(lambda found: show_path(found.group()), text)


def _secrets(value: Any, *, secret: bool) -> Iterator[str]:
    """The texts among options that are called secrets, or stand below one that is."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _secrets(part, secret=secret or bool(_SECRET.search(str(name))))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _secrets(part, secret=secret)
    elif secret and isinstance(value, str | bytes):
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if len(text) >= _SHORTEST and text not in _WORDS:
            yield text
