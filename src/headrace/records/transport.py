"""How remote files are reached: with which options, how long an answer is waited for, and how often it is asked for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import errno
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import TransportError
from headrace.execute.channel import Cancelled
from headrace.options import Options
from headrace.records.coming import Coming
from headrace.records.disk_cache import LIMIT, DiskCache
from headrace.records.faults import is_gone, is_passing, is_replaced, origin
from headrace.records.redact import hide_secrets, show_path

if TYPE_CHECKING:
    from headrace.execute.passes import Pass

log = logging.getLogger("headrace")

T = TypeVar("T")
Future = concurrent.futures.Future
StorageOptions = Mapping[str, Any]

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""What installs the file system of a protocol."""
FEWEST_IN_FLIGHT, FIRST_IN_FLIGHT, MOST_IN_FLIGHT = 2, 8, 32
"""So many ranges are under way at first and at the most; fewer, down to the least, where memory is short."""
RAM_SHARE = 128 << 20
"""Of so many bytes that a pass may hold, one range."""
RETRIES = 5
TIMEOUT = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 20.0
"""Seconds before the first retry, which double, and before any; half of it is chance, lest all come back at once."""
_chance = random.Random()  # not the one that users seed


class InFlight:
    """How many ranges have proved good to have under way: files that are read at the same time share them.

    What a file has no use for, since it ends, is for those that come behind.
    """

    def __init__(self) -> None:
        self.ranges = FIRST_IN_FLIGHT
        self._spare: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def grow(self, most: int) -> None:
        """One was still waited for: more at a time."""
        self.ranges = min(2 * self.ranges, most)

    def share(self, reader: Hashable) -> int:
        """How many ranges are for one of those who read a file."""
        with self._lock:
            self._spare.setdefault(reader, 0)
            return -(-self.ranges // len(self._spare))

    def spare(self, reader: Hashable, count: int) -> tuple[int, int]:
        """Give back so many of a share: how many all give back, and how many of them each file behind may have."""
        with self._lock:
            self._spare[reader] = count
            spare = list(self._spare.values())
        return sum(spare), -(-sum(spare) // len(spare))

    def leave(self, reader: Hashable) -> None:
        """It reads no more."""
        with self._lock:
            self._spare.pop(reader, None)


class Transport:
    """How the remote files of one pass are reached; `cancel` ends whatever waits for an answer.

    A fault that may pass is met by asking again, `retries` times, each time for up to `timeout` seconds. What is left
    is a FileNotFoundError or a TransportError, neither of which says more than it should of who asked.
    """

    def __init__(self, options: Options | None = None) -> None:
        options = options or Options()
        self.retries = RETRIES if options.retries is None else options.retries
        self.timeout = TIMEOUT if options.timeout is None else options.timeout
        self._stores = options.storage_options or {}
        self._own: StorageOptions = {}
        self.cache: DiskCache | None = None
        if options.remote_cache is not None:
            self.cache = DiskCache(options.remote_cache, options.remote_cache_bytes or LIMIT)
        self.most_in_flight = MOST_IN_FLIGHT
        self.in_flight = InFlight()
        self.coming = Coming()
        self.valid = options.remote_cache_valid or 0.0
        self._stopped = threading.Event()
        self._waiting: set[Future[Any]] = set()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, run: Pass, own: StorageOptions | None = None, *, remote: bool = True) -> Transport:
        """That of a pass, with the options that one reader has for itself.

        Unless it is for something `remote` nobody looks up how much memory there is, which takes as long as to open
        a file.
        """
        made: Transport = run.shared.get(cls) or run.shared.setdefault(cls, cls(run.options))
        if remote:
            made.most_in_flight = max(FEWEST_IN_FLIGHT, min(MOST_IN_FLIGHT, run.memory.limit // RAM_SHARE))
            made.in_flight.ranges = min(made.in_flight.ranges, made.most_in_flight)
        run.watch(made)
        if run.cancelled:
            made.cancel()
        return made.using(own)

    def using(self, own: StorageOptions | None) -> Transport:
        """The same, with these options for the file system of whatever is read."""
        if not own:
            return self
        made = Transport.__new__(Transport)
        made.__dict__.update(self.__dict__, _own=own)  # what waits and who ends it they share
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        kept = (None, None) if self.cache is None else (self.cache.folder, self.cache.limit)
        kept = (*kept, self.valid)
        return _rebuild, (self.retries, self.timeout, self._stores, self._own, *kept)

    def system(self, path: str) -> tuple[Any, str]:
        """The file system of a URL, and the file's name there."""
        import fsspec

        try:
            return fsspec.core.url_to_fs(path, **self._options_of(path))  # type: ignore[no-any-return]
        except ImportError as error:
            extra = next((name for link, name in EXTRAS.items() if f"{link}://" in path), None)
            remedy = f"; pip install 'headrace[{extra}]'" if extra else ""
            raise ImportError(f"{show_path(path)}: {error}{remedy}") from None

    def _options_of(self, path: str) -> dict[str, Any]:
        """What fsspec is told: of each link of a chained URL, under the name of its protocol."""
        options: dict[str, Any] = {}
        for link in path.split("::"):
            protocol = link.partition("://")[0]
            fitting = [key for key in self._stores if key == protocol or ("://" in key and link.startswith(key))]
            for key in sorted(fitting, key=len):
                options[protocol] = {**options.get(protocol, {}), **self._stores[key]}
        return copy.deepcopy({**options, **self._own})

    def attempt(self, path: str, work: Callable[[], T], *, opened: bool = False) -> T:
        """What `work` gives, tried again while its faults may pass; `opened` says that the file was there before."""
        tries = 0
        while True:
            try:
                return work()
            except (ImportError, TransportError):
                raise
            except Exception as error:
                tries += 1
                if tries > self.retries or not is_passing(error):
                    raise self._final(path, error, tries, opened=opened) from None
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1)) * _chance.uniform(0.5, 1)
                log.warning("%s: %s; asking again in %.1f s", show_path(path), self._said(error), pause)
            if self._stopped.wait(pause):
                raise Cancelled

    def _final(self, path: str, error: Exception, tries: int, *, opened: bool) -> Exception:
        name = show_path(path)
        if opened and is_replaced(error):
            return TransportError(f"{name} was replaced or removed while it was read; read it anew from its beginning")
        if is_gone(error):
            return FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        if isinstance(error, IsADirectoryError):
            return IsADirectoryError(errno.EISDIR, "Is a directory", name)
        asked = "" if tries == 1 else f" (asked {tries} times)"
        return TransportError(f"{name}: {self._said(error)}{asked}")

    def _said(self, error: Exception) -> str:
        said = origin(error)
        text = hide_secrets(f"{type(said).__name__}: {said}", {**self._stores, **self._own})
        return " ".join(text.split())

    def begin(self, system: Any, request: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a request of an asynchronous file system under way."""
        return asyncio.run_coroutine_threadsafe(request, system.loop)

    def wait(self, future: Future[T]) -> T:
        """What a request gives, if it does in time; raises Cancelled if the pass ends meanwhile."""
        with self._lock:
            self._waiting.add(future)
        if self._stopped.is_set():
            future.cancel()
        try:
            return future.result(self.timeout)
        except concurrent.futures.CancelledError:
            if self._stopped.is_set():
                raise Cancelled from None
            raise ConnectionAbortedError("the request was given up") from None
        except TimeoutError:
            if future.done():
                raise
            raise TimeoutError(f"no answer within {self.timeout:g} s") from None
        finally:
            future.cancel()
            with self._lock:
                self._waiting.discard(future)

    def cancel(self) -> None:
        """Give up whatever is waited for."""
        self._stopped.set()
        self.coming.close()
        with self._lock:
            waiting = list(self._waiting)
        for future in waiting:
            future.cancel()


def _rebuild(
    retries: int, timeout: float, stores: Any, own: StorageOptions, folder: str | None, limit: int | None, valid: float
) -> Transport:
    """In another process: the same options, and nothing that waits."""
    kept = {"remote_cache": folder, "remote_cache_bytes": limit, "remote_cache_valid": valid}
    return Transport(Options(retries=retries, timeout=timeout, storage_options=stores, **kept)).using(own)  # type: ignore[arg-type]


ALONE = Transport()
"""For what is read outside of any pass."""
