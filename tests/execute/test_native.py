"""The kernels against their plain meaning, and their randomness against chance."""

import itertools
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.framing import framed

from headrace import _native
from headrace.columns.dense import locked
from headrace.core.keys import ROOT, mix_key
from headrace.reference import draw


def padded_to(*lengths):
    """Return one row of four values of a byte, and the lengths that groups are padded to."""
    return np.zeros((4, 1), np.uint8), np.array([0, 4]), np.array(lengths, np.int64)


def naive_shuffle(key, capacity, total):
    """The rows in output order, and what the slots hold before each step."""
    slots, hole, t, out, held = list(range(min(capacity - 1, total))), capacity - 1, 0, [], []
    for row in range(capacity - 1, total):
        before = [*slots] + [-1] * (capacity - len(slots))
        before[hole] = -1
        held.append(before)
        slots[hole : hole + 1] = [row]
        hole = draw(key, t, capacity)
        out.append(slots[hole])
        t += 1
    if t:
        slots[hole] = slots[-1]
        slots.pop()
    while slots:
        held.append([*slots])
        slot = draw(key, t, len(slots))
        out.append(slots[slot])
        slots[slot] = slots[-1]
        slots.pop()
        t += 1
    return out, held


@given(st.integers(0, 2**64 - 1), st.integers(1, 12), st.integers(0, 40))
def test_the_shuffle_kernels_agree_with_a_plain_buffer(key, capacity, total):
    out, held = naive_shuffle(key, capacity, total)
    assert sorted(out) == list(range(total))
    rows = np.empty(total, np.int64)
    _native.shuffle_rows_at(key, capacity, total, np.arange(total), rows)
    assert rows.tolist() == out
    for t, want in enumerate(held):
        got = np.full(capacity, -9, np.int64)
        used = _native.shuffle_held(key, capacity, total, t, got)
        assert got[:used].tolist() == want


@given(st.integers(0, 2**64 - 1), st.integers(1, 60))
def test_permute_is_a_permutation(key, size):
    out = np.empty(size, np.int64)
    _native.permute(key, size, np.arange(size), out)
    assert sorted(out) == list(range(size))


@pytest.mark.parametrize("size", [65_537, 100_003, 1 << 20])
def test_permute_without_a_table_is_a_permutation_too(size):
    out = np.empty(size, np.int64)
    _native.permute(7, size, np.arange(size), out)
    assert np.array_equal(np.sort(out), np.arange(size))
    assert abs(np.corrcoef(out, np.arange(size))[0, 1]) < 0.02
    assert (out == np.arange(size)).sum() < 12


def chi_square(counts, expected):
    return sum((c - expected) ** 2 / expected for c in counts)


def test_all_orders_of_a_small_dataset_are_equally_likely():
    orders = Counter()
    trials = 24_000
    for trial in range(trials):
        out = np.empty(4, np.int64)
        _native.permute(mix_key(ROOT, trial), 4, np.arange(4), out)
        orders[tuple(out.tolist())] += 1
    assert len(orders) == 24
    assert chi_square(orders.values(), trials / 24) < 50, "23 degrees of freedom: 50 has a chance of 0.001"


def test_draws_are_uniform_and_neighbouring_keys_independent():
    bound, count = 16, 4000
    tables = []
    for key in range(64):
        draws = np.empty(count, np.int64)
        _native.shuffle_draws(mix_key(ROOT, key), bound, -1, 0, draws)
        assert chi_square(np.bincount(draws, minlength=bound), count / bound) < 45
        tables.append(draws)
    for a, b in itertools.pairwise(tables):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.08


