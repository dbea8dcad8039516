"""Classify the faults of stores: whether a retry may help, and what they are."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from json import JSONDecodeError

PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
"""The transient ones of the status codes 400 to 499."""
GONE = {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}
LASTING = (
    PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError, NotImplementedError, TypeError, ValueError,
    LookupError, AttributeError, AssertionError,
)  # fmt: skip
"""Errors of the request or the settings, which a retry does not help."""


class LengthError(OSError):
    """Another number of bytes came than was requested."""


class ReplacedError(Exception):
    """The file is not the one that was opened."""


def _statuses(error: BaseException | None) -> Iterator[int]:
    """Yield the HTTP status of an error, if it has one, and those of its causes."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        if type(error).__module__ == "aiohttp.http_exceptions":  # a body that ended early; a server would answer 400
            return
        response = getattr(error, "response", None)
        metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
        for code in (getattr(error, "status", None), getattr(error, "code", None), metadata.get("HTTPStatusCode")):
            if isinstance(code, int | str) and str(code).isdigit() and int(code) >= HTTPStatus.BAD_REQUEST:
                yield int(code)
        error = error.__cause__


def is_passing(error: BaseException) -> bool:
    """Return whether a retry may succeed. In doubt, it may."""
    for status in _statuses(error):
        return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in PASSING
    if isinstance(error, FileNotFoundError):  # which a library may raise when it got no answer at all
        return error.__cause__ is not None and is_passing(error.__cause__)
    if isinstance(error, LASTING):
        return isinstance(error, JSONDecodeError)  # half an answer
    if isinstance(error, OSError):
        return not str(error).startswith("Forbidden")  # gcsfs, for the status 403
    return not isinstance(error, ReplacedError) and "Credential" not in type(error).__name__


def origin(error: Exception) -> BaseException:
    """Return the original error if a library reports a missing file although it got no answer at all."""
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ is not None else error


def is_gone(error: BaseException) -> bool:
    """Return whether there is no such file."""
    for status in _statuses(error):
        return status in GONE
    return isinstance(error, FileNotFoundError) and not is_passing(error)


def is_replaced(error: BaseException) -> bool:
    """Return whether a file that was requested is not the one that was opened, or there is none any more."""
    if isinstance(error, ReplacedError | FileExistsError):  # the latter is gcsfs's word for the status 412
        return True
    return is_gone(error) or next(_statuses(error), None) == HTTPStatus.PRECONDITION_FAILED
