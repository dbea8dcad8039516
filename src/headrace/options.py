"""Options: how a pipeline runs, as far as it is not said at each operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from headrace.errors import HeadraceError


class OptionsError(HeadraceError, ValueError):
    """Options that contradict each other, or values there are not."""


@dataclass(frozen=True, kw_only=True)
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
    - `frozen`: what an iterator's `tuning()` gave: AUTOTUNE means those numbers.

    >>> ds = hr.Dataset.range(3).map(lambda x: 6 // (2 - int(x))).with_options(hr.Options(on_error="skip"))
    >>> list(ds)
    [np.int64(3), np.int64(6)]
    >>> ds.options().on_error
    'skip'
    """

    deterministic: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None
    inject_prefetch: bool | None = None
    on_error: str | None = None
    on_change: str | None = None
    frozen: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.on_error not in (None, "raise", "skip"):
            raise OptionsError(f'on_error is "raise" or "skip", not {self.on_error!r}')
        if self.on_change not in (None, "warn", "raise", "ignore"):
            raise OptionsError(f'on_change is "warn", "raise" or "ignore", not {self.on_change!r}')
        for name in ("cpu_budget", "ram_budget"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionsError(f"{name} must be at least 1, not {value!r}")

    def merge(self, options: Options) -> Options:
        """These options, with what the other `options` set in their place."""
        chosen = {f.name: getattr(options, f.name) for f in fields(options)}
        return replace(self, **{name: value for name, value in chosen.items() if value is not None})
