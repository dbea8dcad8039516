"""Options of a whole pipeline, as opposed to parameters of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import wraps
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.core.paths import local_only
from headrace.core.types import Attribute
from headrace.errors import HeadraceError


class Autotune(int):
    """A number to be found while running: tf.data's -1 with a readable repr."""

    def __repr__(self) -> str:
        return "AUTOTUNE"

    __str__ = __repr__

    def __reduce__(self) -> str:
        return "AUTOTUNE"


AUTOTUNE = Autotune(-1)


class OptionsError(HeadraceError, ValueError):
    """Options that contradict each other, or have invalid values."""


@dataclass(kw_only=True)
class Options:
    """Options of a pipeline. None leaves a setting unchanged; the last value counts.

    - `deterministic`: whether parallel operations that do not say keep the order (they do by default).
    - `cpu_budget`: how many processors operations that say AUTOTUNE may keep busy; by default those of the container.
    - `ram_budget`: how many bytes may be buffered between the stages; by default half of what the container has free.
    - `inject_prefetch`: whether a pipeline that does not end in one gets a prefetch, if that is measured to help and is
      unobservable (it does by default).
    - `on_error`: "raise" (the default), or "skip" to leave out elements that fail.
    - `on_change`: what to do if a restored state was taken with other functions or other data in memory:
      "warn" (the default, an `hr.ChangeWarning`), "raise" or "ignore".
    - `retries`: how often a remote store is asked again after a fault that may pass, at growing distances (5 times).
    - `timeout`: how many seconds each answer may take (60), of file systems that can be left waiting: S3, GCS, HTTP…
    - `storage_options`: options of file systems, such as credentials: `{"s3": {"anon": True}}`, by protocol or by
      what a URL begins with. They are shown nowhere.
    - `remote_cache`: a folder where ranges of remote files are kept for the next pass, of this process or another, up
      to `remote_cache_bytes` (10 GiB): what was not used for longest goes first. Each pass asks the store whether its
      files are still the same; with `remote_cache_valid` it relies on answers that are at most that many seconds old.
    - `catalogue_mirrors`: folders and URLs in TFDS's layout where `hr.load(name, options=)` looks for datasets that are
      prepared, before those that HEADRACE_MIRRORS names.
    - `max_record_bytes`: a record of a compressed or remote file that has more is an error, before more memory is taken
      (256 MiB); at least 64 MiB.
    - `device_memory`: about how many bytes of a device's memory each map with `device=` may take while it runs (1 GiB):
      it bounds how many rows run at a time.
    - `frozen`: what an iterator's `tuning()` gave: AUTOTUNE means those numbers.

    They are given here or set afterwards, as in tf.data; `with_options` copies them.

    Args:
        deterministic: Whether parallel operations keep the order if they do not say. Default: True.
        cpu_budget: Number of CPUs that operations with AUTOTUNE may keep busy. Default: those of the container.
        ram_budget: Number of bytes that may be ready between stages. Default: half of the free memory.
        inject_prefetch: Whether to add a prefetch to the end of the pipeline if that helps. Default: True.
        on_error: "raise", or "skip" to leave out elements that fail. Default: "raise".
        on_change: What to do if functions or data in memory differ from those of a restored state: "warn", "raise" or
            "ignore".
        frozen: Result of an iterator's `tuning()`, to use instead of searching again.
        retries: Number of times a failed request to a remote store is repeated. Default: 5.
        timeout: Seconds that an answer of a remote store may take. Default: 60.
        storage_options: Options of file systems, such as credentials, by protocol or by beginning of the URL.
        remote_cache: Folder that keeps ranges of remote files.
        remote_cache_bytes: Largest size of that folder in bytes. Default: 10 GiB.
        remote_cache_valid: Seconds for which a cached file is used without asking the store. Default: 0.
        catalogue_mirrors: Folders and URLs where `hr.load` looks for prepared datasets.
        device_memory: Bytes of a device's memory for a map with `device=`. Default: 1 GiB.
        max_record_bytes: Largest record of a compressed or remote file, in bytes. Default: 256 MiB.

    >>> options = hr.Options(on_error="skip")
    >>> options.deterministic = False
    >>> ds = hr.Dataset.range(3).map(lambda x: 6 // (2 - int(x))).with_options(options)
    >>> list(ds)
    [np.int64(3), np.int64(6)]
    >>> ds.options().on_error
    'skip'
    """

    deterministic: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None
    inject_prefetch: bool | None = None
    on_error: Literal["raise", "skip"] | None = None
    on_change: Literal["warn", "raise", "ignore"] | None = None
    frozen: Mapping[str, Any] | None = None
    retries: int | None = None
    timeout: float | None = None
    storage_options: Mapping[str, Mapping[str, Any]] | None = field(default=None, repr=False)
    remote_cache: str | None = None
    remote_cache_bytes: int | None = None
    remote_cache_valid: float | None = None
    catalogue_mirrors: Sequence[str] | None = field(default=None, repr=False)
    max_record_bytes: int | None = None
    device_memory: int | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if self.__dict__.get("_fixed"):
            raise OptionsError(
                f"these options belong to a dataset, and setting {name} would change nothing: "
                f"ds.with_options(hr.Options({name}={value!r})) gives a dataset that has it"
            )
        name = SAME.get(name, name)
        if name not in self.__dataclass_fields__:
            raise _missing(name)
        super().__setattr__(name, _valid(name, value))

    if not TYPE_CHECKING:  # a type checker should still know which names there are

        def __getattr__(self, name: str) -> Attribute:
            if name in SAME:
                return getattr(self, SAME[name])
            if name in GROUPS:
                return Group(self, name)
            raise _missing(name)

    def merge(self, options: Options) -> Options:
        """Return these options, with what the other `options` set in their place."""
        chosen = {f.name: getattr(options, f.name) for f in fields(options)}
        if self.storage_options and options.storage_options:
            chosen["storage_options"] = {**self.storage_options, **options.storage_options}
        made = replace(self, **{name: value for name, value in chosen.items() if value is not None})
        return made.fixed_copy() if self.__dict__.get("_fixed") else made

    def fixed_copy(self) -> Options:
        """Return an immutable copy."""
        made = replace(self)
        made.__dict__["_fixed"] = True
        return made


