"""Keywords of other libraries: errors name the one to use here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

HABITS = {
    "batchsize": "batch_size",
    "bs": "batch_size",
    "n": "batch_size",
    "drop_last": "drop_remainder",
    "num_workers": "num_parallel_calls",
    "num_proc": "num_parallel_calls",
    "n_jobs": "num_parallel_calls",
    "workers": "num_parallel_calls",
    "buffer": "buffer_size",
    "prefetch_factor": "buffer_size",
    "random_state": "seed",
    "function": "map_func",
    "fn": "map_func",
    "epochs": "count",
}
"""Keywords of other libraries, and what stands for them here."""

OPERATIONS = {
    "batch_size": "write batch(n) before it, as in ds.batch(32).{name}()",
    "shuffle": "write shuffle before batch, as in ds.shuffle(10_000, seed=1).batch(32).{name}()",
    "drop_last": "it is that of batch, as in ds.batch(32, drop_remainder=True).{name}()",
    "collate_fn": "it is that of batch, as in ds.batch(32, collate_fn=collate).{name}()",
    "sampler": "write ds.shuffle(), ds.weighted_sample(weights) or ds[[3, 1, 4]] before it",
    "num_workers": 'threads of this process read ahead; map(fn, mode="process") calls a slow function in processes',
    "prefetch_factor": "it is prefetch=",
}
"""Keywords of a DataLoader that are operations here, for what hands elements to a framework."""


def explain_keywords(function: F) -> F:
    """Make a call with an unknown keyword raise a TypeError that names the right one."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            frame = error.__traceback__
            if frame is None or frame.tb_next is not None or "unexpected keyword argument" not in str(error):
                raise
            known = [name for name in inspect.signature(function).parameters if name != "self"]
            wrong = next(name for name in kwargs if name not in known)
            if function.__name__.startswith("to_") and wrong in OPERATIONS:
                hint = OPERATIONS[wrong].format(name=function.__name__)
                raise TypeError(f"{function.__name__} has no keyword {wrong}=: {hint}") from None
            near = HABITS.get(wrong)
            if near not in known:
                near = next(iter(get_close_matches(wrong, known, 1, 0.6)), None)
            hint = f"did you mean {near}=?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{function.__name__} has no keyword {wrong}=: {hint}") from None

    return call  # type: ignore[return-value]
