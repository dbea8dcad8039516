"""How remote files are reached: with which options, how long an answer is waited for, and how often it is requested."""

from __future__ import annotations

import concurrent.futures
import copy
import errno
import logging
import random
import threading
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.core.limits import MAX_RECORD_BYTES
from headrace.core.types import JsonObject, LibraryObject, Reduced
from headrace.errors import TransportError, what_there_is
from headrace.execute.stages.channel import Cancelled
from headrace.options import Options
from headrace.remote.coming import Coming
from headrace.remote.counters import StoreCounters
from headrace.remote.disk_cache import DEFAULT_LIMIT_BYTES, DiskCache
from headrace.remote.faults import is_gone, is_passing, is_replaced, origin
from headrace.remote.redact import hide_secrets, show_path

if TYPE_CHECKING:
    from headrace.execute.run import Pass

log: logging.Logger = logging.getLogger("headrace")

T = TypeVar("T")
Future = concurrent.futures.Future
StorageOptions = Mapping[str, Any]

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
"""What installs the file system of a protocol."""
FEWEST_IN_FLIGHT, FIRST_IN_FLIGHT, MOST_IN_FLIGHT = 2, 8, 32
"""How many ranges are in flight: at least (if memory is short), at first, and at most."""
MEMORY_BYTES_PER_RANGE = 128 << 20
"""One range may be in flight per this many bytes of the memory budget."""
RETRIES = 5
NO_BUCKET = "No such bucket as {!r}, or these credentials cannot see it"
BUCKETS = ("s3", "s3a", "gs", "gcs")
"""Protocols of stores whose files are in buckets."""
TIMEOUT = 60.0
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 20.0
"""Seconds before the first retry, doubled for each further one, and the most; half is random to spread the retries."""
_chance = random.Random()  # not the one that users seed