@given(st.integers(0, 9), st.integers(1, 6), st.integers(-1, 12), st.data())
def test_a_shuffle_runs_from_the_slots_of_its_step_alone(key, capacity, total, data):
    first = data.draw(st.integers(0, total if total >= 0 else 20))
    count = data.draw(st.integers(0, total - first if total >= 0 else 9))
    rows = np.empty(first + count, np.int64)
    _native.shuffle_rows_at(key, capacity, total, np.arange(first + count), rows)
    slots = np.empty(capacity if total < 0 else min(capacity, total), np.int64)
    right = _native.shuffle_held(key, capacity, total, first, slots)
    empty = np.flatnonzero(slots[:right] < 0)
    hole = int(empty[0]) if len(empty) else 0
    tail = total - capacity + 1
    for used in range(-2, capacity + 3):
        out = np.empty(count, np.int64)
        if used == right or (used == capacity and total >= capacity and first == tail):
            state = slots.copy()
            if used != right:  # the slot that the step before emptied has not been closed up
                state = np.empty(capacity, np.int64)
                _native.shuffle_held(key, capacity, total, first - 1, state)
                before = (first - 1, state, int(np.flatnonzero(state < 0)[0]), capacity)
                hole, _ = _native.shuffle_run(key, capacity, total, *before, np.empty(1, np.int64))
            _native.shuffle_run(key, capacity, total, first, state, hole, used, out)
            assert out.tolist() == rows[first:].tolist()
        else:
            with pytest.raises(ValueError, match="slot"):
                _native.shuffle_run(key, capacity, total, first, slots.copy(), hole, used, out)


READ_ONLY = np.zeros(3, np.int64)
READ_ONLY.flags.writeable = False
LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native.shuffle_draws(1, 4, -1, 0, READ_ONLY),
        lambda: _native.shuffle_draws(1, 4, -1, 0, np.zeros(3)),
        lambda: _native.shuffle_draws(1, 4, -1, 0, np.zeros(6, np.int64)[::2]),
        lambda: _native.random_words(1, np.zeros((2, 3), np.uint64), 0, np.zeros((2, 1), np.uint64)),
        lambda: _native.join_bytes(("a tuple",)),
    ],
)
def test_kernels_take_no_memory_of_another_kind(call):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        call()


DATA = np.zeros(4, np.uint8)
ONE = np.array([1])


def packed(*pieces):
    """Pieces of four values in six cells."""
    cells = [np.empty(6, np.int32) for _ in range(2)]
    values = np.zeros((4, 1), np.uint8)
    none = np.empty(0, np.uint8)
    _native.pack_field(values, np.array(pieces), none, np.zeros(1, np.uint8), np.empty((6, 1), np.uint8))
    _native.pack_places(np.array(pieces), *cells, np.empty(0, int))


def test_rows_of_text_become_objects():
    rows = ["", "one", "zwölf", "丸", ""]
    for kept in (rows, rows[:2]):
        for made in (kept, [row.encode() for row in kept]):
            text = isinstance(made[0], str)
            data = b"".join(row.encode() for row in kept)
            cuts = np.cumsum([0, *(len(row.encode()) for row in kept)])
            objects = _native.text_objects(np.frombuffer(b"ab" + data, np.uint8), cuts + 2, text)
            assert objects.dtype == object and objects.tolist() == made
            assert all(type(o) is (str if text else bytes) for o in objects)
    with pytest.raises(UnicodeDecodeError):
        _native.text_objects(np.frombuffer(b"a\xff", np.uint8), np.array([0, 2]), True)


def text_objects(rows):
    values = np.frombuffer("".join(rows).encode() + b"!", np.uint8)[:-1]
    return _native.text_objects(values, np.cumsum([0, *map(len, rows)]), True).tolist()


def test_texts_that_come_again_are_one_object_and_no_two_are_mixed_up():
    chance = np.random.default_rng(3)
    letters = ["", "a", "b", "\0", "ab", "ba", "a\0"]
    few = ["".join(chance.choice(letters, n)) for n in chance.integers(0, 40, 300)]
    for _ in range(20):
        rows = [few[i] for i in chance.integers(0, len(few), 500)]
        assert text_objects(rows) == rows
    again = [text_objects(["the same"] * 9) for _ in range(100)]  # where hardly any came again, a call may not look
    assert min(len({id(text) for text in texts}) for texts in again) == 1
    for i in range(50):  # where none comes again, most calls do not look
        rows = [f"{i} {j}" for j in range(500)]
        assert text_objects(rows) == rows
    assert text_objects(few) == few


def test_objects_are_held_by_their_array_alone():
    before = sys.getrefcount(None)
    values = np.frombuffer(b"a record of its own" * 500, np.uint8)
    objects = _native.text_objects(values, np.arange(501) * 19, False)
    assert {sys.getrefcount(o) for o in objects} == {3}  # the array, the loop and the call
    del objects
    assert abs(sys.getrefcount(None) - before) < 100


