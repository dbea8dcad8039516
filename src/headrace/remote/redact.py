"""Redact secrets: the one place that decides what of a URL, an option or a message may be shown.

Everything that can be seen (repr, explain, states, errors, warnings, logs, metrics, reports, names of files) shows
paths by `show_path` and messages of libraries by `hide_secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote, unquote_plus

HIDDEN = "…"
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*://")
_CHAIN = re.compile(r"::(?=[A-Za-z][\w+.-]*://)")
_BEFORE_PATH = re.compile(r"[^/?#;]*")
_AFTER_PATH = re.compile(r"[?#;]|::")
_PARAMETER = re.compile(r"(;)([^;/]*)")
_QUERY = re.compile(r"([?&;])([^&;]*)")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_SPLIT = re.compile(r"[@/?#:;&=\s]")
_URL = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]+")
_PLAIN = ("versionId", "generation", "alt")
"""Parameters of a query that may be shown."""
_SECRET = re.compile(
    r"key|secret|token|pass|pwd|credential|sign|sas|auth|user|header|cookie|connection_string|bearer|jwt|private|cert",
    re.I,
)
_SAID = re.compile(
    r"\b((?:basic|bearer|digest)\s+)[\w+/=.~-]{4,}"
    r"|((?:passw(?:or)?d|pwd|secret|token|signature|credential|authorization|[a-z]*_?key)\b[\"']?\s*(?:=|[\"']:)\s*[\"']?)"
    r"[^\s\"'&;,)}]+",
    re.I,
)
"""Credentials as they appear in messages: `Bearer abc`, `password=abc`, `'token': 'abc'`."""
MIN_SECRET_LENGTH = 4
"""Shorter values are not looked for in messages: they would be found anywhere."""
_WORDS = {"anon", "cloud", "cache", "browser", "default", "google_default", "true", "false", "none"}
"""Values that name the source of credentials, and are not secret."""


def show_path(path: str) -> str:
    """Return a path or URL without user, password, fragment and the values of its query and parameters.

    Local paths are shown as they are. A URL that seems to have a password, `user:password@host`, is hidden up to its
    last `@`, because passwords may hold `@` and `/` that are not percent-encoded; if it may hold a `?`, too, nothing of
    the URL is shown.

    >>> show_path("https://me:sesame@host/data.csv?part=1&sig=abc")
    'https://…@host/data.csv?part=…&sig=…'
    >>> show_path("https://me:open/ses@me@host/data.csv;token=abc?abc#abc")
    'https://…@host/data.csv;token=…?…#…'
    >>> show_path("https://me:open?sesame@host/data.csv")
    'https://…'
    """
    if "://" not in path:
        return path
    scheme = _SCHEME.search(path)
    if scheme is None:
        return path
    before, rest = path[: scheme.end()], path[scheme.end() :]
    end = _end_of_user(rest)
    first, *others = _CHAIN.split(rest[end:], maxsplit=1)  # "zip://a.csv::https://…"
    user = "" if not end else HIDDEN if end == len(rest) else f"{HIDDEN}@"
    shown = before + user + "".join(_hidden(*piece) for piece in _pieces(first))
    return "::".join([shown, *map(show_path, others)])


def _pieces(rest: str) -> Iterator[tuple[str, str]]:
    """Yield what follows the user in a URL: the path with no mark, and all else with the mark before it."""
    before, hash_mark, fragment = rest.partition("#")
    path, query_mark, query = before.partition("?")
    for pattern, text in ((_PARAMETER, path), (_QUERY, query_mark + query)):
        start = 0
        for found in pattern.finditer(text):
            yield "", text[start : found.start()]
            yield found[1], found[2]
            start = found.end()
        yield "", text[start:]
    yield hash_mark, fragment


def _end_of_user(rest: str) -> int:
    """Return where the host begins in what follows the scheme: behind the user, which may hold any character.

    It is the length of `rest` if that cannot be told, because a `?` before the last `@` may begin a query or be part of
    a password.
    """
    found = _BEFORE_PATH.match(rest)
    host = found.group() if found is not None else ""
    chain = _CHAIN.search(rest)
    if chain is not None and chain.start() < len(host):
        host = rest[: chain.start()]
    if ":" not in host and "@" not in host:
        return 0
    end = rest.rfind("@") + 1
    return len(rest) if _AFTER_PATH.search(rest, 0, end) else end


def _hidden(mark: str, said: str) -> str:
    """Return a piece of a URL without its value."""
    if not mark or not said:
        return mark + said
    name, _, value = said.partition("=")
    if mark == "#" or not value.strip("=") or not _NAME.fullmatch(name):  # a token in Base64 ends in "="
        return mark + HIDDEN
    return mark + said if name in _PLAIN else f"{mark}{name}={HIDDEN}"


def show_name(url: str) -> str:
    """Return the last part of the path of a URL, e.g. for a file that it is downloaded to; "download" if it has none.

    >>> show_name("https://me:sesame@host/data.csv?sig=abc")
    'data.csv'
    """
    shown = show_path(url)
    if "://" in shown:
        shown = re.split(r"[?#;]", shown.rpartition("://")[2])[0].partition("/")[2]
    name = shown.rstrip("/").rsplit("/", 1)[-1]
    return name or "download"


def hide_secrets(text: str, options: Mapping[str, object] | None = None, urls: Iterable[str] = ()) -> str:
    """Return a message of a library without secrets.

    Args:
        text: What the library said.
        options: Options of stores: values whose names tell that they are secrets are hidden, at any depth.
        urls: URLs whose password, query, parameters and fragment are hidden wherever they occur.

    >>> hide_secrets("403 for s3://bucket/a, key AKIA1234", {"s3": {"key": "AKIA1234"}})
    '403 for s3://bucket/a, key …'
    >>> hide_secrets("access denied for me, p@ss", urls=["mysql://me:p%40ss@host/db"])
    'access denied for me, …'
    """
    given = list(urls)
    for url in given:
        text = text.replace(url, show_path(url))
    secrets = {*_secrets(options or {}, secret=False)}.union(*map(_secrets_of, given))
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = _URL.sub(lambda found: show_path(found.group()), text)
    return _SAID.sub(lambda found: f"{found[1] or found[2]}{HIDDEN}", text)


def _secrets_of(url: str) -> set[str]:
    """Return what a URL has that must not be shown, as written and decoded."""
    found: set[str] = set()
    scheme = _SCHEME.search(url)
    rest = url[scheme.end() :] if scheme is not None else url
    end = _end_of_user(rest)
    if end:
        user = rest if end == len(rest) else rest[: end - 1]
        found |= {user, user.partition(":")[2]}
    first, *others = _CHAIN.split(rest[end:], maxsplit=1)
    found = found.union(*map(_secrets_of, others))
    for mark, said in _pieces(first):
        name, _, value = said.partition("=")
        if mark and name not in _PLAIN:
            found |= {said, value}
    found |= {piece for each in found for piece in _SPLIT.split(each)}  # a library may cut the URL anywhere
    decoded = found | {unquote(each) for each in found} | {unquote_plus(each) for each in found}
    return {each for each in decoded if len(each) >= MIN_SECRET_LENGTH or _is_odd(each)}


def _is_odd(text: str) -> bool:
    """Whether a short text has characters of passwords, so that a message that holds it means this one."""
    return len(text) > 1 and not text.isalnum()


def _secrets(value: object, *, secret: bool) -> Iterator[str]:
    """Yield the texts among options that are called secrets, or stand below one that is, and those in URLs."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _secrets(part, secret=secret or bool(_SECRET.search(str(name))))
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _secrets(part, secret=secret)
    elif isinstance(value, str | bytes | int) and not isinstance(value, bool):
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        if "://" in text:
            yield from _secrets_of(text)
        elif secret and len(text) >= MIN_SECRET_LENGTH and text.lower() not in _WORDS:
            yield text
            yield from (part for part in text.split() if len(part) > 2 * MIN_SECRET_LENGTH)
