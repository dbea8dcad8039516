"""Operations that do not know how many rows they need, after functions whose calls can be observed."""

import numpy as np
import pytest

import headrace as hr
from headrace import reference
from headrace.testing import check_transformation

D = hr.Dataset
ROWS = 120
LENGTHS = np.random.default_rng(3).integers(1, 9, ROWS)
SEQUENCES = hr.Ragged.from_rows([np.full(n, i) for i, n in enumerate(LENGTHS)])
ROW = hr.TensorSpec((None,), np.int64)


class Calls:
    """Counts the calls of functions that cannot be traced."""

    def __init__(self):
        self.count = 0

    def keeps(self, row):
        self.count += 1
        return int(row[0]) % 7 != 2

    def same(self, row):
        self.count += 1
        return row

    def generate(self):
        for row in SEQUENCES:
            self.count += 1
            yield row

    def keeps_some(self, row):
        self.count += 1
        if int(row[0]) % 17 == 5:
            raise ValueError("a row that fails")
        return True


def sequences():
    return D.from_tensor_slices(SEQUENCES)


def generated(calls):
    return D.from_generator(calls.generate, output_signature=ROW)


def length(row):
    if len(row) == 7:
        raise ValueError("no key")
    return len(row) % 3


def bucketed(ds):
    return ds.bucket_by_sequence_length(len, [3, 6], [8, 8, 8])


def grouped(ds):
    return ds.group_by_window(lambda row: len(row) % 3, lambda _, rows: rows.padded_batch(8), 8)


def chosen(ds):
    return D.choose_from_datasets([ds, sequences().take(20)], D.range(3).map(lambda x: x // 2).repeat())


AFTER = {
    "bucket_by_sequence_length": bucketed,
    "group_by_window": grouped,
    "group_by_window whose key fails": lambda ds: ds.group_by_window(length, lambda _, rows: rows.padded_batch(8), 8),
    "shuffle and bucket": lambda ds: bucketed(ds.shuffle(16, seed=5)),
    "a traced map and bucket": lambda ds: bucketed(ds.map(lambda row: row + 1)),
    "a traced filter and bucket": lambda ds: bucketed(ds.filter(lambda row: row[0] % 2 == 0)),
    "take and bucket": lambda ds: bucketed(ds.take(50)),
    "unbatch and group": lambda ds: ds.padded_batch(4).unbatch().group_by_window(lambda row: row[0] % 2, first, 8),
    "take_while": lambda ds: ds.take_while(lambda row: row[0] < 80),
    "take_while and bucket": lambda ds: bucketed(ds.take_while(lambda row: row[0] < 80)),
    "pack": lambda ds: ds.pack(24),
    "choose_from_datasets": chosen,
    "choose_from_datasets and batch": lambda ds: chosen(ds).padded_batch(4),
}


def first(_, rows):
    return rows.map(lambda row: row[0]).batch(8)


BEFORE = {
    "filter": lambda calls: sequences().filter(calls.keeps),
    "a filter that fails": lambda calls: sequences().filter(calls.keeps_some),
    "map": lambda calls: sequences().map(calls.same, output_signature=ROW),
    "from_generator": generated,
    "two functions": lambda calls: generated(calls).map(calls.same, output_signature=ROW).filter(calls.keeps),
}

PIPELINES = [(before, after) for before in BEFORE for after in AFTER]


def calls_at_each_element(calls, elements):
    """How many calls had been made when each element came."""
    found = []
    while True:
        try:
            next(elements)
        except StopIteration:
            return [*found, calls.count]
        except hr.ElementError:
            pass
        found.append(calls.count)


@pytest.mark.parametrize(("before", "after"), PIPELINES)
def test_no_function_is_called_before_its_row_is_needed(before, after):
    ours, naive = Calls(), Calls()
    made = AFTER[after](BEFORE[before](ours)).with_options(hr.Options(inject_prefetch=False))
    got = calls_at_each_element(ours, iter(made))
    assert got == calls_at_each_element(naive, reference.run(AFTER[after](BEFORE[before](naive))._node, 0))


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", ["a filter that fails", "two functions"])
def test_rows_errors_and_states_are_those_of_rows_made_one_by_one(before, after):
    check_transformation(AFTER[after](BEFORE[before](Calls())), cuts=5, epochs=1)


@pytest.mark.parametrize("before", ["filter", "map", "from_generator"])
@pytest.mark.parametrize("after", ["bucket_by_sequence_length", "group_by_window", "shuffle and bucket", "take_while"])
def test_rows_come_in_blocks(before, after):
    ds = AFTER[after](BEFORE[before](Calls()))
    if after == "take_while":
        ds = ds.padded_batch(8)
    with iter(ds) as it:
        list(it)
        stages = {stage["stage"].partition("(")[0]: stage for stage in it.stats()["stages"]}
    stage = stages[before]
    assert stage["blocks"] <= stage["rows"] / 3
