"""Lines of JSON: find the offset of each, and parse one in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.core.types import JsonObject, JsonValue
from headrace.formats.shared.files import Bytes
from headrace.formats.shared.format import Offsets
from headrace.formats.text.format import CR, LF

BOM = b"\xef\xbb\xbf"


class TwiceError(ValueError):
    """An object has two fields of one name."""


class NotAnObjectError(ValueError):
    """A line does not begin and end like an object: `line` counts from the first that was looked at."""

    def __init__(self, line: int) -> None:
        super().__init__("not an object of JSON's on one line")
        self.line: int = line


class ObjectLines:
    """The non-blank lines of some bytes: where each begins and ends, and its line number. The bytes are not copied."""

    def __init__(self, data: Bytes, starts: Offsets, stops: Offsets, numbers: Offsets) -> None:
        self._data = data
        self._starts, self._stops, self._numbers = starts, stops, numbers
        self._whole = self._braced()

    @classmethod
    def of(cls, data: Bytes, cuts: Offsets) -> ObjectLines:
        """Lines between these cuts."""
        starts, stops, numbers = cuts[:-1], cuts[1:], np.arange(len(cuts) - 1)
        doubtful = np.flatnonzero(data[starts] <= ord(" "))
        blank = [i for i in doubtful.tolist() if not data[starts[i] : stops[i]].tobytes().strip()]
        if blank:
            numbers = np.delete(numbers, blank)
            starts, stops = starts[numbers], stops[numbers]
        return cls(data, starts, stops, numbers)

    def _braced(self) -> NDArray[np.bool_]:
        """Return which lines begin and end as an object does."""
        content = self._data
        last = self._stops - 1
        for end in (LF, CR):
            last = last - (content[last] == end)  # a line that is not blank has something before its end
        whole: NDArray[np.bool_] = (content[self._starts] == ord("{")) & (content[last] == ord("}"))
        for i in np.flatnonzero(~whole).tolist():
            line = self.text(i, i + 1).strip()
            whole[i] = line.startswith(b"{") and line.endswith(b"}")
        return whole

    def __len__(self) -> int:
        return len(self._starts)

    def start(self, line: int) -> int:
        """Return the offset of a line."""
        return int(self._starts[line])

    def stop(self, line: int) -> int:
        """Return the end of a line, including its terminator."""
        return int(self._stops[line])

    def number(self, line: int) -> int:
        """Return the number of a line among all, blank ones included."""
        return int(self._numbers[line])

    def view(self, low: int, high: int) -> Bytes:
        """Return the bytes of some lines, and of blank ones between them."""
        return self._data[self.start(low) : self.stop(high - 1)]

    def text(self, low: int, high: int) -> bytes:
        """Return a copy of these bytes."""
        return self.view(low, high).tobytes()

    def brackets(self, low: int, high: int) -> int:
        """Return an upper bound of the number of lists and objects in any of these lines."""
        content = self.view(low, high)
        places = np.flatnonzero((content == ord("[")) | (content == ord("{"))) + self.start(low)
        return int(np.diff(np.searchsorted(places, np.append(self._starts[low:high], self.stop(high - 1)))).max())

    def check(self, low: int, high: int) -> None:
        """Raise unless each line begins and ends like an object, so that none continues in the next."""
        whole = self._whole[low:high]
        if not whole.all():
            raise NotAnObjectError(int(np.argmin(whole)))


def load_line(line: bytes) -> JsonValue:
    """Parse a line. Raise ValueError if it is not JSON, or has a duplicate field."""
    try:
        return json.loads(line.decode(), object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("lists and objects are nested too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({repr(name) for name in names if names.count(name) > 1})
        raise TwiceError(f"more than one field is called {', '.join(twice)}")
    return made


def first_objects(data: bytes) -> Iterator[tuple[int, JsonObject]]:
    """Yield the objects of the first lines with their line numbers. Bad lines are reported when they are read."""
    for number, line in enumerate(data.removeprefix(BOM).split(b"\n")):
        if line.strip():
            try:
                made = load_line(line)
            except ValueError:
                continue
            if isinstance(made, dict):
                yield number, made
