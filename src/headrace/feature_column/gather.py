"""One pass over a dataset that learners gather from, which can be broken off and resumed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from headrace.columns.block import Block
from headrace.core.paths import local_only
from headrace.core.types import JsonValue, StrPath
from headrace.errors import NONSENSE, StateError
from headrace.feature_column.learners import Arrays, Learner
from headrace.plan.capabilities import require_end
from headrace.storage.files import whole_file

if TYPE_CHECKING:
    from headrace.cluster.members import Cluster
    from headrace.dataset import Dataset

FORMAT = "headrace.adapt"
VERSION = 2


def gather(
    ds: Dataset,
    learners: Sequence[Learner],
    take: Callable[[Block], None],
    *,
    purpose: str,
    state: StrPath | None = None,
    save_every: float = 30.0,
    progress: bool | None = None,
    task: str = "adapt",
    cluster: Cluster | None = None,
) -> None:
    """Call `take` with all blocks of a dataset; `task` is the user's name for that.

    With `state`, a path, the learners' state is saved in that file every `save_every` seconds and when the pass is
    interrupted; if there is such a file, of this `purpose`, the pass continues from there. It is removed at the end.
    With a `cluster` its workers gather shares of the rows, and their states are merged.
    """
    from headrace.ops.progress import progress_bar

    require_end(ds._node, task)
    if cluster is not None:
        how = {"state": state, "save_every": save_every, "progress": progress}
        cluster.gather(ds, learners, take, purpose=purpose, task=task, **how)
        return
    path = None if state is None else local_only(state, f"{task}(state=)")
    place = None if path is None else load_gathered(path, purpose, learners)
    with (
        ds.iterator(state=place) as it,
        progress_bar(task, ds._node.cardinality, progress) as advance,
    ):
        if place is not None:
            advance(int(place["delivered"]))
        settled, saved = place, monotonic()
        known = settled is not None
        try:
            for block in it.blocks():
                known = False
                take(block)
                settled, known = it.state() if path is not None else None, path is not None
                advance(block.rows)
                if path is not None and monotonic() - saved >= save_every:
                    save_gathered(path, purpose, settled, learners)
                    saved = monotonic()
        except BaseException:
            if path is not None and known:  # else a learner may have seen the half of a block
                save_gathered(path, purpose, settled, learners)
            raise
    if path is not None:
        path.unlink(missing_ok=True)


def save_gathered(path: Path, purpose: str, place: object, learners: Sequence[Learner]) -> None:
    """Keep what learners know of a dataset up to a place."""
    header = {"format": FORMAT, "version": VERSION, "purpose": purpose, "place": place}
    arrays: Arrays = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    for number, learner in enumerate(learners):
        arrays |= {f"{number}.{name}": array for name, array in learner.arrays().items()}
    with whole_file(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_gathered(path: Path, purpose: str, learners: Sequence[Learner]) -> JsonValue:
    """Return the place that a file says, and the learners as it has them; None if there is no file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        header = json.loads(arrays.pop("header").tobytes())
        said = [header[name] for name in ("format", "version", "purpose", "place")]
        shares: list[Arrays] = [{} for _ in learners]
        for name, array in arrays.items():
            number, _, own = name.partition(".")
            if header["purpose"] == purpose:
                shares[int(number)][own] = array
        if said[:3] == [FORMAT, VERSION, purpose]:
            for learner, share in zip(learners, shares, strict=True):
                learner.restore(share)
    except FileNotFoundError:
        return None
    except (*NONSENSE, EOFError, zipfile.BadZipFile) as error:
        raise StateError(f"{path} is no state of adapt, or is damaged: remove it to begin again ({error})") from None
    if said[:2] != [FORMAT, VERSION]:
        raise StateError(f"{path} is no state of adapt of this version: remove it to begin again")
    if said[2] != purpose:
        raise StateError(f"{path} was begun for {said[2]}, not for {purpose}: remove it, or name another file")
    return said[3]
