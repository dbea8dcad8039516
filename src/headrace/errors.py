"""The exception hierarchy. Everything headrace raises by itself is a HeadraceError, and a built-in error as well."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.types import Arguments, Nested, Reduced


def what_there_is(name: object, known: Iterable[object]) -> str:
    """Return the names that exist, the most similar first, for errors about one that does not."""
    names = [str(each) for each in known]
    near = get_close_matches(str(name), names, 1)
    shown = ", ".join(map(repr, names[:MAX_NAMES_SHOWN])) + (
        f", … {len(names) - MAX_NAMES_SHOWN} more" if len(names) > MAX_NAMES_SHOWN else ""
    )
    return (f"did you mean {near[0]!r}? " if near else "") + (f"there are {shown}" if names else "there are none")


MAX_NAMES_SHOWN = 30
"""How many names are listed."""


class HeadraceError(Exception):
    """Base of all errors that headrace defines."""


class TransportError(HeadraceError, RuntimeError):
    """A file could not be read just now: a store did not answer despite retries, or a disk failed.

    It is no element's error: `next()` raises it, whatever operations and policies are between, and the iterator keeps
    its position: the next `next()`, or a state, continues exactly there. It is no OSError, so that code that skips
    unreadable files does not skip it.
    """


class ElementError(HeadraceError, RuntimeError):
    """One element could not be made; the iterator continues with the next one.

    The original exception is the `__cause__`. A TransportError is not wrapped.

    >>> it = iter(hr.Dataset.range(3).map(lambda x: 6 // (x - 1) if x != 1 else int("one")))
    >>> next(it)
    np.int64(-6)
    >>> try:
    ...     next(it)
    ... except hr.ElementError as error:
    ...     print(error.operation, error.ordinal, type(error.__cause__).__name__)
    map 1 ValueError
    >>> next(it)
    np.int64(6)
    """

    def __init__(
        self,
        cause: BaseException | str,
        *,
        operation: str,
        ordinal: int,
        site: str | None = None,
        provenance: str | None = None,
        hint: str | None = None,
    ) -> None:
        if isinstance(cause, TransportError):
            raise cause
        self.operation = operation
        self.ordinal = ordinal
        self.site = site
        self.provenance = provenance
        self.find_origin: Callable[[], str | None] | None = None
        self.run_again: Callable[[], Any] | None = None
        what = cause if isinstance(cause, str) else f"{type(cause).__name__}: {cause}"
        message = f"{operation} failed on element {ordinal}: {what}" + (f" ({hint})" if hint else "")
        if provenance:
            message += f"\n  record: {provenance}"
        if site:
            message += f"\n  added at {site}"
        super().__init__(message)
        if isinstance(cause, BaseException):
            self.__cause__: BaseException | None = cause

    def __str__(self) -> str:
        """Return the message; with the record, if that was found out only when the error was shown."""
        message = str(self.args[0])
        return message if self._told else f"{message}\n  record: {self.provenance}"

    @property
    def _told(self) -> bool:
        return not self.provenance or f"\n  record: {self.provenance}" in self.args[0]

    def copy(self) -> ElementError:
        """Return the same error once more, to be raised again without the frames of the first time.

        The error of a user's function names the record that its row was made of, if that can be found out.
        """
        made = _restore(type(self), self.args, self.__dict__, self.__cause__)
        if made.provenance is None and made.find_origin is not None:
            made.provenance = made.find_origin()
        made.find_origin = None
        return made

    def replay(self) -> Nested:
        """Call the user's function again on the element that failed, on this thread, with the same random draws.

        Breakpoints and pdb work inside the function. What it raises is raised as it is.

        Returns:
            What the function returns, if it does not fail this time.

        Raises:
            HeadraceError: The error did not come from a user's function, or was sent from another process. Use
                `ds.debug(step)` then.

        >>> it = iter(hr.Dataset.range(3).map(lambda x: [1, 2][x], mode="eager"))
        >>> try:
        ...     list(it)
        ... except hr.ElementError as error:
        ...     failed = error
        >>> failed.replay()
        Traceback (most recent call last):
            ...
        IndexError: list index out of range
        """
        if self.run_again is None:
            raise HeadraceError(
                f"{self.operation} cannot be replayed from this error: it was not raised by a function of yours in "
                "this process; ds.debug(step=...) makes the element again"
            )
        return self.run_again()

    def __reduce__(self) -> Reduced:
        alone = {**self.__dict__, "find_origin": None, "run_again": None}
        return _restore, (type(self), self.args, alone, self.__cause__)


def _restore(
    kind: type[ElementError], args: Arguments, attributes: dict[str, Any], cause: BaseException | None
) -> ElementError:
    made = OSError.__new__(kind) if issubclass(kind, OSError) else kind.__new__(kind)
    made.args = args
    made.__dict__.update(attributes)
    made.__cause__ = cause
    return made


def drop_own_frames(error: BaseException | None) -> None:
    """Remove the traceback of an error and of its causes if all frames are headrace's own.

    A failure may be kept until its pass ends. Frames refer to the iterator, which could then not be collected.
    """
    while error is not None:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            frames = frames.tb_next
        if frames is None:
            error.__traceback__ = None
        error = error.__cause__ or error.__context__


_PACKAGE = str(Path(__file__).parent) + os.sep


class FileError(ElementError, OSError):
    """A file could not be opened, so that none of its records can be read: an element's error, and an OSError.

    One that does not exist is a FileNotFoundError too, one that may not be read a PermissionError.
    """

    errno: int | None = None  # in the instance's __dict__, like all that an ElementError knows, to be copied with it
    strerror: Any = None
    filename: Any = None

    @classmethod
    def of(cls, cause: OSError, file: str, **where: Any) -> FileError:
        """Return the error of an element for which `file` could not be read; `where` is ElementError's."""
        kind = MissingFileError if isinstance(cause, FileNotFoundError) else cls
        kind = ForbiddenFileError if isinstance(cause, PermissionError) else kind
        made = kind(cause.strerror or str(cause) or type(cause).__name__, **where)
        made.errno, made.strerror, made.filename = cause.errno, cause.strerror, file
        made.__cause__ = cause
        return made


class MissingFileError(FileError, FileNotFoundError):
    """A file does not exist."""


class ForbiddenFileError(FileError, PermissionError):
    """A file may not be read."""


def is_unopenable(error: object) -> bool:
    """Return whether an error says that a file cannot be opened, now or later; not that something in it is wrong."""
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return True
    return isinstance(error, OSError) and error.errno in _UNOPENABLE


def refuse_arguments(function: str, given: Mapping[str, object], hints: Mapping[str, str]) -> None:
    """Raise the TypeError of arguments that a function does not have, with what to write instead."""
    for name in given:
        hint = f": {hints[name]}" if name in hints else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


def unopened_file(error: BaseException) -> str | None:
    """Return the name of the file that could not be opened, if that is why an element could not be made."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.filename is not None and is_unopenable(cause):
            return str(cause.filename)
        cause = cause.__cause__
    return None


class PipelineWarning(UserWarning):
    """A pipeline runs, but loses data or exactness without an error."""


_warned: set[Hashable] = set()


def warn_once(key: Hashable, message: str) -> None:
    """Issue a PipelineWarning, unless this process has issued one with the same `key`."""
    if key in _warned:
        return
    if len(_warned) >= MAX_REMEMBERED_WARNINGS:
        _warned.clear()
    _warned.add(key)
    try:
        warnings.warn(message, PipelineWarning, stacklevel=3)
    except (
        PipelineWarning
    ):  # warnings are errors: so is the next one, if this one was raised on a thread that reads ahead
        _warned.discard(key)
        raise


MAX_REMEMBERED_WARNINGS = 65_536
"""How many keys of warnings are remembered."""


class ParseError(HeadraceError, ValueError):
    """A record does not match its description; `row` is its number among those that were parsed together."""

    def __init__(self, what: str, row: int = 0) -> None:
        super().__init__(what)
        self.row = row


class QuarantineError(HeadraceError, RuntimeError):
    """More records were bad than the quarantine's budget allows."""


class StateError(HeadraceError, ValueError):
    """A saved state does not belong to this pipeline, to this version, or is damaged."""


class ChangeWarning(UserWarning):
    """A pass runs with other functions or data than its state, or a global variable was assigned again."""


class SpecError(HeadraceError, TypeError):
    """Elements or datasets whose structures, dtypes or shapes do not match."""


class NotIndexableError(HeadraceError, TypeError):
    """`ds[i]` on a dataset with an operation that cannot be indexed."""


class StorageError(HeadraceError, OSError):
    """Files of a cache, a snapshot or a saved dataset are damaged, of another pipeline, or cannot be written."""


class WorkerError(HeadraceError, RuntimeError):
    """A worker process ended while it made an element, or could not be used at all."""


NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions that a corrupt page or state may cause when it is used."""

_UNOPENABLE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG}
_PASSING = {
    errno.EAGAIN, errno.EBUSY, errno.EDQUOT, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOBUFS,
    errno.ENOMEM, errno.ENOSPC, errno.ESTALE, errno.ETIMEDOUT,
}  # fmt: skip


def may_pass(error: BaseException) -> bool:
    """Return whether it is a transient error of the machine or the network, not of the data."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, WorkerError | MemoryError | ConnectionError | TimeoutError):
            return True
        if isinstance(cause, OSError) and cause.errno in _PASSING:
            return True
        cause = cause.__cause__
    return False


def raise_if_passing(error: BaseException, file: str) -> None:
    """Raise a transient error of a reader of `file`: the rows exist, and must not be skipped."""
    if isinstance(error, TransportError):
        raise error
    if not isinstance(error, MemoryError) and may_pass(error):  # a damaged file may ask for more memory than there is
        what = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        raise TransportError(f"{file} could not be read just now: {what}; the next call continues from here") from error
