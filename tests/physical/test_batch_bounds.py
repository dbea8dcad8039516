"""Scans whose consumer makes batches: workers hand over whole ones, and nothing else changes."""

import json
import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import iterator
from headrace.columns.block import Block, FirstHalf, concat
from headrace.execute.pool import TINY_CUTS
from headrace.iterator import Epochs, Iterator, Settings
from headrace.physical import lower
from headrace.physical.batch_bounds import BatchBounds, BatchedBlocks
from headrace.physical.cuts import CutSize
from headrace.physical.lower import scans
from headrace.physical.scan import CutMorsel
from headrace.plan.marks import Mark
from headrace.plan.structure import LEAF, tuple_of
from headrace.testing import check_transformation, outcomes
from tests.physical.test_scan import KINDS, sources  # noqa: F401 - a fixture

SERIAL, TINY = Settings(optimise=False), Settings(tiny_cuts=True)
GROUP_ROWS = 7
ROWS = 150


def passing(ds, settings=TINY, state=None):
    return Iterator(ds._node, Epochs(), settings, state)


@pytest.fixture
def parquet(tmp_path):
    for i in range(3):
        number = np.arange(i * ROWS, (i + 1) * ROWS)
        table = pa.table({"x": number, **{f"y{j}": number + 0.5 for j in range(8)}})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=GROUP_ROWS)
    return hr.ParquetDataset(str(tmp_path / "*.parquet"))


def block(first, rows, width=1):
    columns = [np.arange(first, first + rows) for _ in range(width)]
    return Block(tuple_of([LEAF] * width), columns, rows, Mark(0, first, first))


def rows_of(blocks):
    return [each.columns[0].tolist() for each in blocks]


def test_the_first_row_of_a_cut_is_known_once_the_rows_of_all_before_it_are():
    bounds = BatchBounds(4)
    assert [bounds.add(rows) for rows in (10, None, 5)] == [0, 1, 2]
    assert [bounds.first_row(i) for i in range(3)] == [None, None, None]
    bounds.begin(100)
    assert [bounds.first_row(i) for i in range(3)] == [100, 110, None]
    assert bounds.next_row() is None
    bounds.count(1, 3)
    assert bounds.first_row(2) == 113
    assert bounds.next_row() == 118


@pytest.mark.parametrize(
    ("passed", "usual", "rows"),
    [(0, 10, 8), (0, 2, 4), (1, 2, 3), (3, 2, 5), (3, 9, 9), (6, 4, 2 + 4), (5, 3, 3), (0, 1, 4)],
)
def test_requests_end_where_batches_do(passed, usual, rows):
    bounds = BatchBounds(4)
    assert bounds.request(bounds.add(None), passed, usual) == usual, "the ordinal of its first row is not known yet"
    bounds.begin(100)
    assert bounds.request(0, passed, usual) == rows
    assert (100 + passed + rows) % 4 == 0


def test_batches_far_larger_than_usual_requests_are_not_waited_for():
    bounds = BatchBounds(1000)
    bounds.add(None)
    bounds.begin(0)
    assert bounds.request(0, 0, 16) == 16


@pytest.mark.parametrize("width", [1, 9])
def test_blocks_of_a_cut_are_regrouped_to_whole_batches(width):
    bounds = BatchBounds(4)
    bounds.begin(6)
    batches = BatchedBlocks(bounds, bounds.add(None))
    batches.add(block(6, 5, width))
    assert rows_of(batches.take(done=False)) == [[6, 7]]  # the end of a batch; the next one is not whole yet
    batches.add(block(11, 7, width))
    (whole,) = batches.take(done=False)
    assert rows_of([whole]) == [[*range(8, 16)]]
    assert whole.mark.ordinal == 8
    batches.add(block(18, 1, width))
    assert rows_of(batches.take(done=True)) == [[16, 17, 18]]


def test_of_large_blocks_only_the_batches_across_two_are_joined():
    bounds = BatchBounds(4)
    bounds.begin(0)
    batches = BatchedBlocks(bounds, bounds.add(40))
    large = block(0, 18), block(18, 19), block(37, 3)
    for each in large:
        batches.add(each)
    made = batches.take(done=True)
    assert rows_of(made) == [[*range(16)], [*range(16, 20)], [*range(20, 36)], [*range(36, 40)]]
    assert [np.shares_memory(made[i].columns[0], large[j].columns[0]) for i, j in ((0, 0), (1, 0), (2, 1))] == [
        True,
        False,
        True,
    ]


def test_blocks_of_a_cut_whose_first_row_is_unknown_are_handed_over_as_they_are():
    bounds = BatchBounds(4)
    batches = BatchedBlocks(bounds, bounds.add(None))
    batches.add(block(0, 5))
    batches.add(block(5, 3))
    assert rows_of(batches.take(done=False)) == [[*range(5)], [5, 6, 7]]


def test_blocks_of_different_structure_are_not_joined():
    bounds = BatchBounds(4)
    bounds.begin(0)
    batches = BatchedBlocks(bounds, bounds.add(8))
    batches.add(block(0, 3))
    batches.add(block(3, 5, width=2))
    assert rows_of(batches.take(done=True)) == [[0, 1, 2], [*range(3, 8)]]