class InFlight:
    """The number of ranges in flight that proved good, shared by files that are read at the same time.

    What a file does not use near its end goes to the files after it.
    """

    def __init__(self) -> None:
        self.ranges: int = FIRST_IN_FLIGHT
        self._spare: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def grow(self, most: int) -> None:
        """Allow more at a time, because a reader had to wait."""
        self.ranges = min(2 * self.ranges, most)

    def share(self, reader: Hashable) -> int:
        """Return how many ranges one reader may have in flight."""
        with self._lock:
            self._spare.setdefault(reader, 0)
            return -(-self.ranges // len(self._spare))

    def spare(self, reader: Hashable, count: int) -> tuple[int, int]:
        """Give back `count` of a share. Return how many all gave back, and how many each following file may have."""
        with self._lock:
            self._spare[reader] = count
            spare = list(self._spare.values())
        return sum(spare), -(-sum(spare) // len(spare))

    def leave(self, reader: Hashable) -> None:
        """Remove a reader."""
        with self._lock:
            self._spare.pop(reader, None)


def folder_remedy(path: str) -> str:
    """What to do with a folder where a file belongs."""
    return f"Is a directory: hr.Dataset.list_files({show_path(path.rstrip('/') + '/*')!r}) finds the files in it"


class Transport:
    """How the remote files of one pass are reached. `cancel` ends all waits for an answer.

    A transient fault is retried `retries` times, each time for up to `timeout` seconds. What remains is a
    FileNotFoundError or a TransportError without credentials in its text.
    """

    def __init__(self, options: Options | None = None) -> None:
        options = options or Options()
        self.retries: int = RETRIES if options.retries is None else options.retries
        self.timeout: float = TIMEOUT if options.timeout is None else options.timeout
        self._stores = options.storage_options or {}
        self._own: StorageOptions = {}
        self.cache: DiskCache | None = None
        if options.remote_cache is not None:
            self.cache = DiskCache(options.remote_cache, options.remote_cache_bytes or DEFAULT_LIMIT_BYTES)
        self.most_in_flight = MOST_IN_FLIGHT
        self.in_flight: InFlight = InFlight()
        self.coming: Coming = Coming()
        self.counters: StoreCounters = StoreCounters()
        self.valid: float = options.remote_cache_valid or 0.0
        self.max_record_bytes: int = int(options.max_record_bytes or MAX_RECORD_BYTES)
        self._stopped = threading.Event()
        self._waiting: set[Future[Any]] = set()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, run: Pass, own: StorageOptions | None = None, *, remote: bool = True) -> Transport:
        """Return the transport of a pass, with the options of one reader.

        The free memory is looked up only if it is for something `remote`: that takes as long as opening a file.
        """
        made: Transport = run.shared.get(cls) or run.shared.setdefault(cls, cls(run.options))
        if remote:
            run.counters["store"] = made.counters
            made.most_in_flight = max(FEWEST_IN_FLIGHT, min(MOST_IN_FLIGHT, run.memory.limit // MEMORY_BYTES_PER_RANGE))
            made.in_flight.ranges = min(made.in_flight.ranges, made.most_in_flight)
        run.watch(made)
        if run.cancelled:
            made.cancel()
        return made.using(own)

    def using(self, own: StorageOptions | None) -> Transport:
        """Return the same, with these options for the file system of whatever is read."""
        if not own:
            return self
        made = Transport.__new__(Transport)
        made.__dict__.update(self.__dict__, _own=own)  # they share pending waits and cancellation
        return made

    def __reduce__(self) -> Reduced:
        kept = (None, None) if self.cache is None else (self.cache.folder, self.cache.limit)
        kept = (*kept, self.valid, self.max_record_bytes)
        return _rebuild, (self.retries, self.timeout, self._stores, self._own, *kept)

    def system(self, path: str) -> tuple[Any, str]:
        """Return the file system of a URL, and the file's name there."""
        with self.hiding(path):
            return self._system(path)

    def _system(self, path: str) -> tuple[Any, str]:
        import fsspec

        try:
            return fsspec.core.url_to_fs(path, **self._options_of(path))  # type: ignore[no-any-return]
        except ImportError as error:
            extra = next((name for link, name in EXTRAS.items() if f"{link}://" in path), None)
            remedy = f"; pip install 'headrace[{extra}]'" if extra else ""
            raise ImportError(f"{show_path(path)}: {error}{remedy}") from None
        except ValueError as error:
            unknown = str(error).removeprefix("Protocol not known: ")
            if unknown == str(error):
                raise
            protocols = fsspec.available_protocols()
            near = get_close_matches(unknown, protocols, 1)
            hint = f"did you mean {near[0]}://?" if near else what_there_is(unknown, protocols)
            raise ValueError(f"{show_path(path)}: there is no file system for {unknown}://; {hint}") from None

    def _options_of(self, path: str) -> JsonObject:
        """Return the options for fsspec: for each link of a chained URL, under the name of its protocol."""
        options: JsonObject = {}
        for link in path.split("::"):
            protocol = link.partition("://")[0]
            fitting = [key for key in self._stores if key == protocol or ("://" in key and link.startswith(key))]
            for key in sorted(fitting, key=len):
                options[protocol] = {**options.get(protocol, {}), **self._stores[key]}
        return copy.deepcopy({**options, **self._own})

    @contextmanager
    def hiding(self, path: str) -> Iterator[None]:
        """Raise errors of a file system that show secrets of `path` or of the options without these."""
        try:
            yield
        except Exception as error:
            if not self._shows_secrets(error, path):
                raise
            if is_passing(error):
                raise ConnectionError(self._said(error, path)) from None
            raise self._final(path, error, 1, opened=False) from None

    def _shows_secrets(self, error: BaseException, path: str) -> bool:
        seen: BaseException | None = error if "://" in path else None
        while seen is not None:  # a traceback shows the causes, too
            text = str(seen)
            if text != hide_secrets(text, {**self._stores, **self._own}, [path]):
                return True
            seen = seen.__cause__ or seen.__context__
        return False

    def attempt(self, path: str, work: Callable[[], T], *, opened: bool = False) -> T:
        """Return what `work` gives, tried again while its faults may pass; `opened` says that the file was there
        before.
        """
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
                self.counters.retried()
                pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (tries - 1)) * _chance.uniform(0.5, 1)
                log.warning("%s: %s; asking again in %.1f s", show_path(path), self._said(error, path), pause)
            if self._stopped.wait(pause):
                raise Cancelled

    def _final(self, path: str, error: Exception, tries: int, *, opened: bool) -> Exception:
        name = show_path(path)
        if opened and is_replaced(error):
            return TransportError(f"{name} was replaced or removed while it was read; read it anew from its beginning")
        if is_gone(error):
            bucket = self.missing_bucket(path)
            if bucket is not None:
                return FileNotFoundError(errno.ENOENT, NO_BUCKET.format(bucket), name)
            return FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        if isinstance(error, IsADirectoryError):
            return IsADirectoryError(errno.EISDIR, folder_remedy(path), name)
        asked = "" if tries == 1 else f" (asked {tries} times)"
        return TransportError(f"{name}: {self._said(error, path)}{asked}")

    def write_error(self, path: str, error: Exception) -> TransportError:
        """Return the error of a file that could not be written because of one of the store's library."""
        said = self._said(error, path)
        remedy = ". Credentials are taken from the environment" if "credential" in said.lower() else ""
        return TransportError(f"{show_path(path)} could not be written: {said}{remedy}")

    def missing_bucket(self, path: str) -> str | None:
        """Return the bucket of a file that is not there, if that is not there either."""
        protocol, _, rest = path.rpartition("::")[2].partition("://")
        bucket = rest.partition("/")[0]
        if protocol not in BUCKETS or not bucket:
            return None
        try:
            system, _ = self._system(path)
            there = self.wait(self.begin(system, system._exists(bucket)))
        except Exception as error:  # the file is missing in any case, and that is said
            log.debug("%s: whether its bucket exists is not known: %s", show_path(path), self._said(error, path))
            return None
        return None if there else bucket

    def _said(self, error: Exception, path: str) -> str:
        said = origin(error)
        text = hide_secrets(f"{type(said).__name__}: {said}", {**self._stores, **self._own}, [path])
        return " ".join(text.split())

    def begin(self, system: LibraryObject, request: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a request of an asynchronous file system."""
        import asyncio  # which takes long to import, and only stores need it

        return asyncio.run_coroutine_threadsafe(request, system.loop)

    def wait(self, future: Future[T]) -> T:
        """Return what a request gives, if it does in time; raises Cancelled if the pass ends meanwhile."""
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
        """Cancel all pending waits."""
        self._stopped.set()
        self.coming.close()
        with self._lock:
            waiting = list(self._waiting)
        for future in waiting:
            future.cancel()


def _rebuild(retries: int, timeout: float, stores: LibraryObject, own: StorageOptions, *kept: Any) -> Transport:
    """In another process: the same options, and nothing that waits."""
    names = ("remote_cache", "remote_cache_bytes", "remote_cache_valid", "max_record_bytes")
    options = dict(zip(names, kept, strict=True))
    return Transport(Options(retries=retries, timeout=timeout, storage_options=stores, **options)).using(own)


ALONE = Transport()
"""For what is read outside of any pass."""
