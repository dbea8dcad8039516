"""Sources whose rows come in parts, as Arrow batches: the interface for a database, a service or an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import StateError
from headrace.formats.tables.choice import EVERYTHING, Choice
from headrace.plan.structure import Structure
from headrace.remote.faults import is_passing

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.dataset import Dataset
    from headrace.sources.seen_rows import SeenRows

Mark: TypeAlias = int | str
"""Where to continue in a part: the number of rows before, the key of the row before, or another position."""


class BatchSource(ABC):
    """A source in parts, each a run of Arrow batches that can be re-read from a mark.

    A subclass defines the columns (`schema`), the number of `parts`, and how to read one (`open`). That is enough if
    rows come in the same order each time and can be skipped: a mark is then the number of rows before it. A source with
    a key also defines `mark_after`, from which to continue after a batch. The base class adds batching, shuffling,
    exact states, and parts that are interleaved and read ahead (`turns`). It retries transient faults from the last
    mark and raises others from `next()`, which keeps its position.

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
    """The name in plans and errors; the name of the class by default."""
    schema: pa.Schema
    """The columns of all batches."""
    parts: int = 1
    """How many parts there are, or may be: for a part that a pass does not have, `open` yields nothing."""
    turns: int | None = None
    """How many parts are interleaved, each read ahead on a thread; None for one part after another."""
    structure: Structure | None = None
    """How a row's columns make an element, in the order of their names; None for a dict."""
    choice: Choice = EVERYTHING
    """The user's options for columns: their types, and values for missing ones."""
    layout: str = ""
    """What the parts are, if the plan does not say: a state holds it, and passes it to `lay_out`."""
    timeout: float = 60.0
    """Seconds that an answer may take: in a pass, those of its `Options(timeout=)`."""
    start: Mark = 0
    """The mark of a part's beginning."""

    @abstractmethod
    def open(self, part: int, mark: Mark) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part from a mark on.

        An iterator with a `close` method is closed. One with a `cancel` method may be told, from another thread, to end
        any wait.
        """

    def mark_after(self, mark: Mark, batch: pa.RecordBatch) -> Mark:
        """Return the mark after these rows, which begin at `mark`."""
        assert isinstance(mark, int)
        return mark + int(batch.num_rows)

    def keys_of(self, batch: pa.RecordBatch) -> pa.Array | None:  # noqa: ARG002 - most sources do not change
        """Return the keys of these rows, integers or text, if rows may come and go between a state and a resume.

        A state then continues after exactly the row before it, at the mark `mark_of_key(key)`. If an operation must
        re-read rows that it has used, `check_seen` is called first.
        """
        return None

    def check_seen(self, part: int, mark: Mark, seen: SeenRows) -> None:  # noqa: B027 - which only keys need
        """Raise StateError if the rows after a mark are not those that were `seen`."""

    def lay_out(self, layout: str | None) -> BatchSource:
        """Return the source for one pass: a new one, or, with the `layout` of a state, the one that the state belongs
        to.
        """
        if layout not in (None, self.layout):
            raise StateError(f"{self} is laid out otherwise than when the state was taken")
        return self

    def is_passing(self, error: Exception) -> bool:
        """Return whether what was raised may well not come again in a moment."""
        return is_passing(error)

    def hide(self, text: str) -> str:
        """Remove secrets from a message of another library."""
        return text

    def remark(self) -> str | None:
        """Return how it is read, for `explain`."""
        return None

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Free what `lay_out` made for a pass, which has ended."""

    def __str__(self) -> str:
        """Return what makes its rows, for plans and states: never a secret."""
        return type(self).__name__


def from_batches(source: BatchSource, *, name: str | None = None) -> Dataset:
    """Return a dataset of the rows of a `BatchSource` as dicts: how to read from what headrace does not know yet.

    Args:
        source: Where to read from.
        name: Label of the operation in `explain()`, `stats()` and error messages.

    Returns:
        A new dataset.

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
