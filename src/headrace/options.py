"""Options: how a pipeline runs, as far as it is not said at each operation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from headrace.errors import HeadraceError


class OptionsError(HeadraceError, ValueError):
    """Options that contradict each other, or values there are not."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a pipeline runs. None leaves a thing as it is; what is set last counts.

    - `deterministic`: whether parallel operations that do not say keep the order (they do by default).
    - `cpu_budget`: how many threads an operation that says AUTOTUNE may use.
    - `ram_budget`: how many bytes a stage may hold ready ahead of its consumer.
    - `on_error`: "raise" (the default), or "skip" to leave out elements that fail.

    >>> ds = hr.Dataset.range(3).map(lambda x: 6 // (2 - int(x))).with_options(hr.Options(on_error="skip"))
    >>> list(ds)
    [np.int64(3), np.int64(6)]
    >>> ds.options().on_error
    'skip'
    """

    deterministic: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None
    on_error: str | None = None

    def __post_init__(self) -> None:
        if self.on_error not in (None, "raise", "skip"):
            raise OptionsError(f'on_error is "raise" or "skip", not {self.on_error!r}')
        for name in ("cpu_budget", "ram_budget"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionsError(f"{name} must be at least 1, not {value!r}")

    def merge(self, options: Options) -> Options:
        """These options, with what the other `options` set in their place."""
        chosen = {f.name: getattr(options, f.name) for f in fields(options)}
        return replace(self, **{name: value for name, value in chosen.items() if value is not None})
