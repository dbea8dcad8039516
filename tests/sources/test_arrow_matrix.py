"""Arrow types in and out: what each becomes as a component, and as which type it leaves again.

`TYPES` is the table of docs/tables.md; a test keeps the two the same.
"""

import datetime as dt
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr

D = hr.Dataset
DAY, EARLIER = dt.datetime(2020, 1, 2, 3, 4, 5), dt.datetime(1960, 2, 2)
TAGS = uuid.UUID(int=7)
DOCS = Path(__file__).parents[2] / "docs" / "tables.md"


class Case(NamedTuple):
    """An Arrow array, the spec of its rows, and the type that they leave as."""

    array: pa.Array
    spec: Any
    out: pa.DataType


def s(shape, dtype):
    return hr.TensorSpec(shape, dtype)


def runs(values):
    return pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), values)


def categories(values):
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.uint32()), values)


TENSORS = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
TEXT, BINARY = pa.large_string(), pa.large_binary()
TYPES = {
    "bool": Case(pa.array([True, False, True]), s([], bool), pa.bool_()),
    "bool8": Case(pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 1], pa.int8())), s([], bool), pa.bool_()),
    "int8": Case(pa.array([1, -2, 3], pa.int8()), s([], np.int8), pa.int8()),
    "int64": Case(pa.array([1, -(2**63), 3]), s([], np.int64), pa.int64()),
    "uint64": Case(pa.array([1, 2**64 - 1, 3], pa.uint64()), s([], np.uint64), pa.uint64()),
    "float16": Case(pa.array(np.array([1, 2, 3], np.float16)), s([], np.float16), pa.float16()),
    "float32": Case(pa.array([1.5, 2, 3], pa.float32()), s([], np.float32), pa.float32()),
    "float64": Case(pa.array([1.5, 2, 3]), s([], np.float64), pa.float64()),
    "null": Case(pa.nulls(3), s([], np.float64), pa.float64()),
    "decimal128(10, 2)": Case(
        pa.array([Decimal("1.50"), Decimal("-2.25"), Decimal("0")], pa.decimal128(10, 2)), s([], float), pa.float64()
    ),
    "string": Case(pa.array(["a", "bé", ""]), s([], str), TEXT),
    "large_string": Case(pa.array(["a", "bé", ""], TEXT), s([], str), TEXT),
    "string_view": Case(pa.array(["a", "b" * 40, ""], pa.string_view()), s([], str), TEXT),
    "binary": Case(pa.array([b"a\0", b"", b"c"]), s([], bytes), BINARY),
    "binary_view": Case(pa.array([b"a\0", b"b" * 40, b"c"], pa.binary_view()), s([], bytes), BINARY),
    "fixed_size_binary": Case(pa.array([b"a\0", b"bb", b"cc"], pa.binary(2)), s([], bytes), BINARY),
    "date32": Case(pa.array([DAY.date(), EARLIER.date(), None]), s([], "datetime64[D]"), pa.date32()),
    "date64": Case(
        pa.array([DAY.date(), EARLIER.date(), None], pa.date64()), s([], "datetime64[ms]"), pa.timestamp("ms")
    ),
    "time32": Case(pa.array([dt.time(1, 2, 3), dt.time(4), None], pa.time32("s")), s([], "m8[s]"), pa.duration("s")),
    "time64": Case(pa.array([dt.time(1, 2, 3), dt.time(4), None], pa.time64("us")), s([], "m8[us]"), pa.duration("us")),
    "timestamp": Case(pa.array([DAY, EARLIER, None], pa.timestamp("us")), s([], "M8[us]"), pa.timestamp("us")),
    "timestamp with zone": Case(
        pa.array([DAY, EARLIER, None], pa.timestamp("ms", "Europe/Berlin")), s([], "M8[ms]"), pa.timestamp("ms")
    ),
    "duration": Case(
        pa.array([dt.timedelta(1), dt.timedelta(-2), None], pa.duration("ns")), s([], "m8[ns]"), pa.duration("ns")
    ),
    "dictionary of string": Case(categories(pa.array(["a", "b"])), s([], str), TEXT),
    "dictionary of string_view": Case(categories(pa.array(["a", "b" * 40], pa.string_view())), s([], str), TEXT),
    "dictionary of int8": Case(categories(pa.array([7, 9], pa.int8())), s([], np.int8), pa.int8()),
    "run_end_encoded of int64": Case(runs(pa.array([7, 9])), s([], np.int64), pa.int64()),
    "run_end_encoded of string_view": Case(runs(pa.array(["a", "b" * 40], pa.string_view())), s([], str), TEXT),
    "list": Case(pa.array([[1, 2], [], [3]]), s([None], np.int64), pa.large_list(pa.int64())),
    "list_view": Case(
        pa.array([[1, 2], [], [3]], pa.list_view(pa.int32())), s([None], np.int32), pa.large_list(pa.int32())
    ),
    "list of string": Case(pa.array([["a", "b"], [], ["c"]]), s([None], str), pa.large_list(TEXT)),
    "list of list": Case(
        pa.array([[[1], [2, 3]], [], [[]]]), s([None, None], np.int64), pa.large_list(pa.large_list(pa.int64()))
    ),
    "fixed_size_list": Case(
        pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.uint8(), 2)), s([2], np.uint8), pa.list_(pa.uint8(), 2)
    ),
    "fixed_size_list of fixed_size_list": Case(
        pa.array(TENSORS.tolist(), pa.list_(pa.list_(pa.float32(), 2), 2)),
        s([2, 2], np.float32),
        pa.list_(pa.list_(pa.float32(), 2), 2),
    ),
    "list of fixed_size_list": Case(
        pa.array([[[1, 2]], [], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int32(), 2))),
        s([None, 2], np.int32),
        pa.large_list(pa.list_(pa.int32(), 2)),
    ),
    "fixed_shape_tensor": Case(
        pa.FixedShapeTensorArray.from_numpy_ndarray(TENSORS),
        s([2, 2], np.float32),
        pa.list_(pa.list_(pa.float32(), 2), 2),
    ),
    "uuid": Case(pa.array([TAGS.bytes] * 3, pa.uuid()), s([], bytes), BINARY),
    "json": Case(pa.array(['{"a": 1}', "2", "[]"], pa.json_(pa.string())), s([], str), TEXT),
}
UNSUPPORTED = {
    "decimal256(40, 2)": (pa.array([Decimal("1.5")], pa.decimal256(40, 2)), "takes the nearest"),
    "month_day_nano_interval": (pa.array([pa.MonthDayNano([1, 2, 3])]), "cast it to another type, or leave it out"),
    "dense_union": (
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        "cast it to another type, or leave it out",
    ),
    "opaque": (
        pa.ExtensionArray.from_storage(pa.opaque(pa.int8(), "x", "y"), pa.array([1], pa.int8())),
        "cast it to another type, or leave it out",
    ),
}


