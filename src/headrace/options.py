"""Options: how a pipeline runs, as far as it is not said at each operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.errors import HeadraceError
from headrace.paths import local_only


class Autotune(int):
    """A number to be found while running: tf.data's -1, which prints as what it means."""

    def __repr__(self) -> str:
        return "AUTOTUNE"

    __str__ = __repr__

    def __reduce__(self) -> str:
        return "AUTOTUNE"


AUTOTUNE = Autotune(-1)


class OptionsError(HeadraceError, ValueError):
    """Options that contradict each other, or values there are not."""


@dataclass(kw_only=True)
class Options:
    """How a pipeline runs. None leaves a thing as it is; what is set last counts.

    - `deterministic`: whether parallel operations that do not say keep the order (they do by default).
    - `cpu_budget`: how many processors operations that say AUTOTUNE may keep busy; by default those of the container.
    - `ram_budget`: how many bytes may lie ready between the stages; by default half of what the container has free.
    - `inject_prefetch`: whether a pipeline that does not end in one gets a prefetch, where that is seen to help and
      nobody can tell (it does by default).
    - `on_error`: "raise" (the default), or "skip" to leave out elements that fail.
    - `on_change`: what to do where a state is restored that was taken with other functions or other data in memory:
      "warn" (the default, an `hr.ChangeWarning`), "raise" or "ignore".
    - `retries`: how often a remote store is asked again after a fault that may pass, at growing distances (5 times).
    - `timeout`: how many seconds each answer may take (60), of file systems that can be left waiting: S3, GCS, HTTP…
    - `storage_options`: what file systems are told, such as credentials: `{"s3": {"anon": True}}`, by protocol or by
      what a URL begins with. They are shown nowhere.
    - `remote_cache`: a folder where ranges of remote files are kept for the next pass, of this process or another, up
      to `remote_cache_bytes` (10 GiB): what was not used for longest goes first. Each pass asks the store whether its
      files are still the same; with `remote_cache_valid` it relies on what was said in the last so many seconds.
    - `frozen`: what an iterator's `tuning()` gave: AUTOTUNE means those numbers.

    They are given here or set afterwards, as in tf.data; `with_options` takes them as they are at that moment.

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

    def __setattr__(self, name: str, value: Any) -> None:
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

        def __getattr__(self, name: str) -> Any:
            if name in SAME:
                return getattr(self, SAME[name])
            if name in GROUPS:
                return Group(self, name)
            raise _missing(name)

    def merge(self, options: Options) -> Options:
        """These options, with what the other `options` set in their place."""
        chosen = {f.name: getattr(options, f.name) for f in fields(options)}
        if self.storage_options and options.storage_options:
            chosen["storage_options"] = {**self.storage_options, **options.storage_options}
        made = replace(self, **{name: value for name, value in chosen.items() if value is not None})
        return made.fixed_copy() if self.__dict__.get("_fixed") else made

    def fixed_copy(self) -> Options:
        """A copy that nobody can change."""
        made = replace(self)
        made.__dict__["_fixed"] = True
        return made


class Group:
    """tf.data's options within options: those that are here are reached by their old names, too."""

    def __init__(self, options: Options, name: str) -> None:
        self.__dict__.update(_options=options, _name=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._options, self._option(name))

    def __setattr__(self, name: str, value: Any) -> None:
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
"""Where the options of tf.data's groups are now, as far as they are not the same."""

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


def _valid(name: str, value: Any) -> Any:
    """The value of an option, of its type."""
    if value is None:
        return None
    if name == "on_error" and value not in ("raise", "skip"):
        raise OptionsError(f'on_error is "raise" or "skip", not {value!r}')
    if name == "on_change" and value not in ("warn", "raise", "ignore"):
        raise OptionsError(f'on_change is "warn", "raise" or "ignore", not {value!r}')
    if name in ("deterministic", "inject_prefetch") and not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is True or False, not {value!r}")
    if name == "remote_cache":
        return str(local_only(value, "Options(remote_cache=)", "give a local folder, on a disk near the processors"))
    if name in ("cpu_budget", "ram_budget", "remote_cache_bytes"):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"{name} is a whole number, not {value!r}")
        if value < 1:
            raise OptionsError(f"{name} must be at least 1, not {value!r}")
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
"""Nothing is said."""
