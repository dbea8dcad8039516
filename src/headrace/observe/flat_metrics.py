"""What a pass has done, as a flat dict of numbers: for TensorBoard, Weights & Biases, MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.types import JsonObject
from headrace.observe.live import snapshot

if TYPE_CHECKING:
    from headrace.iterator import Iterator

STAGE_NUMBERS = ("rows", "bytes", "busy_s", "waiting_s", "input_s", "room_s", "memory_s", "ready")


def scalars(it: Iterator, prefix: str = "headrace/") -> dict[str, float]:
    """Return what a pass has done so far as a flat dict of numbers.

    Args:
        it: An iterator, or that of `to_torch`, `to_jax` or `to_keras`.
        prefix: What all names begin with.

    Returns:
        Numbers by name: `headrace/delivered`, `headrace/starved_share`, `headrace/stage/0_range/rows` and others. The
        names stay the same for the whole pass.

    >>> it = iter(hr.Dataset.range(10).batch(5))
    >>> _ = list(it)
    >>> found = hr.observe.scalars(it)
    >>> found["headrace/delivered"], found["headrace/stage/0_range/rows"]
    (2.0, 10.0)
    """
    return flat(snapshot(getattr(it, "_iterator", it)), prefix)


def flat(found: JsonObject, prefix: str = "headrace/") -> dict[str, float]:
    """The numbers of a snapshot."""
    made = {
        "epoch": found["epoch"],
        "delivered": found["delivered"],
        "starved_share": found["starvation"]["share"],
        "waited_s": found["starvation"]["waited_s"],
        "computed_s": found["starvation"]["computed_s"],
        "first_s": found["starvation"]["first_s"],
        **{f"first/{name}": value for name, value in found["first"].items()},
        **{f"memory/{name}": value for name, value in found["memory"].items()},
        **{f"store/{name}": value for name, value in found["store"].items()},
    }
    for number, stage in enumerate(found["stages"]):
        for name in STAGE_NUMBERS:
            made[f"stage/{number}_{stage['operation']}/{name}"] = stage[name]
    return {prefix + name: float(value) for name, value in made.items() if isinstance(value, int | float)}
