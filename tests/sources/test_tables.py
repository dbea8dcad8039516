"""Parquet and Arrow: files that say what is in them."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.tables import write_arrow as write_groups

import headrace as hr
from headrace.testing import check_transformation, outcomes, same

TABLE = pa.table(
    {
        "id": pa.array(range(20), pa.int32()),
        "name": [f"row {i}" for i in range(20)],
        "raw": pa.array([b"\0" * i for i in range(20)], pa.binary()),
        "tags": [list(range(i % 4)) for i in range(20)],
        "pair": pa.array([[i, i + 0.5] for i in range(20)], pa.list_(pa.float32(), 2)),
        "inner": [{"x": i, "y": str(i)} for i in range(20)],
        "kind": pa.array(["a", "b"] * 10).dictionary_encode(),
        "when": pa.array([i * 86_400_000 for i in range(20)], pa.timestamp("ms")),
    }
)


def row(i):
    return {
        "id": np.int32(i),
        "name": f"row {i}",
        "raw": b"\0" * i,
        "tags": np.arange(i % 4),
        "pair": np.array([i, i + 0.5], np.float32),
        "inner": {"x": np.int64(i), "y": str(i)},
        "kind": "ab"[i % 2],
        "when": np.datetime64(i * 86_400_000, "ms"),
    }


def write_parquet(path):
    pq.write_table(TABLE, path, row_group_size=6)


def write_arrow(path):
    feather.write_feather(TABLE, path, chunksize=6)


def write_stream(path):
    with pa.ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=6)


KINDS = {
    "parquet": (write_parquet, hr.ParquetDataset),
    "arrow": (write_arrow, hr.ArrowDataset),
    "arrow stream": (write_stream, hr.ArrowDataset),
}


@pytest.fixture(params=KINDS)
def tables(request, tmp_path):
    write, reader = KINDS[request.param]
    write(str(tmp_path / "a.table"))
    return lambda **options: reader(str(tmp_path / "*.table"), **options)


def test_rows_of_every_type(tables):
    ds = tables()
    got = list(ds)
    assert len(got) == 20
    assert all(same(g, row(i)) for i, g in enumerate(got))
    assert ds.element_spec["tags"] == hr.TensorSpec((None,), np.int64)
    assert ds.element_spec["pair"] == hr.TensorSpec((2,), np.float32)
    check_transformation(ds, cuts=8)


def test_some_columns(tables):
    got = list(tables(columns=["name", "id"]))
    assert got[3] == {"name": "row 3", "id": 3}
    with pytest.raises(hr.SpecError, match="no columns nope: there are"):
        tables(columns=["nope"])


def test_batches(tables):
    batch = next(iter(tables(columns=["id", "name"]).batch(7)))
    assert batch["id"].tolist() == list(range(7))


@pytest.mark.parametrize("kept", [[("id", ">", 15)], pc.field("id") > 15], ids=["conditions", "an expression"])
def test_rows_that_pass_a_filter(tmp_path, kept):
    write_parquet(str(tmp_path / "a.parquet"))
    ds = hr.ParquetDataset(str(tmp_path / "a.parquet"), columns=["name"], filter=kept)
    assert list(ds) == [{"name": f"row {i}"} for i in range(16, 20)]
    check_transformation(ds, cuts=8)


def test_files_in_turn(tmp_path):
    for i in range(3):
        pq.write_table(pa.table({"x": [10 * i, 10 * i + 1]}), tmp_path / f"{i}.parquet")
    ds = hr.ParquetDataset(str(tmp_path / "*.parquet"), num_parallel_reads=3)
    assert [int(r["x"]) for r in ds] == [0, 10, 20, 1, 11, 21]


def test_columns_are_what_they_are_in_memory(tmp_path):
    """Tables in files and tables in memory are read by the same rules."""
    days = [datetime.datetime(2026, 1, 1), None, datetime.datetime(2026, 1, 3)]
    table = pa.table(
        {
            "nested": pa.array([[[1, 2], [3]], [], [[4]]], pa.list_(pa.list_(pa.int32()))),
            "pairs": pa.array([[[1, 2]], [], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int8(), 2))),
            "words": [["a", "b"], [], ["c"]],
            "when": pa.array(days, pa.timestamp("us")),
            "day": pa.array(days, pa.date64()),
            "took": pa.array([1, None, 3], pa.duration("s")),
            "code": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    memory = hr.Dataset.from_arrow(table)
    for ds in (hr.ParquetDataset(str(tmp_path / "a.parquet")), hr.ArrowDataset(str(tmp_path / "a.arrow"))):
        fields = [name for name in table.column_names if ds.element_spec[name] == memory.element_spec[name]]
        assert set(table.column_names) - set(fields) <= {"day"}, "Parquet knows but one kind of day"
        for got, want in zip(ds, memory, strict=True):
            assert all(same(got[name], want[name]) for name in fields)
        check_transformation(ds, cuts=3)
    nested = next(iter(hr.ParquetDataset(str(tmp_path / "a.parquet"))))["nested"]
    assert isinstance(nested, hr.Ragged) and nested.to_list() == [[1, 2], [3]]


def test_a_column_of_a_type_that_numpy_lacks_says_what_to_do(tmp_path):
    pq.write_table(pa.table({"price": pa.array([None], pa.decimal128(38, 2)), "x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(hr.SpecError, match=r"column 'price' is of type decimal128.*cast={'price': np.float64} takes"):
        hr.ParquetDataset(str(tmp_path / "a.parquet"))
    assert list(hr.ParquetDataset(str(tmp_path / "a.parquet"), columns=["x"])) == [{"x": 1}]


def test_values_missing_within_lists(tmp_path):
    pairs = pa.array([[1, 2], [None, 4]], pa.list_(pa.int64(), 2))
    pq.write_table(pa.table({"x": [[1, None], [2]], "pair": pairs}), tmp_path / "a.parquet")
    path = str(tmp_path / "a.parquet")
    assert [kind for kind, _ in outcomes(iter(hr.ParquetDataset(path)))] == ["error", "error"]
    got = list(hr.ParquetDataset(path, nulls={"x": -1, "pair": 0}))
    assert [row["x"].tolist() for row in got] == [[1, -1], [2]]
    assert [row["pair"].tolist() for row in got] == [[1, 2], [0, 4]]


class TestMissingValues:
    @pytest.fixture
    def path(self, tmp_path):
        pq.write_table(pa.table({"x": [1, None, 3], "y": [0.5, None, 1.5]}), tmp_path / "a.parquet")
        return str(tmp_path / "a.parquet")

    def test_are_errors_in_their_places(self, path):
        got = outcomes(iter(hr.ParquetDataset(path)))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert "column 'x' has no value" in got[1][1]
        assert "row 1" in got[1][1]

    def test_or_what_the_user_says(self, path):
        got = list(hr.ParquetDataset(path, nulls={"x": -1}))
        assert [int(r["x"]) for r in got] == [1, -1, 3]
        assert np.isnan(got[1]["y"])

    def test_or_left_out(self, path):
        assert len(list(hr.ParquetDataset(path, on_error="skip"))) == 2


def test_a_file_of_other_columns_is_one_error(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["one"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": [3]}), tmp_path / "c.parquet")
    got = outcomes(iter(hr.ParquetDataset(str(tmp_path / "*.parquet"))))
    assert [kind for kind, _ in got] == ["value", "error", "value"]
    assert "those of the first file" in got[1][1]


def test_a_damaged_file_is_one_error(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 nonsense PAR1")
    got = outcomes(iter(hr.ParquetDataset(str(tmp_path / "*.parquet"))))
    assert [kind for kind, _ in got] == ["value", "error"]


def test_a_state_of_another_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path)
    it = iter(hr.ParquetDataset(str(path)))
    next(it)
    state = it.state()
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    with pytest.raises(hr.StateError):
        list(hr.ParquetDataset(str(path)).iterator(state=state))


def test_remote_tables():
    import fsspec

    system = fsspec.filesystem("memory")
    with system.open("/t/a.parquet", "wb") as file:
        pq.write_table(pa.table({"x": [1, 2]}), file)
    assert [int(r["x"]) for r in hr.ParquetDataset("memory://t/*.parquet")] == [1, 2]
    system.store.clear()


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (pa.table([[1], [2]], ["a", "a"]), {}, "more than one column is called 'a'"),
        (pa.table({"price": [1]}), {"columns": ["prize"]}, "did you mean 'price'"),
        (pa.table({"big": pa.array([1], pa.decimal128(30, 1))}), {}, "more digits"),
    ],
)
def test_what_is_wrong_with_columns_names_the_file(tmp_path, table, options, said):
    write_groups(table, tmp_path / "t.arrow", 3)
    with pytest.raises(Exception, match=f"ArrowDataset: .*t.arrow: .*{said}"):
        hr.ArrowDataset(tmp_path / "t.arrow", **options)


def test_no_column_is_blamed_for_a_file_that_was_cut_short(tmp_path):
    write_groups(pa.table({"x": np.arange(1000), "y": np.arange(1000)}), tmp_path / "t.arrow", 1000)
    whole = (tmp_path / "t.arrow").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(hr.ElementError, match="ends within a record batch") as caught:
        list(hr.ArrowDataset(tmp_path / "cut.arrow"))
    assert "exclude" not in str(caught.value)