def expected(name: str, case: Case) -> list:
    """The values of a case as the type that they leave as has them."""
    array = case.array
    if name == "fixed_shape_tensor":
        return TENSORS.tolist()
    if name in ("null", "float64"):
        return [np.nan] * 3 if name == "null" else array.to_pylist()
    if name.startswith("decimal"):
        return [float(value) for value in array.to_pylist()]
    if name.startswith("time3") or name.startswith("time6"):
        whole = array.cast(pa.int32() if name == "time32" else pa.int64()).cast(pa.int64())
        return whole.cast(case.out).to_pylist()
    if name.startswith(("date64", "timestamp with")):
        return array.cast(case.out).to_pylist()
    if name == "uuid":
        return [TAGS.bytes] * 3
    if name == "bool8":
        return [True, False, True]
    return array.to_pylist()


@pytest.mark.parametrize("name", TYPES)
def test_a_type_comes_in_and_goes_out(name):
    case = TYPES[name]
    ds = D.from_arrow(pa.table({"c": case.array}))
    assert ds.element_spec == {"c": case.spec}
    out = pa.table(ds)
    assert out.schema.field("c").type == case.out
    assert len(out) == 3
    np.testing.assert_equal(out.column("c").to_pylist(), expected(name, case))
    again = D.from_arrow(out)
    assert again.element_spec == {"c": case.spec}
    for one, other in zip(ds, again, strict=True):
        np.testing.assert_equal(plain(one["c"]), plain(other["c"]))


def plain(value):
    return value.to_list() if isinstance(value, hr.Ragged) else value


@pytest.mark.parametrize("name", TYPES)
def test_a_slice_and_rows_by_number_are_the_same_rows(name):
    """Offsets, runs and dictionaries of arrays that begin in the middle."""
    table = pa.table({"c": TYPES[name].array})
    whole = [plain(row["c"]) for row in D.from_arrow(table)]
    part = D.from_arrow(table.slice(1))
    np.testing.assert_equal([plain(row["c"]) for row in part], whole[1:])
    np.testing.assert_equal([plain(part[i]["c"]) for i in (1, 0)], [whole[2], whole[1]])


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_type_is_an_error_with_column_type_and_remedy(name):
    array, remedy = UNSUPPORTED[name]
    with pytest.raises(hr.SpecError) as caught:
        D.from_arrow(pa.table({"price": array}))
    said = str(caught.value)
    assert "column 'price'" in said and str(array.type) in said and remedy in said


HAVE_NAN = ("date", "time", "float", "null", "dur", "dec")


@pytest.mark.parametrize("name", [name for name in TYPES if not name.startswith(HAVE_NAN)])
def test_a_null_that_numpy_cannot_hold_is_an_error_until_it_is_filled(name):
    kind = TYPES[name].array.type
    if pa.types.is_run_end_encoded(kind):
        array = runs(pa.array([None, None], kind.value_type))
    elif name == "fixed_shape_tensor" or isinstance(kind, pa.BaseExtensionType):
        array = pa.ExtensionArray.from_storage(kind, pa.nulls(3, kind.storage_type))
    else:
        array = pa.nulls(3, kind)
    with pytest.raises(hr.SpecError, match=r"column 'c' has a null in row 0.*nulls={column: value}"):
        D.from_arrow(pa.table({"c": array}))


class Grid(pa.ExtensionType):
    """Arrays of another library, stored as lists."""

    def __init__(self):
        super().__init__(pa.list_(pa.list_(pa.int16(), 2), 2), "tests.grid")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def test_an_extension_type_that_stores_lists_is_read_as_these():
    values = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    array = pa.ExtensionArray.from_storage(Grid(), pa.array(values, Grid().storage_type))
    ds = D.from_arrow(pa.table({"g": array}))
    assert ds.element_spec == {"g": s([2, 2], np.int16)}
    assert [row["g"].tolist() for row in ds] == values


def test_docs_have_the_same_table():
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", DOCS.read_text(), re.MULTILINE)
    shown = {name: (str(case.spec), str(case.out)) for name, case in TYPES.items()}
    assert {name: (spec, out) for name, spec, out in rows} == shown
