"""Find the record batches of an Arrow file and their row counts without reading them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.types import LibraryObject

if TYPE_CHECKING:
    pass

MAGIC = b"ARROW1"
CONTINUATION = -1
SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3
CUT = "the file ends within a record batch"


class MessageBatch(NamedTuple):
    """A record batch: its bytes, those of its description included, and its rows; or why it is known to be lost."""

    start: int
    stop: int
    rows: int
    flaw: str | None = None


class MessageStream(NamedTuple):
    """The messages of a stream: what comes before the batches, and the batches."""

    preface: list[tuple[int, int]]
    batches: list[MessageBatch]


class Message(NamedTuple):
    """The metadata of a message, and where the message ends."""

    kind: int
    rows: int
    stop: int


def footer_batches(file: LibraryObject) -> list[int]:
    """Return the offsets of the record batches according to the footer of a file."""
    end = max(0, file.size() - len(MAGIC) - 4)
    tail = file.read_at(4 + len(MAGIC), end)
    length = FlatTable(tail, 0).read("<i", 0)
    if tail[4:] != MAGIC or not 0 < length <= end:
        raise ValueError("the footer is not at the expected offset")
    footer = FlatTable.root(file.read_at(length, end - length))
    start, count = footer.vector(3)
    return [footer.read("<q", start + 24 * i) for i in range(count)]


def stream_messages(file: LibraryObject, start: int) -> MessageStream:
    """Return the messages from `start` to the end of a stream; what is wrong is the last of its batches."""
    found = MessageStream([], [])
    at, size = start, file.size()
    try:
        while at < size and (message := read_message(file, at, size)) is not None:
            if message.stop > size:
                found.batches.append(MessageBatch(at, message.stop, message.rows, CUT))
                break
            if message.kind == RECORD_BATCH:
                found.batches.append(MessageBatch(at, message.stop, message.rows))
            elif message.kind in (SCHEMA, DICTIONARY):
                found.preface.append((at, message.stop))
            at = message.stop
    except ValueError as error:
        found.batches.append(MessageBatch(at, at, 1, str(error)))
    if not found.preface:
        import pyarrow as pa

        raise pa.ArrowInvalid("neither a file nor a stream of Arrow's")
    return found


def read_message(file: LibraryObject, at: int, size: int) -> Message | None:
    """Return the metadata of the message at this offset, or None at the end of a stream."""
    if not 0 <= at <= size - 8:
        raise ValueError(CUT)
    head = file.read_at(8, at)
    if len(head) < 8:  # it has shrunk since
        raise ValueError(CUT)
    first, second = struct.unpack("<ii", head)
    length, start = (second, at + 8) if first == CONTINUATION else (first, at + 4)  # before 0.15 there was but one
    if length == 0:
        return None
    if length < 0 or start + length > size:
        raise ValueError(CUT)
    content = file.read_at(length, start)
    if len(content) < length:
        raise ValueError(CUT)
    message = FlatTable.root(content)
    kind, body = message.number(1, "<B"), message.number(3, "<q")
    rows = message.table(2).number(0, "<q") if kind == RECORD_BATCH else 0
    if body < 0 or rows < 0:
        raise ValueError("the description of a record batch is damaged")
    return Message(kind, rows, start + length + body)


class FlatTable:
    """A FlatBuffers table: fields by number, each at an offset that is checked before it is read."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """Return the outermost one."""
        return cls(data, cls(data, 0).read("<I", 0))

    def read(self, form: str, at: int) -> int:
        """Return the number at a place."""
        if not 0 <= at <= len(self._data) - struct.calcsize(form):
            raise ValueError("a description points beyond its end")
        (value,) = struct.unpack_from(form, self._data, at)
        return int(value)

    def number(self, field: int, form: str) -> int:
        """Return a number, 0 if it is absent."""
        at = self._place(field)
        return 0 if at is None else self.read(form, at)

    def table(self, field: int) -> FlatTable:
        """Return a table within this one."""
        return FlatTable(self._data, self._target(field))

    def vector(self, field: int) -> tuple[int, int]:
        """Return the offset and the length of a vector."""
        if self._place(field) is None:
            return 0, 0
        at = self._target(field)
        return at + 4, self.read("<I", at)

    def _place(self, field: int) -> int | None:
        names = self._at - self.read("<i", self._at)
        entry = 4 + 2 * field
        offset = self.read("<H", names + entry) if entry < self.read("<H", names) else 0
        return self._at + offset if offset else None

    def _target(self, field: int) -> int:
        at = self._place(field)
        if at is None:
            raise ValueError("a description lacks a required field")
        return at + self.read("<I", at)