@pytest.mark.parametrize("second_first", [False, True])
def test_a_batch_across_two_cuts_is_joined_by_the_worker_that_comes_second(second_first):
    bounds = BatchBounds(4)
    bounds.begin(0)
    cuts = [BatchedBlocks(bounds, bounds.add(rows)) for rows in (6, 6)]
    cuts[0].add(block(0, 6, 9))
    cuts[1].add(block(6, 6, 9))
    order = (1, 0) if second_first else (0, 1)
    made = {i: cuts[i].take(done=True) for i in order}
    first, second = made[0][-1], made[1][0]
    assert isinstance(first, FirstHalf)
    assert first.second is second
    joined = concat([first, second])
    assert joined.columns is first.joined
    assert [column.tolist() for column in joined.columns] == [[4, 5, 6, 7]] * 9
    assert joined.mark.ordinal == 4
    assert concat([first, second.slice(0, 2)]).columns[0].tolist() == [4, 5, 6, 7]
    assert concat([first, block(9, 1, 9)]).columns[0].tolist() == [4, 5, 9]


def test_workers_hand_over_whole_batches(parquet, monkeypatch):
    made, step = [], CutMorsel.step

    def watched(morsel):
        items, nbytes, done = step(morsel)
        made.extend((item.mark.ordinal, item.rows) for item in items)
        return items, nbytes, done

    monkeypatch.setattr(CutMorsel, "step", watched)
    ds = parquet.batch(4)
    assert np.concatenate([batch["x"] for batch in passing(ds)]).tolist() == [*range(3 * ROWS)]
    sizes = [rows for _, rows in made]
    assert sum(sizes) == 3 * ROWS
    assert sum(rows % 4 == 0 for rows in sizes) >= len(sizes) // 3  # others are the ends of groups


@pytest.mark.parametrize("kind", ["lines", "csv", "jsonl", "tfrecord", "fixed", "memory"])
def test_sources_are_cut_between_batches(sources, kind, monkeypatch):  # noqa: F811
    found, finish = [], CutMorsel._finish

    def watched(morsel):
        finish(morsel)
        found.append((morsel._number, morsel.rows[min(morsel.rows)]))

    monkeypatch.setattr(CutMorsel, "_finish", watched)
    monkeypatch.setattr(CutSize, "learn", lambda *_: None)
    monkeypatch.setattr(iterator, "TINY_CUTS", replace(TINY_CUTS, first_cut_bytes=64, first_cut_rows=8))
    assert len(list(passing(sources[kind].batch(2)))) == 60
    rows = [count for _, count in sorted(found)]
    assert sum(rows) == 120
    assert sum(count % 2 == 0 for count in rows) >= 0.6 * len(rows)  # not the first ones, and the last of each file


def unaligned(monkeypatch):
    monkeypatch.setattr(lower, "_batch_size", lambda plan, given: 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 10])
def test_batches_of_every_format_keep_every_promise(sources, kind, size):  # noqa: F811
    check_transformation(sources[kind].batch(size), cuts=4)


@pytest.mark.parametrize("kind", ["lines", "csv", "parquet", "memory", "lines-gzip"])
def test_a_state_of_a_scan_in_batches_is_one_of_any_other(sources, kind, monkeypatch):  # noqa: F811
    ds = sources[kind].batch(7)
    expected = list(map(str, passing(ds, SERIAL)))

    def states():
        it, found = passing(ds), []
        for _ in range(random.Random(kind).randrange(1, len(expected))):
            next(it)
            found.append(json.loads(json.dumps(it.state())))
        it.close()
        return found

    whole = states()
    for number, state in enumerate(whole, 1):
        assert list(map(str, passing(ds, SERIAL, state))) == expected[number:]
    unaligned(monkeypatch)
    for number, state in enumerate(whole, 1):
        assert list(map(str, passing(ds, TINY, state))) == expected[number:]
    others = states()
    monkeypatch.undo()
    for number, state in enumerate(others, 1):
        assert list(map(str, passing(ds, TINY, state))) == expected[number:]


def test_errors_are_met_in_their_places(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{i},{'x' if i in (5, 29, 30) else i}\n" for i in range(60)))
    ds = hr.CsvDataset(str(path), [np.int64, np.int64]).batch(8)
    assert str(outcomes(passing(ds))) == str(outcomes(passing(ds, SERIAL)))


def test_only_scans_directly_below_a_batch_know_its_size(parquet):
    def sizes(ds):
        return [scan.batch_size for scan in scans(lower.lower_pass(ds._node, 2))]

    assert sizes(parquet.batch(4)) == [4]
    assert sizes(parquet.map(lambda row: row["x"]).padded_batch(5)) == [5]
    assert sizes(parquet.prefetch(2).batch(4)) == [4]
    assert sizes(parquet.batch(1)) == [0]
    assert sizes(parquet.filter(lambda row: row["x"] > 3).batch(4)) == [0]
    assert sizes(parquet.skip(1).batch(4)) == [0]
    assert sizes(parquet.shuffle(10, seed=1).batch(4)) == [0]


def test_explain_names_the_batches(parquet):
    with_threads = parquet.batch(4096).with_options(hr.Options(cpu_budget=2))
    assert "on up to 2 threads, in whole batches of 4,096" in with_threads.explain()
