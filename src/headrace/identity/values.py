"""Digests of values by nature: numbers, text, containers, arrays and tables of whichever library."""

from __future__ import annotations

import enum
import operator
import re
from collections import deque
from collections.abc import Callable
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.core.ragged import Ragged
from headrace.core.types import Component
from headrace.identity.arrays import array_digest, arrow_digest, ragged_digest
from headrace.identity.digests import Digest, join_digests, join_unordered, spelt

if TYPE_CHECKING:
    pass

DigestOf = Callable[[Any], Digest]


class Budget(NamedTuple):
    """Arrays of more bytes, and containers of more items, are read by a sample of this size."""

    array_bytes: int
    items: int


EVERYTHING = Budget(8 << 30, 1 << 62)
SAMPLES = Budget(64 << 20, 1 << 14)
MAX_TABLE_ROWS = 1 << 14
"""How many rows of a large table are read."""

PLAIN = {bool, int, float, complex, str, type(None), type(Ellipsis), type(NotImplemented), range, slice}
SPELT = {"datetime", "decimal", "fractions", "ipaddress", "pathlib", "uuid", "zoneinfo"}
"""Python modules whose values are fully described when they are printed."""
IN_MEMORY = {"PIL", "jax", "jaxlib", "pandas", "polars"}
"""Libraries whose arrays are in memory, so that accessing them reads no file."""
CONTAINERS = (list, tuple, deque, dict, MappingProxyType, set, frozenset)


def name_of(kind: type) -> str:
    """Return a class by module and name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def by_type(value: object) -> Digest:
    """Return the digest of the type of an opaque or mutable object."""
    return spelt("type", name_of(type(value)))


def value_digest(value: object, look: DigestOf, budget: Budget) -> Digest | None:
    """Return the digest of a plain value, None for anything else; `look` digests its contents."""
    if isinstance(value, np.ndarray | np.generic | bytes | bytearray | Ragged):
        return _array(value, look, budget)
    if isinstance(value, np.dtype | np.ufunc) or type(value).__module__ in SPELT:
        return spelt(type(value).__name__, repr(value))
    if isinstance(value, enum.Enum):
        return spelt("enum", type(value).__name__, value.name, repr(value.value))
    if isinstance(value, re.Pattern):
        return spelt("pattern", repr(value.pattern), str(value.flags))
    if isinstance(value, operator.itemgetter | operator.attrgetter | operator.methodcaller):
        return join_digests(type(value).__name__, [look(value.__reduce__()[1])])
    return _of_library(value, look, budget)


def container_digest(value: Component, look: DigestOf, budget: Budget) -> Digest:
    """Return the digest of the contents of a list, dict or set."""
    if isinstance(value, dict | MappingProxyType):
        return _pairs(list(value.items()), look, budget)
    if isinstance(value, set | frozenset):
        items = list(value)
        plain = set(map(type, items)) <= PLAIN
        return _items(sorted(items, key=repr), look, budget) if plain else join_unordered("set", map(look, items))
    return _items(list(value), look, budget)


def _array(value: Component, look: DigestOf, budget: Budget) -> Digest:
    if isinstance(value, Ragged):
        return Digest(b"", ragged_digest(value, budget.array_bytes))
    if isinstance(value, bytes | bytearray):
        value = np.frombuffer(value, np.uint8)
    array = np.asarray(value)
    if array.dtype.hasobject:
        return join_digests(f"objects {array.dtype} {array.shape}", [_items(array.ravel().tolist(), look, budget)])
    return Digest(b"", array_digest(np.atleast_1d(array), budget.array_bytes))


def _of_library(value: Component, look: DigestOf, budget: Budget) -> Digest | None:
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library == "pyarrow":
        return _arrow(value, look, budget)
    if hasattr(kind, "requires_grad") and hasattr(kind, "numpy"):  # a torch tensor, which may be in training
        return by_type(value) if value.requires_grad else look(value.numpy(force=True))
    if (hasattr(kind, "state_dict") and hasattr(kind, "parameters")) or hasattr(kind, "trainable_variables"):
        return by_type(value)  # a model, which learns meanwhile
    if library in IN_MEMORY and hasattr(kind, "__arrow_c_stream__"):
        import pyarrow as pa

        rows = _some_rows(len(value), budget.items)
        some = value if rows is None else value.iloc[rows] if hasattr(kind, "iloc") else value[rows]
        return join_digests(str(len(value)), [_arrow(pa.table(some), look, budget)])
    if library in IN_MEMORY and (hasattr(kind, "__array__") or hasattr(kind, "__array_interface__")):
        return look(np.asarray(value))
    return None


def _arrow(value: object, look: DigestOf, budget: Budget) -> Digest:
    import pyarrow as pa

    if isinstance(value, pa.Table | pa.ChunkedArray) and value.nbytes > budget.array_bytes:
        rows = _some_rows(len(value), MAX_TABLE_ROWS)
        value = value if rows is None else value.take(pa.array(rows))
    if isinstance(value, pa.Table | pa.RecordBatch):
        columns = [_arrow(value.column(i), look, budget) for i in range(value.num_columns)]
        return join_digests(f"table {value.schema.names}", columns)
    if isinstance(value, pa.ChunkedArray):  # chunks do not change the value
        chunks = value.chunks or [pa.array([], value.type)]
        value = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    if isinstance(value, pa.Array):
        made = arrow_digest(value, budget.array_bytes)
        return _items(value.to_pylist(), look, budget) if made is None else Digest(b"", made)
    return spelt(name_of(type(value)), str(value))


def _items(items: list[Any], look: DigestOf, budget: Budget) -> Digest:
    """Return a sequence; of plain values, and of short runs of such, at the speed of `repr`."""
    kinds = set(map(type, items))
    if kinds <= {tuple, list} and items:
        kinds = set(map(type, chain.from_iterable(items)))
    length = spelt("items", str(len(items)))
    if kinds <= PLAIN:
        some = _sample(items, budget.items)
        return join_digests("plain", [length, *(spelt(repr(some[i : i + 4096])) for i in range(0, len(some), 4096))])
    return join_digests("items", [length, *map(look, _sample(items, budget.items))])


def _pairs(pairs: list[tuple[Any, Any]], look: DigestOf, budget: Budget) -> Digest:
    """Return the items of a mapping, in whichever order they were added."""
    if set(map(type, chain.from_iterable(pairs))) <= PLAIN:
        same = len({type(key) for key, _ in pairs}) == 1 and type(pairs[0][0]) in (int, str)
        return _items(sorted(pairs) if same else sorted(pairs, key=repr), look, budget)
    return join_unordered("pairs", [join_digests("pair", map(look, pair)) for pair in pairs])


def _sample(items: list[Any], most: int) -> list[Any]:
    rows = _some_rows(len(items), most)
    return items if rows is None else [items[i] for i in rows.tolist()]


def _some_rows(count: int, most: int) -> NDArray[np.int64] | None:
    """Return `most` rows, evenly spread; None for all."""
    return None if count <= most else np.linspace(0, count - 1, most).astype(np.int64)