class Group:
    """A group of options as in tf.data: existing ones can be set by their old names, too."""

    def __init__(self, options: Options, name: str) -> None:
        self.__dict__.update(_options=options, _name=name)

    def __getattr__(self, name: str) -> Attribute:
        return getattr(self._options, self._option(name))

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._options, self._option(name), value)

    def _option(self, name: str) -> str:
        path = f"{self._name}.{name}"
        if name.startswith("__") or path not in SAME:
            raise _missing(path)
        return SAME[path]


SAME = {
    "experimental_deterministic": "deterministic",
    "autotune.cpu_budget": "cpu_budget",
    "autotune.ram_budget": "ram_budget",
    "experimental_optimization.inject_prefetch": "inject_prefetch",
}
"""Options that have another name in tf.data."""

THREADS = "num_parallel_calls at each operation, or cpu_budget for all of them, says it"
SHARES = "ds.shard(count, index) says it, and to_torch() gives each process its share"
GROUPS = {
    "autotune": "an operation is tuned where it says AUTOTUNE; cpu_budget and ram_budget bound it",
    "threading": THREADS,
    "experimental_threading": THREADS,
    "experimental_optimization": "the optimiser changes nothing that can be seen: leave it out",
    "experimental_distribute": SHARES,
}
"""The equivalents of tf.data's option groups, if they differ."""

ELSEWHERE = {
    "threading.max_intra_op_parallelism": "NumPy's threads are set by OMP_NUM_THREADS",
    "experimental_threading.max_intra_op_parallelism": "NumPy's threads are set by OMP_NUM_THREADS",
    "dataset_name": "name= at an operation says it",
    "experimental_external_state_policy": "functions that cannot be replayed run again from their marks: leave it out",
    "experimental_service": "ds.distribute_over(hr.cluster.local(4)) is the data service: leave it out",
    "experimental_slack": "to_torch(device=...) stages batches ahead: leave it out",
    "experimental_symbolic_checkpoint": "states are symbolic always: leave it out",
    "experimental_warm_start": "nothing runs before the first next(): leave it out",
    "framework_type": "there is one framework: leave it out",
}
"""Options of tf.data that are not here, and what to do instead."""


def _missing(path: str) -> AttributeError:
    hint = ELSEWHERE.get(path) or GROUPS.get(path.partition(".")[0])
    known = [f.name for f in fields(Options)]
    if hint is None:
        near = get_close_matches(path, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return AttributeError(f"hr.Options has no {path}: {hint}")


def _refuse_unknown(init: Callable[..., None]) -> Callable[..., None]:
    """Make the constructor name the option that may be meant by a misspelt one."""

    @wraps(init)
    def checked(self: Options, **settings: object) -> None:
        for name in settings:
            if name not in self.__dataclass_fields__:
                raise TypeError(str(_missing(name)))
        init(self, **settings)

    return checked


Options.__init__ = _refuse_unknown(Options.__init__)  # type: ignore[method-assign]

LEAST = {"cpu_budget": 1, "ram_budget": 1, "remote_cache_bytes": 1, "max_record_bytes": 64 << 20}
"""The least value of options that are whole numbers. Readers hold up to 64 MiB of any records at a time."""


def _cache_folder(value: Any) -> str:
    return str(local_only(value, "Options(remote_cache=)", "give a local folder, on a disk near the processors"))


def _mirrors(value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes) or not all(isinstance(path, str | PathLike) for path in value):
        raise TypeError(f"catalogue_mirrors is a list of folders and URLs, not {value!r}")
    return tuple(str(path) for path in value)


PLACES = {"remote_cache": _cache_folder, "catalogue_mirrors": _mirrors}
"""Options that name files, each with what checks its value."""


def _valid(name: str, value: Any) -> Any:
    """Return the value of an option, of its type."""
    if value is None:
        return None
    if name == "on_error" and value not in ("raise", "skip"):
        raise OptionsError(f'on_error is "raise" or "skip", not {value!r}')
    if name == "on_change" and value not in ("warn", "raise", "ignore"):
        raise OptionsError(f'on_change is "warn", "raise" or "ignore", not {value!r}')
    if name in ("deterministic", "inject_prefetch") and not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is True or False, not {value!r}")
    if name in PLACES:
        return PLACES[name](value)
    if name in LEAST:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} is a whole number, not {value!r}")
        if value < LEAST[name]:
            raise OptionsError(f"{name} must be at least {LEAST[name]}, not {value!r}")
    if name in ("retries", "remote_cache_valid") and not value >= 0:
        raise OptionsError(f"{name} must be at least 0, not {value!r}")
    if name == "timeout" and not value > 0:
        raise OptionsError(f"timeout must be more than 0 seconds, not {value!r}")
    for where, options in value.items() if name == "storage_options" else ():
        if not isinstance(options, Mapping):
            raise OptionsError(
                f"storage_options has a mapping for each protocol or beginning of a URL, and none for {where!r}"
            )
    return value


NONE = Options().fixed_copy()
"""No option is set."""