def test_records_are_verified_where_they_lie():
    data = np.frombuffer(framed([b"one", b"", b"three" * 300]), np.uint8).copy()
    bounds = np.array([19, 35, 0, 19, 35, len(data)])
    which = np.zeros(3, np.int64)
    values, offsets = _native.unframe_at([data], which, bounds)
    assert values.tobytes() == b"one" + b"three" * 300
    assert offsets.tolist() == [0, 0, 3, 1503]
    for wrong in range(len(data)):
        data[wrong] ^= 1
        assert _native.unframe_at([data], which, bounds) is None
        data[wrong] ^= 1
    assert _native.unframe_at([data], np.zeros(1, np.int64), np.array([0, 35])) is None, "two records are not one"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: _native.shuffle_draws(1, 4, -1, -1, np.empty(1, np.int64)), "end"),
        (lambda: _native.shuffle_draws(1, 4, -1, LARGEST, np.empty(1, np.int64)), "end"),
        (lambda: _native.shuffle_held(1, 4, 9, 10, np.empty(4, np.int64)), "end"),
        (lambda: _native.shuffle_held(1, 4, -1, LARGEST, np.empty(4, np.int64)), "end"),
        (lambda: _native.shuffle_rows_at(1, 4, 9, np.array([9]), np.empty(1, np.int64)), "end"),
        (lambda: _native.shuffle_rows_at(1, 4, -1, np.array([LARGEST]), np.empty(1, np.int64)), "end"),
        (lambda: _native.shuffle_rows_at(1, 4, 9, np.array([0, 1]), np.empty(1, np.int64)), "length"),
        (
            lambda: _native.shuffle_run(1, 4, -1, LARGEST - 2, np.zeros(4, np.int64), 0, 4, np.empty(1, np.int64)),
            "end",
        ),
        (lambda: _native.shuffle_run(1, 4, 9, 0, np.zeros(4, np.int64), 4, 4, np.empty(1, np.int64)), "slot"),
        (lambda: _native.shuffle_run(1, 4, 9, 0, np.zeros(3, np.int64), 0, 4, np.empty(1, np.int64)), "slots"),
        (lambda: _native.shuffle_run(1, 10, 100, 95, np.zeros(10, np.int64), 0, 1, np.empty(5, np.int64)), "slots"),
        (
            lambda: _native.shuffle_drain(np.zeros((4, 8), np.uint8), 2, np.array([2]), [np.zeros(1)]),
            "draw",
        ),
        (
            lambda: _native.shuffle_drain(np.zeros((4, 8), np.uint8), 2, np.array([1, 1]), [np.zeros(2)]),
            "draw",
        ),
        (lambda: _native.permute(1, -1, np.empty(0, np.int64), np.empty(0, np.int64)), "range"),
        (lambda: _native.permute(1, 3, np.array([-1]), np.empty(1, np.int64)), "range"),
        (lambda: _native.random_words(1, np.zeros((2, 2), np.uint64), 0, np.zeros((1, 1), np.uint64)), "line"),
        (
            lambda: _native.random_words(1, np.zeros((1, 2), np.uint64), 2**64 - 1, np.zeros((1, 2), np.uint64)),
            "end",
        ),
        (
            lambda: _native.random_integers(
                1,
                np.zeros((2, 2), np.uint64),
                0,
                np.zeros(3, np.uint64),
                np.ones(3, np.uint64),
                np.zeros((2, 1), np.uint64),
            ),
            "bounds",
        ),
        (
            lambda: _native.ragged_take(
                np.zeros((4, 1), np.uint8), np.array([0, 5]), np.array([0]), np.zeros((5, 1), np.uint8)
            ),
            "offsets",
        ),
        (
            lambda: _native.ragged_take(
                np.zeros((4, 1), np.uint8), np.array([0, 3, 2]), np.array([0]), np.zeros((3, 1), np.uint8)
            ),
            "offsets",
        ),
        (
            lambda: _native.ragged_take(
                np.zeros((4, 1), np.uint8), np.array([0, 4]), np.array([1]), np.zeros((4, 1), np.uint8)
            ),
            "range",
        ),
        (
            lambda: _native.ragged_pad(*padded_to(3), None, np.zeros((3, 1), np.uint8)),
            "longer",
        ),
        (lambda: _native.ragged_pad(*padded_to(5), None, np.zeros((4, 1), np.uint8)), "out does not fit"),
        (lambda: _native.ragged_pad(*padded_to(4), None, np.zeros((5, 1), np.uint8)), "out does not fit"),
        (lambda: _native.ragged_pad(*padded_to(1 << 62), None, np.zeros((4, 1), np.uint8)), "out does not fit"),
        (lambda: _native.ragged_pad(*padded_to(4, 4), None, np.zeros((4, 1), np.uint8)), "groups"),
        (lambda: _native.ragged_pad(*padded_to(), None, np.zeros((4, 1), np.uint8)), "groups"),
        (
            lambda: _native.ragged_pad(*padded_to(4), np.zeros((1, 2), np.uint8), np.zeros((4, 1), np.uint8)),
            "filler does not fit",
        ),
        (lambda: _native.join_arrays([[np.arange(3)]], 1 << 20, [(0, 4)]), "out of range"),
        (lambda: _native.join_arrays([[np.arange(3)]], 1 << 20, [(-1, 2)]), "out of range"),
        (lambda: _native.join_arrays([[np.arange(3)]], 1 << 20, [(2, 1)]), "out of range"),
        (lambda: _native.join_arrays([[np.arange(3)]], 1 << 20, []), "bounds"),
        (lambda: _native.text_objects(np.empty(2, np.uint8), np.array([0, 3]), False), "offsets"),
        (
            lambda: _native.text_pick([(np.zeros(2, np.uint8), np.array([0, 2]))], np.array([1]), np.array([0])),
            "part",
        ),
        (
            lambda: _native.text_pick([(np.zeros(2, np.uint8), np.array([0, 2]))], np.array([0]), np.array([1])),
            "range",
        ),
        (lambda: _native.parse_csv(b"1\n", [(1, None)], [0], True, b",", b'"', b"", -1, True), "limits"),
        (lambda: _native.parse_csv(b"1\n", [(0, 2**31)], [0], True, b",", b'"', b"", 1, True), "int32"),
        (lambda: _native.parse_csv(b"1\n", [(1, None)], [1], True, b",", b'"', b"", 1, True), "slot"),
        (lambda: _native.parse_csv(b"1\n", [(9, None)], [0], True, b",", b'"', b"", 1, True), "kind"),
        (lambda: _native.parse_csv(b"1\n", [(1, None)], [0], True, b"", b'"', b"", 1, True), "delimiter"),
        (lambda: _native.unframe(b"", 1, 1, 1), "start"),
        (lambda: _native.unframe(b"", 0, -1, 1), "limits"),
        (lambda: _native.scan_records(b"", -1, 1), "start"),
        (lambda: _native.scan_records(b"", 0, -1), "limits"),
        (lambda: _native.resync(b"abc", 0, 2), "end"),
        (lambda: _native.resync(b"abc", 4), "start"),
        (lambda: _native.frame(np.zeros(3, np.uint8), np.array([0, 4])), "offsets"),
        (lambda: _native.frame(np.zeros(3, np.uint8), np.empty(0, np.int64)), "offsets"),
        (lambda: _native.ExampleParser([(b"a", 4, False, 1, 1, True, False, None)]), "feature"),
        (lambda: _native.ExampleParser([(b"a", 3, False, -2, 1, True, False, None)]), "sizes"),
        (lambda: _native.ExampleParser([(b"a", 3, False, 2, 1, False, False, np.zeros(1, np.int64))]), "default"),
        (
            lambda: _native.ExampleParser([]).parse(np.zeros(3, np.uint8), np.array([0, 4])),
            "offsets",
        ),
        (lambda: _native.encode_examples([], -1), "rows"),
        (lambda: _native.encode_examples([(b"a", 3, np.zeros(3, np.int64), None, None)], 2), "rows"),
        (
            lambda: _native.encode_examples([(b"a", 3, np.zeros(3, np.int64), None, np.array([0, 4]))], 1),
            "offsets",
        ),
        (lambda: _native.encode_example({"a": object()}, lambda key, value: np.zeros(2)), "array"),
        (lambda: _native.shuffle_draws(1, 0, -1, 0, np.empty(1, np.int64)), "slot"),
        (lambda: _native.shuffle_draws(1, 4, 3, 2, np.empty(2, np.int64)), "end"),
        (lambda: _native.shuffle_held(1, 4, -1, 0, np.empty(3, np.int64)), "shorter"),
        (lambda: _native.permute(1, 3, np.array([3]), np.empty(1, np.int64)), "range"),
        (
            lambda: _native.shuffle_exchange(
                np.zeros((2, 8), np.uint8), 5, [np.zeros(1)], np.array([0]), [np.zeros(1)]
            ),
            "slot",
        ),
        (
            lambda: _native.shuffle_drain(np.zeros((2, 8), np.uint8), 2, np.array([9]), [np.zeros(1)]),
            "draw",
        ),
        (
            lambda: _native.shuffle_exchange(
                np.zeros((2, 8), np.uint8),
                0,
                [np.zeros(1)],
                np.array([0]),
                [np.zeros(1, np.int32), np.zeros(1, np.int32)],
            ),
            "sizes",
        ),
        (lambda: _native.pack_columns([np.zeros(2), np.zeros(2)], np.zeros((2, 12), np.uint8)), "sizes"),
        (lambda: _native.pack_columns([np.zeros(2)], np.zeros((2, 9), np.uint8)), "sizes"),
        (lambda: _native.pack_columns([], np.zeros((2, 0), np.uint8)), "sizes"),
        (lambda: _native.pack_columns([np.zeros(3)], np.zeros((2, 8), np.uint8)), "numbers of rows"),
        (lambda: _native.pack_columns([np.zeros(())], np.zeros((1, 8), np.uint8)), "numbers of rows"),
        (lambda: _native.pack_columns([np.zeros(4)[::2]], np.zeros((2, 8), np.uint8)), "order"),
        (lambda: _native.pack_columns([np.empty(2, object)], np.zeros((2, 8), np.uint8)), "objects"),
        (lambda: _native.pack_columns([[0.0, 1.0]], np.zeros((2, 8), np.uint8)), "array"),
        (lambda: _native.unpack_columns(np.zeros((2, 8), np.uint8), [locked(np.zeros(2))]), "written"),
        (lambda: _native.unpack_columns(np.zeros((2, 8), np.uint8), [np.zeros(2, np.int32)]), "sizes"),
        (lambda: _native.bytes_pick([DATA], np.array([1]), np.array([0, 1])), "part"),
        (lambda: _native.bytes_pick([DATA], np.array([0]), np.array([0, 5])), "bounds"),
        (lambda: _native.bytes_pick([DATA], np.array([0]), np.array([3, 2])), "bounds"),
        (lambda: _native.bytes_pick([DATA], np.array([0]), np.array([0, 1, 2])), "twice"),
        (lambda: _native.unframe_at([DATA], np.array([0]), np.array([-1, 2])), "bounds"),
        (lambda: _native.mix_rows(1, np.array([2**30 + 1]), ONE, ONE.copy(), ONE.copy()), "share"),
        (lambda: _native.mix_rows(1, np.array([0, 5]), -ONE, ONE.copy(), ONE.copy()), "range"),
        (lambda: _native.mix_counts(1, np.array([0, 5]), 3, np.empty(1, np.int64)), "counts"),
        (lambda: _native.first_fit(np.array([5]), 4, 0, np.empty(1, np.int64)), "fit"),
        (lambda: _native.best_fit(np.array([5]), 4, 0, np.empty(1, np.int64)), "fit"),
        (lambda: _native.fit_several(np.array([[1, 5]]), np.array([4, 4]), 0, True, np.empty(1, np.int64)), "fit"),
        (lambda: packed([0, 4, 5, 0, 1, 0]), "outside|separator"),
        (lambda: packed([0, 9, 9, 0, 1, 0]), "outside"),
        (lambda: packed([0, 4, 4, 3, 1, 0]), "overlap"),
        (lambda: packed([0, 2, 2, 0, 1, 0], [0, 2, 2, 1, 1, 0]), "overlap"),
        (lambda: packed([0, 2, 2, 0, 0, 0]), "segment"),
    ],
)
def test_kernels_check_their_arguments(call, said):
    with pytest.raises(ValueError, match=said):
        call()
