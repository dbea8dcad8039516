"""Packed rows in the buffer of a shuffle: the same rows in the same order as column by column."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.columns.block import Block
from headrace.ops.shared import batching
from headrace.ops.shuffle import shuffle_buffer as slots_module
from headrace.ops.shuffle.shuffle_buffer import MAX_PACKED_BYTES, MIN_PACKED_COLUMNS, Slots
from headrace.plan.structure import LEAF, tuple_of
from headrace.testing import check_transformation, difference, outcomes, reference_outcomes

D = hr.Dataset

DTYPES = [
    "?",
    "i1",
    "u2",
    "f2",
    "i4",
    "f4",
    "i8",
    "f8",
    "M8[ns]",
    "m8[s]",
    "c8",
    "c16",
    ">i4",
    [("a", "u1"), ("b", "f4")],
]
SHAPES = [(), (), (), (3,), (2, 2), (0,), (1,)]

columns_like = st.lists(st.tuples(st.sampled_from(DTYPES), st.sampled_from(SHAPES)), min_size=1, max_size=24)


@pytest.fixture(autouse=True, params=[1, 3], ids=["one thread", "three threads"])
def team(request):
    _native.set_team(request.param)
    yield
    _native.set_team(1)


def columns_of(like, rows, start=0):
    """Columns of any bytes, of which no two rows are alike."""
    made = []
    for number, (dtype, shape) in enumerate(like):
        kind = np.dtype(dtype)
        size = kind.itemsize * int(np.prod(shape))
        values = np.arange(start * size, (start + rows) * size, dtype=np.int64) * 31 + number * 7
        values = values % 2 if kind.kind == "b" else values % 251
        made.append(values.astype(np.uint8).view(kind).reshape(rows, *shape))
    return made


def row_bytes(columns):
    return sum(c.dtype.itemsize * int(np.prod(c.shape[1:])) for c in columns)


def packed(columns):
    rows = [c.view(np.uint8).reshape(len(c), -1) if c.size else np.empty((len(c), 0), np.uint8) for c in columns]
    return np.concatenate(rows, axis=1)


def same(one, other):
    return [(c.dtype, c.shape, c.tobytes()) for c in one] == [(c.dtype, c.shape, c.tobytes()) for c in other]


def empty_like(columns, rows):
    return [np.empty((rows, *c.shape[1:]), c.dtype) for c in columns]


@settings(max_examples=100, deadline=None)
@given(columns_like, st.sampled_from([1, 2, 3, 5, 63, 64, 65, 200, 4000]))
def test_columns_are_packed_and_unpacked_as_numpy_does(like, rows):
    columns = columns_of(like, rows)
    made = np.empty((rows, row_bytes(columns)), np.uint8)
    _native.pack_columns(columns, made)
    assert (made == packed(columns)).all()
    back = empty_like(columns, rows)
    _native.unpack_columns(made, back)
    assert same(back, columns)


@settings(max_examples=60, deadline=None)
@given(columns_like, st.integers(1, 300), st.sampled_from([0, 1, 3, 64, 100, 9000]), st.integers(0, 2**32))
def test_packed_rows_are_gathered_in_any_order(like, rows, count, seed):
    columns = columns_of(like, rows)
    numbers = np.random.default_rng(seed).integers(0, rows, count)
    out = empty_like(columns, count)
    _native.gather_columns(packed(columns), numbers, out)
    assert same(out, [c[numbers] for c in columns])


def test_large_packed_rows_are_gathered():
    columns = [np.arange(5 * 9000, dtype=np.int64).reshape(5, 9000), np.arange(5.0)]
    out = empty_like(columns, 3)
    _native.gather_columns(packed(columns), np.array([4, 0, 4]), out)
    assert same(out, [c[[4, 0, 4]] for c in columns])


def test_no_row_is_gathered_that_is_not_there():
    for number in (-1, 3):
        with pytest.raises(ValueError, match="no such row"):
            _native.gather_columns(np.zeros((3, 8), np.uint8), np.array([number]), [np.empty(1)])


@settings(max_examples=60, deadline=None)
@given(columns_like, st.integers(1, 300), st.sampled_from([1, 3, 64, 100, 300, 9000]), st.integers(0, 2**32))
def test_packed_rows_move_as_each_column_does(like, capacity, count, seed):
    random = np.random.default_rng(seed)
    held, incoming = columns_of(like, capacity), columns_of(like, count, capacity)
    draws, hole = random.integers(0, capacity, count), int(random.integers(capacity))
    rows, alone = packed(held), [packed([c]) for c in held]
    out, wanted = empty_like(incoming, count), empty_like(incoming, count)
    assert _native.shuffle_exchange(rows, hole, incoming, draws, out) == draws[-1]
    for slots, new, given_out in zip(alone, incoming, wanted, strict=True):
        _native.shuffle_exchange(slots, hole, [new], draws, [given_out])
    assert same(out, wanted)
    assert (rows == np.concatenate(alone, axis=1)).all()
    some = int(random.integers(1, capacity + 1))
    draws = np.array([random.integers(capacity - i) for i in range(some)])
    out, wanted = empty_like(incoming, some), empty_like(incoming, some)
    _native.shuffle_drain(rows, capacity, draws, out)
    for slots, given_out in zip(alone, wanted, strict=True):
        _native.shuffle_drain(slots, capacity, draws, [given_out])
    assert same(out, wanted)
    left = capacity - some
    assert (rows[:left] == np.concatenate(alone, axis=1)[:left]).all()


@settings(max_examples=60, deadline=None)
@given(columns_like, st.integers(2, 40), st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(0, 2**32))
def test_a_buffer_of_any_columns_gives_what_it_took(like, capacity, sizes, seed):
    """Filled but for one slot, exchanged and drained, as a stream does, with rows popped and moved at the end."""
    random = np.random.default_rng(seed)
    structure = tuple_of([LEAF] * len(like))
    total = capacity - 1 + sum(sizes)
    whole = columns_of(like, total)

    def block(start, stop):
        backwards = [np.asfortranarray(c[start:stop][::-1])[::-1] for c in whole]  # columns in any order in memory
        return Block(structure, backwards, stop - start), [np.arange(start, stop)]

    slots, order, model = Slots(capacity), [], list(range(capacity - 1))
    slots.place(slice(0, capacity - 1), *block(0, capacity - 1))
    model.append(-1)
    hole, done, given_out = capacity - 1, capacity - 1, []
    reserved = slots.reserve(int(random.integers(1, 60)))
    for size in sizes:
        draws = random.integers(0, capacity, size)
        reserved -= size
        if reserved < 0:
            given_out += slots.finish()
        given_out += slots.exchange(hole, *block(done, done + size), draws)
        for draw in draws.tolist():
            model[hole] = done
            hole, done = draw, done + 1
            order.append(model[hole])
    given_out += slots.finish()
    slots.close_up(hole, capacity - 1)
    model[hole] = model[capacity - 1]
    used = capacity - 1
    assert [slots.extra[0][slot] for slot in range(used)] == model[:used]
    while used:
        draw = int(random.integers(used))
        given_out += slots.drain(used, np.array([draw])) if used % 2 else [slots.pop(draw)]
        if used % 2 == 0:
            slots.close_up(draw, used - 1)
        order.append(model[draw])
        used -= 1
        model[draw] = model[used]
    for number, column in enumerate(whole):
        parts = [block.columns[number] for block in given_out]
        assert {part.dtype for part in parts} == {column.dtype}
        assert same([np.concatenate(parts, dtype=column.dtype)], [column[order]])


def test_exchanges_are_given_out_as_one_block_until_rows_differ():
    slots = Slots(4)
    slots.place(slice(0, 3), Block(LEAF, [np.arange(3)], 3), [])
    slots.reserve(10)
    assert not slots.exchange(3, Block(LEAF, [np.arange(3, 5)], 2), [], np.array([0, 1]))
    assert not slots.exchange(1, Block(LEAF, [np.array([5])], 1), [], np.array([2]))
    joined, last = slots.exchange(2, Block(LEAF, [np.array([0.5])], 1), [], np.array([2]))
    assert joined.columns[0].tolist() == [0, 1, 2], "integers, given out before the first float came"
    assert last.columns[0].tolist() == [0.5]
    assert not slots.finish()


def test_rows_that_do_not_fit_into_the_block_come_after_it():
    slots = Slots(1)
    slots.reserve(3)
    assert not slots.exchange(0, Block(LEAF, [np.arange(2)], 2), [], np.array([0, 0]))
    given_out = slots.exchange(0, Block(LEAF, [np.arange(2, 4)], 2), [], np.array([0, 0]))
    assert [block.columns[0].tolist() for block in given_out] == [[0, 1], [2, 3]]


def test_a_batch_is_made_of_one_block_of_a_shuffle(tmp_path, monkeypatch):
    """Not of one for each group of the file, which would be copied to join them."""
    pq.write_table(pa.table({"x": np.arange(1000)}), tmp_path / "a.parquet", row_group_size=10)
    parts, concat = [], batching.concat

    def counted(blocks):
        parts.append(len(blocks))
        return concat(blocks)

    monkeypatch.setattr(batching, "concat", counted)
    ds = hr.ParquetDataset(tmp_path / "a.parquet").shuffle(100, seed=1).batch(100)
    got = [x for batch in ds.with_options(hr.Options(cpu_budget=1)) for x in batch["x"].tolist()]
    assert sorted(got) == list(range(1000))
    assert parts[:-1] == [1] * (len(parts) - 1) and parts[-1] <= 2, "the last rows come from the buffer alone"


def groups_of(*columns):
    slots = Slots(10)
    slots.place(slice(0, 1), Block(tuple_of([LEAF] * len(columns)), list(columns), 1), [])
    return sorted(sorted(group.numbers) for group in slots._groups)


def test_narrow_columns_share_rows_and_others_have_slots_of_their_own():
    narrow, wide, text = np.zeros(1), np.zeros((1, 100)), pa.array([b"x"], pa.large_binary())
    assert groups_of(*[narrow] * 3) == [[0], [1], [2]], "too few to pack"
    assert groups_of(wide, text, *[narrow] * 20) == [[0], [1], list(range(2, 22))]
    many = groups_of(*[narrow] * 120)
    assert [number for group in many for number in group] == list(range(120))
    assert all(len(group) * 8 <= MAX_PACKED_BYTES for group in many)
    assert len(many) == 3


COLUMNS = {
    "flag": np.arange(60) % 3 == 0,
    "small": np.arange(60).astype(np.int8),
    "half": np.arange(60).astype(np.float16) / 3,
    "day": np.arange(60).astype("M8[D]"),
    "complex": np.arange(60) * (1 + 2j),
    "pixels": np.arange(180, dtype=np.uint8).reshape(60, 3),
    "none": np.zeros((60, 0), np.float32),
    "real": np.arange(60) / 7,
    "number": np.arange(60),
    "single": np.arange(60, dtype=np.float32),
    "short": np.arange(60, dtype=np.uint16),
    "span": np.arange(60).astype("m8[s]"),
    "again": np.arange(60) * 3,
    "word": np.arange(60, dtype=np.int32),
}
TEXTS = np.array([b"text %d" % (i % 7) * (i % 5) for i in range(60)], object)


def every(row):
    return row["number"] % 7 != 3


def fails(row):
    if row["number"] % 11 == 5:
        raise ValueError(f"no {row['number']}")
    return row


def differs(row):
    """Another dtype now and then, other components, and rows of other lengths."""
    number = int(row["number"])
    if number % 20 == 9:
        return {**row, "real": np.int32(number)}
    return {**row, "more": np.arange(number % 3)} if number % 20 == 13 else row


PIPELINES = {
    "numbers": lambda ds: ds.filter(every),
    "text": lambda ds: (
        D.zip(ds, D.from_tensor_slices(TEXTS)).map(lambda row, text: {**row, "text": text}).filter(every)
    ),
    "failures": lambda ds: ds.map(fails, mode="eager"),
    "ids": lambda ds: ds.filter(every).random_map(lambda row, rng: {**row, "drawn": rng.random()}, 3),
}


@pytest.mark.parametrize("buffer", [2, 13, 200])
@pytest.mark.parametrize("name", PIPELINES)
def test_rows_of_all_kinds_keep_every_promise(name, buffer):
    assert len(COLUMNS) >= MIN_PACKED_COLUMNS
    check_transformation(PIPELINES[name](D.from_tensor_slices(COLUMNS)).shuffle(buffer, seed=1), cuts=5, epochs=1)


@pytest.mark.parametrize("buffer", [2, 13, 200])
def test_rows_that_are_unlike_those_before_them_find_room(buffer):
    """Beyond what the spec promises, which is that of the first row."""
    ds = (
        D.from_tensor_slices(COLUMNS).map(differs, mode="eager").shuffle(buffer, seed=1, reshuffle_each_iteration=False)
    )
    want = reference_outcomes(ds)
    it = ds.iterator()
    for place in range(len(want) + 1):
        assert difference(outcomes(ds.iterator(it.state())), want[place:]) is None
        assert difference(outcomes(it, 1), want[place : place + 1]) is None


@pytest.mark.parametrize("buffer", [2, 13, 200])
@pytest.mark.parametrize("name", ["numbers", "text"])
def test_the_order_is_that_of_row_numbers_whether_rows_are_packed_or_not(name, buffer, monkeypatch):
    ds = PIPELINES[name](D.from_tensor_slices(COLUMNS))
    rows = list(ds)
    order = list(D.range(len(rows)).shuffle(buffer, seed=5))
    expected = [rows[number]["number"] for number in order]
    for fewest in (1, 1000):
        monkeypatch.setattr(slots_module, "MIN_PACKED_COLUMNS", fewest)
        got = list(ds.shuffle(buffer, seed=5))
        assert [row["number"] for row in got] == expected
        assert all(row["real"] == row["number"] / 7 and row["pixels"][2] == row["number"] * 3 + 2 for row in got)
