"""Sources whose rows come by parts, as batches of Arrow's: what a database, a service or an engine says to be one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import StateError
from headrace.plan.structure import Structure
from headrace.records.choice import EVERYTHING, Choice
from headrace.records.faults import is_passing

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset
    from headrace.sources.seen_rows import SeenRows

Mark: TypeAlias = int | str
"""Where in a part to go on: the number of rows before, the key of the row before, or what else it goes on from."""


class BatchSource(ABC):
    """Rows that come by parts, each a run of Arrow batches that can be read again from a mark.

    A subclass says what the columns are (`schema`), how many `parts` there are, and how one is read (`open`). That is
    all where rows come in the same order each time and can be passed over: a mark is then the number of rows before it.
    A source with a key says by `mark_after` what to go on from behind a batch. The rest comes with it: batching,
    shuffling, exact states, parts read in turn and ahead (`turns`), faults that pass met by going on from the last
    mark, others raised from `next()` with the place kept.

    >>> import pyarrow as pa
    >>> class Squares(hr.BatchSource):
    ...     schema = pa.schema({"x": pa.int64(), "square": pa.int64()})
    ...     parts = 2
    ...
    ...     def open(self, part, mark):
    ...         for x in range(10 * part + mark, 10 * part + 3):
    ...             yield pa.record_batch({"x": [x], "square": [x * x]})
    >>> [int(row["square"]) for row in hr.Dataset.from_batches(Squares())]
    [0, 1, 4, 100, 121, 144]
    """

    name: str = ""
    """What plans and errors call it; the name of the class where it has none."""
    schema: pa.Schema
    """The columns of all batches."""
    parts: int = 1
    """How many there are, or may be: of a part that a pass does not have, `open` gives nothing."""
    turns: int | None = None
    """How many parts are read in turn, each ahead of need on a thread; None for one part after another."""
    structure: Structure | None = None
    """How a row's columns make an element, in the order of their names; None for a dict."""
    choice: Choice = EVERYTHING
    """What the user says of columns: as what they are read, and what stands for what is missing."""
    layout: str = ""
    """What the parts are, where the plan does not say: a state holds it, and gives it to `lay_out`."""
    timeout: float = 60.0
    """Seconds that an answer may take: in a pass, those of its `Options(timeout=)`."""
    start: Mark = 0
    """The mark of a part's beginning."""

    @abstractmethod
    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:
        """The rows of a part from a mark on. Who has a `close` is closed; who has a `cancel` may be told, from another
        thread, to end whatever it waits for."""

    def mark_after(self, mark: Mark, batch: pa.RecordBatch) -> Mark:
        """The mark behind these rows, which begin at `mark`."""
        assert isinstance(mark, int)
        return mark + int(batch.num_rows)

    def keys_of(self, batch: pa.RecordBatch) -> pa.Array | None:  # noqa: ARG002 - most sources do not change
        """The keys of these rows, of whole numbers or text, where rows may come and go between a state and a resume.

        A state then goes on behind the very row before it, at the mark `mark_of_key(key)`; where an operation must read
        rows again that it has used, `check_seen` is asked first.
        """
        return None

    def check_seen(self, part: int, mark: Mark, seen: SeenRows) -> None:  # noqa: B027 - which only keys need
        """Raise StateError where the rows behind a mark are not those that were `seen`."""

    def lay_out(self, layout: str | None) -> BatchSource:
        """The source for one pass: a new one, or, with the `layout` of a state, the one that the state belongs to."""
        if layout not in (None, self.layout):
            raise StateError(f"{self} is laid out otherwise than when the state was taken")
        return self

    def is_passing(self, error: Exception) -> bool:
        """Whether what was raised may well not come again in a moment."""
        return is_passing(error)

    def hide(self, text: str) -> str:
        """What somebody else says, without secrets."""
        return text

    def remark(self) -> str | None:
        """How it is read, where `explain` should say."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """The pass that `lay_out` was asked for has ended."""

    def __str__(self) -> str:
        """What makes its rows, for plans and states: never a secret."""
        return type(self).__name__


def from_batches(source: BatchSource, *, name: str | None = None) -> Dataset:
    """A dataset of the rows of a `BatchSource` as dicts: how to read from what headrace does not know yet.

    >>> import pyarrow as pa
    >>> class Countdown(hr.BatchSource):
    ...     schema = pa.schema({"n": pa.int64()})
    ...
    ...     def open(self, part, mark):
    ...         yield pa.record_batch({"n": range(3 - mark, 0, -1)})
    >>> list(hr.Dataset.from_batches(Countdown()))
    [{'n': np.int64(3)}, {'n': np.int64(2)}, {'n': np.int64(1)}]
    """
    from headrace.sources.parts import parts_dataset

    return parts_dataset("from_batches", source, name)
