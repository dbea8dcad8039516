"""Requests of a trainer to a worker. Everything but rows is pickled: see docs/service.md on trust."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

from headrace.cluster.parcels import pack_and_key
from headrace.cluster.split_share import SplitShare
from headrace.cluster.splits import Fragment
from headrace.execute.processes.unpicklable import culprit
from headrace.options import Options
from headrace.plan.marks import Marks
from headrace.plan.node import Node
from headrace.plan.prepared import Prepared

POLL_SECONDS = 0.1
"""How long a worker that has nothing ready waits before it answers, so that the trainer knows that it is alive."""
RESPONSE_BYTES = 64 << 20
RESPONSE_SECONDS = 1.0
"""About how much one answer holds, and how long it lasts."""
PUT_BYTES = 8 << 20
"""How much of a fragment goes in one message."""


class Setting(NamedTuple):
    """How every split of a session is opened; `path` and `level` are those of the pass.

    `num_parallel_calls` of the plan are those of the whole cluster: each of `splits_at_a_time` makes its part of them.
    With `shared`, a worker that makes the same rows for another session gives these: those of a fragment with the same
    `key`.
    """

    fragment: str
    key: str
    mode: str
    path: int
    level: int
    with_ids: bool
    options: Options
    prepare: Callable[[Node], Prepared]
    block_rows: int | None
    shared: bool = False
    splits_at_a_time: int = 1

    @property
    def rows_key(self) -> str:
        """Return a key that differs between sessions whose splits have other rows, or other blocks of them."""
        return repr([*self._replace(fragment="", prepare=Prepared.of), self.prepare is Prepared.of])


class SplitOpening(NamedTuple):
    """Where a split begins or continues: `skip` rows after these positions; and which rows are wanted, if not all."""

    marks: Marks
    skip: int
    sizes: dict[str, int]
    share: SplitShare | None = None


class SplitWant(NamedTuple):
    """A request for up to `room` bytes of a split, from row `ordinal` on. No `opening` if the worker has it open there.

    In a shared session, rows count from the split's first; in others, from a number that belongs to its start position.
    """

    split: int
    ordinal: int
    room: int
    opening: SplitOpening | None


class Poll(NamedTuple):
    """A request for ready rows of these splits; `setting` comes with the first, and if a worker has forgotten it."""

    session: str
    wants: list[SplitWant]
    setting: Setting | None
    wait: float = POLL_SECONDS


class Release(NamedTuple):
    """These splits are no longer needed, all of them if None; the answer comes once they have ended, or
    after `wait`.
    """

    session: str
    splits: list[int] | None = None
    wait: float = 0.0


class PackedFragment(NamedTuple):
    """A fragment as bytes, and its digest.

    `key` identifies the rows: trainers that run the same script have the same.
    """

    digest: str
    data: bytes
    key: str

    @classmethod
    def of(cls, fragment: Fragment) -> PackedFragment:
        """Ready to be sent; what cannot be is named."""
        try:
            data, key = pack_and_key(fragment)
        except Exception as error:
            found = culprit(SimpleNamespace(node=fragment.plan))
            raise TypeError(
                f"distribute_over: the pipeline cannot be sent to a worker: {error}"
                + (f" ({found}). Make it inside the function, or when it is first needed there" if found else "")
            ) from error
        return cls(digest_of(data), data, digest_of(key))


def digest_of(data: bytes) -> str:
    """Return the digest of a fragment."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
