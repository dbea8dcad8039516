"""Sources of Arrow batches that come by parts: marks, layouts, faults."""

import json

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.testing import check_transformation

D = hr.Dataset


class Table(hr.BatchSource):
    """Rows of a table in parts and batches of some sizes; it fails once at each requested position."""

    def __init__(self, sizes=(7, 0, 5), batch=3, turns=None, key=None, fails=(), lasting=False, table=None, layout=""):
        rows = sum(sizes)
        self.table = table or pa.table({"id": [2 * i + 1 for i in range(rows)], "s": [str(i) for i in range(rows)]})
        self.schema = self.table.schema
        self.sizes, self.batch, self.turns, self.key = sizes, batch, turns, key
        self.parts = len(sizes)
        self.start = 0 if key is None else ""
        self.fails, self.lasting = list(fails), lasting
        self.opened = []
        self.layout = layout

    def open(self, part, mark):
        self.opened.append((part, mark))
        first = sum(self.sizes[:part])
        rows = self.table.slice(first, self.sizes[part])
        if self.key is None:
            rows = rows.slice(mark)
        elif mark:
            rows = rows.filter(pa.compute.field(self.key) > int(mark))
        for batch in rows.to_batches(max_chunksize=self.batch):
            yield batch
            if self.fails and self.fails.pop(0):
                raise ValueError("the line is dead") if self.lasting else ConnectionResetError("sesame")

    def mark_after(self, mark, batch):
        return super().mark_after(mark, batch) if self.key is None else str(batch[self.key][-1].as_py())

    def is_passing(self, error):
        return not self.lasting

    def hide(self, text):
        return text.replace("sesame", "…")

    def __str__(self):
        return f"table of {self.sizes}"


def ids(ds):
    return [int(row["id"]) for row in ds]


ALL = [2 * i + 1 for i in range(12)]


@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("turns", [None, 1, 2, 5])
def test_a_source_keeps_every_promise(key, turns):
    check_transformation(D.from_batches(Table(turns=turns, key=key)).batch(2), epochs=1)


def test_many_parts_that_take_turns_are_resumed_anywhere():
    source = Table(sizes=(9000, 20000, 5000, 1), batch=7000, turns=2)
    ds = D.from_batches(source)
    want = ids(ds)
    assert sorted(want) == [2 * i + 1 for i in range(34001)]
    assert want != sorted(want)
    for cut in (1, 4095, 4096, 8193, 20000, 34000, 34001):
        with ds.iterator() as it:
            for _ in range(cut):
                next(it)
            state = json.loads(json.dumps(it.state()))
        assert (
            ids(D.from_batches(Table(sizes=(9000, 20000, 5000, 1), batch=7000, turns=2)).iterator(state)) == want[cut:]
        )


def test_a_resume_opens_the_source_at_its_mark():
    ds = D.from_batches(Table(sizes=(40_000,), batch=20_000))
    with ds.iterator() as it:
        for _ in range(25_000):
            next(it)
        state = it.state()
    again = Table(sizes=(40_000,), batch=20_000)
    with D.from_batches(again).iterator(state) as it:
        assert next(it)["id"] == 50_001
    ((part, mark),) = again.opened
    assert part == 0
    assert 25_000 - 8192 < mark <= 25_000


@pytest.mark.parametrize("key", [None, "id"])
def test_a_fault_that_passes_is_not_seen(key):
    source = Table(sizes=(7, 5), fails=[1, 0, 1, 1], key=key)
    ds = D.from_batches(source).with_options(hr.Options(retries=1))
    assert ids(ds) == ALL
    assert len(source.opened) > 3


def test_a_fault_that_stays_is_raised_and_keeps_the_place():
    source = Table(sizes=(12,), fails=[1, 1, 0, 1])
    ds = D.from_batches(source).ignore_errors().with_options(hr.Options(retries=0))
    it = iter(ds)
    got = []
    faults = 0
    while True:
        try:
            got.append(int(next(it)["id"]))
        except StopIteration:
            break
        except hr.TransportError as error:
            faults += 1
            assert "sesame" not in str(error)
            assert "table of (12,)" in str(error)
            state, given = it.state(), len(got)
    assert got == ALL
    assert faults == 3
    assert ids(ds.iterator(state)) == ALL[given:]


def test_a_fault_that_lasts_is_not_tried_again():
    source = Table(sizes=(12,), fails=[1], lasting=True)
    it = iter(D.from_batches(source))
    with pytest.raises(hr.TransportError, match="the line is dead"):
        list(it)
    assert len(source.opened) == 1


def test_another_layout_is_refused():
    def made(layout):
        return D.from_batches(Table(sizes=(12,), layout=layout))

    with made("three parts").iterator() as it:
        next(it)
        state = it.state()
    assert ids(made("three parts").iterator(state)) == ALL[1:]
    with pytest.raises(hr.StateError, match="laid out otherwise"):
        list(made("four parts").iterator(state))


def test_a_missing_value_costs_its_row(run):
    table = pa.table({"id": [1, 3, None, 7]})
    ds = D.from_batches(Table(sizes=(4,), table=table))
    assert ids(run(ds.ignore_errors())) == [1, 3, 7]
    with pytest.raises(hr.ElementError, match=r"nulls=\{'id'"):
        run(ds)


def test_types_are_those_of_tables():
    table = pa.table({"f": [1.5, None], "l": [[1], [2, 3]], "t": pa.array([0, 1], pa.timestamp("us", "UTC"))})
    first, second = D.from_batches(Table(sizes=(2,), table=table))
    assert np.isnan(second["f"])
    assert second["l"].tolist() == [2, 3]
    assert first["t"] == np.datetime64(0, "us")


def test_closing_in_the_middle_closes_the_source():
    closed = []

    class Endless(hr.BatchSource):
        schema = pa.schema({"x": pa.int64()})

        def open(self, part, mark):
            try:
                while True:
                    yield pa.record_batch({"x": [mark]})
            finally:
                closed.append(part)

    with D.from_batches(Endless()).iterator() as it:
        next(it)
    assert closed == [0]
