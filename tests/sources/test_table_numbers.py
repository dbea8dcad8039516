"""Parquet and Arrow files know how many rows they have, and give any of them by its number."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables import damage_group, write_arrow, write_parquet, write_stream

import headrace as hr
from headrace.formats.tables import group_cache
from headrace.formats.tables.groups import ArrowGroups, ParquetGroups
from headrace.ops.shuffle.scanned_rows import ScannedRows
from headrace.testing import check_transformation, difference, outcomes

KINDS = {
    "parquet": (write_parquet, hr.ParquetDataset, ParquetGroups),
    "arrow": (write_arrow, hr.ArrowDataset, ArrowGroups),
    "stream": (write_stream, hr.ArrowDataset, ArrowGroups),
}


def table(start, stop):
    numbers = np.arange(start, stop)
    return pa.table({"x": numbers, "s": [f"row {i}" for i in numbers], "l": [[i] * (i % 3) for i in numbers]})


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def files(kind, tmp_path):
    """Rows 0 to 999 in three files, 70 a group."""
    for i, (start, stop) in enumerate([(0, 400), (400, 405), (405, 1000)]):
        kind[0](table(start, stop), tmp_path / f"{i}.t", 70)
    return str(tmp_path / "*.t")


@pytest.fixture
def decoded(kind, monkeypatch):
    """The groups that were decoded so far."""
    seen, batches = [], kind[2].batches

    def watched(self, group):
        seen.append(group)
        return batches(self, group)

    monkeypatch.setattr(kind[2], "batches", watched)
    return seen


def numbers(rows):
    return [int(row["x"]) for row in rows]


def test_the_length_is_known_and_nothing_decoded_for_it(files, kind, decoded):
    ds = kind[1](files)
    assert len(ds) == ds.count() == 1000
    assert len(ds.batch(7)) == 143
    assert len(kind[1](files, num_parallel_reads=2)) == 1000
    assert not decoded


def test_rows_by_number(files, kind, decoded):
    ds = kind[1](files)
    for i in (0, 69, 70, 399, 402, 405, 999, -1, -1000):
        assert ds[i]["x"] == i % 1000 and ds[i]["s"] == f"row {i % 1000}"
    assert numbers(ds[395:410]) == list(range(395, 410))
    assert numbers(ds[990:300:-97]) == list(range(990, 300, -97))
    with pytest.raises(IndexError):
        ds[1000]
    decoded.clear()
    assert ds[500]["l"].tolist() == [500, 500]
    assert decoded == [1], "the second group of the third file, and no other"


def test_a_slice_decodes_each_group_once(files, kind, decoded):
    assert numbers(kind[1](files)[400:]) == list(range(400, 1000))
    assert len(decoded) == 1 + 9


def test_skip_passes_over_groups(files, kind, decoded):
    assert numbers(kind[1](files).skip(995)) == list(range(995, 1000))
    assert len(decoded) == 1


def test_a_shuffle_of_everything(files, kind):
    ds = kind[1](files).shuffle(seed=3)
    got = numbers(ds)
    assert sorted(got) == list(range(1000)) and got != sorted(got)
    near = np.abs(np.diff(got)).mean()
    assert near > 250, "rows of all files and groups stand side by side"
    check_transformation(ds.batch(30), cuts=5)


@pytest.mark.parametrize(("window", "scans"), [("auto", 1), (500, 2), (1000, 1)])
def test_a_shuffle_of_everything_scans_once_for_each_window(files, kind, decoded, window, scans):
    ds = kind[1](files, columns=["x"]).shuffle(seed=3, window=window).batch(10)
    assert sorted(x for batch in ds for x in batch["x"].tolist()) == list(range(1000))
    assert len(decoded) == 16 * scans


def test_a_shuffle_of_everything_fetches_rows_of_a_small_window(files, kind, decoded, monkeypatch):
    """Each window decodes the groups it needs; none is kept."""
    monkeypatch.setattr(group_cache, "BUDGET_FRACTION", 1 << 60)
    ds = kind[1](files, columns=["x"]).shuffle(seed=3, window=5).batch(5)
    assert [len(batch["x"]) for batch in ds.take(1)] == [5]
    assert len(decoded) <= 5


def wide_table(rows):
    """Columns that are packed together, text, lists, and an array in each row."""
    numbers = np.arange(rows)
    packed = {f"c{i}": (numbers * (i + 3)).astype(dtype) for i, dtype in enumerate(["f4", "i8", "u1", "i2"] * 4)}
    arrays = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(rows * 3.0)), 3)
    return pa.table({**packed, "a": arrays, **{n: table(0, rows)[n] for n in ("x", "s", "l")}})


@pytest.mark.parametrize("damaged", [False, True])
def test_rows_scanned_are_those_fetched_by_number(tmp_path, damaged):
    """In any window and after any number of rows, with the same random numbers and the same errors."""
    path = tmp_path / "a.parquet"
    write_parquet(wide_table(600), path, 50)
    if damaged:
        damage_group(path, 3)

    def rows(window, skip=0):
        ds = hr.ParquetDataset(path).shuffle(seed=5, window=window).skip(skip)
        return outcomes(iter(ds.random_map(lambda row, rng: {**row, "r": rng.integers(1 << 30)}, seed=2)))

    fetched = rows(7)
    assert sum(what == "error" for what, _ in fetched) == 50 * damaged
    for window in (600, 599, 100, "auto"):
        assert difference(rows(window), fetched) is None
    assert difference(rows("auto", skip=450), fetched[450:]) is None
    check_transformation(hr.ParquetDataset(path).shuffle(seed=5).repeat(2).batch(7), cuts=4)


def test_groups_are_kept_for_the_next_rows(files, kind, decoded):
    ds = kind[1](files).batch(1).map(lambda row: row["x"])
    assert sorted(int(x[0]) for x in ds.shuffle(seed=3)) == list(range(1000))
    assert len(decoded) == 16


def test_a_shuffle_with_a_buffer_reads_once(files, kind, decoded):
    for ds in (kind[1](files).shuffle(200, seed=1), kind[1](files).shuffle(hr.AUTOTUNE, seed=1)):
        decoded.clear()
        assert sorted(numbers(ds)) == list(range(1000))
        assert len(decoded) == 16


def test_every_promise_is_kept(files, kind):
    ds = kind[1](files)
    check_transformation(ds, cuts=6)
    check_transformation(ds.shuffle(50, seed=1).repeat(2).skip(100).take(300), cuts=6)
    check_transformation(ds.map(lambda r: r["x"] * 2).shuffle(seed=2).batch(64), cuts=6)
    check_transformation(ds.shard(3, 1)[5:60], cuts=6)


def test_a_state_does_not_depend_on_who_counts(files, kind):
    """With and without an index, in one order or the other."""
    for first, second in ((True, False), (False, True)):
        it = iter(kind[1](files, index=first).ragged_batch(7))
        for _ in range(20):
            next(it)
        again = kind[1](files, index=second).ragged_batch(7).iterator(state=it.state())
        assert [b["x"].tolist() for b in again] == [b["x"].tolist() for b in it]


@pytest.mark.parametrize("options", [{"index": False}, {"on_error": "skip"}, {"num_parallel_reads": 2}])
def test_where_rows_have_no_numbers(files, kind, options):
    ds = kind[1](files, **options)
    with pytest.raises(hr.NotIndexableError):
        ds[0]
    assert len(numbers(ds)) == 1000


def test_under_a_filter_it_is_unknown(tmp_path):
    write_parquet(table(0, 100), tmp_path / "a")
    ds = hr.ParquetDataset(tmp_path / "a", filter=[("x", ">", 50)])
    assert ds.cardinality() == hr.UNKNOWN_CARDINALITY
    with pytest.raises(hr.NotIndexableError):
        ds[0]
    with pytest.raises(ValueError, match="filter"):
        hr.ParquetDataset(tmp_path / "a", filter=[("x", ">", 50)], index=True)
    with pytest.raises(ValueError, match="index must be"):
        hr.ParquetDataset(tmp_path / "a", index="yes")


def test_files_that_cannot_be_read_count_as_their_errors(files, kind, tmp_path):
    (tmp_path / "1.t").write_bytes(b"nonsense")
    kind[0](pa.table({"other": [1, 2]}), tmp_path / "3.t")
    damaged = kind[1](files)
    assert len(damaged) == 400 + 1 + 595 + 1
    got = outcomes(iter(damaged))
    assert [i for i, (what, _) in enumerate(got) if what == "error"] == [400, 996]
    for number in (400, 996):
        with pytest.raises(hr.ElementError):
            damaged[number]
    check_transformation(damaged, cuts=5)
    check_transformation(damaged.shuffle(seed=1), cuts=5)


def test_a_file_that_changes_is_not_taken_for_what_it_was(files, kind, tmp_path):
    ds = kind[1](files)
    assert len(ds) == 1000
    kind[0](table(0, 10), tmp_path / "0.t")
    with pytest.raises(hr.HeadraceError, match="has changed since its rows were counted"):
        ds[5]
    with pytest.raises(hr.HeadraceError, match="has changed since its rows were counted"):
        list(ds.shuffle())


def test_a_file_that_changes_during_a_scan_is_noticed(files, kind, tmp_path, monkeypatch):
    place = ScannedRows._place

    def change(self, block, rows):
        kind[0](table(0, 400), tmp_path / "0.t", 71)
        return place(self, block, rows)

    monkeypatch.setattr(ScannedRows, "_place", change)
    with pytest.raises(hr.HeadraceError, match="changed since"):
        list(kind[1](files).shuffle())


def test_rows_that_fail_among_others(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(table(0, 1000), path, 100)
    damage_group(path, 3)
    ds = hr.ParquetDataset(path).shuffle(seed=1)
    got = outcomes(iter(ds))
    assert len(got) == 1000 and sum(kind == "error" for kind, _ in got) == 100
    check_transformation(ds.map(lambda row: row["x"]), cuts=4)


def test_remote_files():
    import fsspec

    system = fsspec.filesystem("memory")
    for i in range(3):
        with system.open(f"/n/{i}.parquet", "wb") as file:
            pq.write_table(table(10 * i, 10 * i + 10), file, row_group_size=3)
    ds = hr.ParquetDataset("memory://n/*.parquet")
    assert len(ds) == 30 and ds[17]["x"] == 17
    assert sorted(numbers(ds.shuffle())) == list(range(30))
    system.store.clear()


def test_no_columns_at_all(tmp_path, kind):
    kind[0](table(0, 10), tmp_path / "a", 4)
    ds = kind[1](tmp_path / "a", columns=[])
    assert list(ds) == [{}] * 10 and len(ds) == 10 and ds[3] == {}
