"""States are small, exact, and refused where they do not belong."""

import json
import time

import numpy as np
import pytest

import headrace as hr
from headrace.execute import changes
from headrace.execute import state as states

D = hr.Dataset


def shuffled(n=1000, buffer=100, **more):
    return D.from_tensor_slices(np.arange(n)).shuffle(buffer, **more).batch(7)


def rest_of(it):
    return [b.tolist() for b in it]


def test_a_state_is_json_with_a_version():
    it = iter(shuffled())
    next(it)
    state = json.loads(json.dumps(it.state()))
    assert state["headrace"] == 2
    assert rest_of(shuffled(seed=None).iterator(state)) == rest_of(it)


@pytest.mark.parametrize("taken", [0, 1, 70, 143])
def test_a_state_can_be_taken_at_the_start_in_the_middle_and_at_the_end(taken):
    ds = shuffled(seed=1)
    it = iter(ds)
    for _ in range(taken):
        next(it)
    state = it.state()
    want = rest_of(it)
    it.restore(state)
    assert rest_of(it) == want
    assert rest_of(ds.iterator(it.state())) == []


def test_restoring_rewinds_an_iterator_that_has_gone_on():
    it = iter(D.range(10))
    state = it.state()
    assert [int(next(it)) for _ in range(4)] == [0, 1, 2, 3]
    it.restore(state)
    assert next(it) == 0


def test_a_restored_epoch_is_followed_by_the_next_one():
    ds = shuffled(seed=5)
    epochs = [rest_of(ds) for _ in range(5)]
    assert len({str(e) for e in epochs}) == 5

    again = shuffled(seed=5)
    for _ in range(3):
        list(again)
    it = iter(again)
    next(it)
    state = it.state()

    resumed = shuffled(seed=5)
    assert rest_of(resumed.iterator(state)) == epochs[3][1:]
    assert rest_of(resumed) == epochs[4]


def test_unset_seeds_travel_with_the_state():
    first = shuffled()
    it = iter(first)
    next(it)
    state = it.state()
    want, want_next = rest_of(it), rest_of(first)
    other = shuffled()
    assert rest_of(other.iterator(state)) == want
    assert rest_of(other) == want_next


def test_tuning_may_change_between_save_and_restore():
    def pipeline(calls, ahead):
        ds = D.range(50).map(lambda x: x * 2, num_parallel_calls=calls).shuffle(9, seed=2).batch(3)
        return ds.prefetch(ahead) if ahead else ds

    it = iter(pipeline(None, None))
    next(it)
    state, want = it.state(), rest_of(it)
    for calls, ahead in [(2, None), (None, 3), (4, hr.AUTOTUNE)]:
        with pipeline(calls, ahead).iterator(state) as again:
            assert rest_of(again) == want


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: shuffled(n=999, seed=1), "rows=1000.*rows=999"),
        (lambda: shuffled(buffer=50, seed=1), "buffer_size=100.*buffer_size=50"),
        (lambda: shuffled(seed=2), "seed=1.*seed=2"),
        (shuffled, "seed=1.*seed=drawn"),
        (lambda: shuffled(seed=1).take(3), r"was missing \(the pipeline ended before\), here it is take"),
        (lambda: D.range(1000).shuffle(100, seed=1).batch(7), "from_tensor_slices.*range"),
    ],
)
def test_a_state_of_another_pipeline_is_refused_saying_what_differs(other, said):
    state = iter(shuffled(seed=1)).state()
    with pytest.raises(hr.StateError, match=said):
        other().iterator(state)


def test_a_state_of_another_version_is_refused():
    state = iter(shuffled()).state() | {"headrace": 99}
    with pytest.raises(hr.StateError, match="version 99"):
        shuffled().iterator(state)


@pytest.mark.parametrize("thing", [None, 3, "state", {}, {"headrace": 1}, [1, 2]])
def test_what_is_no_state_is_refused(thing):
    if thing is None:
        pytest.skip("None means from the start")
    with pytest.raises(hr.StateError):
        D.range(3).iterator(thing)


WRONG = {
    "epoch": ["1", -1, None, 1.5, 2**70],
    "delivered": [None, -3, [], True],
    "over": [0, None, "no"],
    "seeds": [None, "12", [None], [-1]],
    "sizes": [[], {"a": "b"}],
    "plan": [None, [1]],
    "marks": ["x", -1, [], None, {"a": 1}, {"2": "x"}, {"2": -1}, {"2": 2**70}, {"2": [1, 2, 3]}, {"2": None}]
    + [{"2": [7, 0, own, True], "1": [0, 0], "0": 0} for own in ([1], ["a", None], [1, 2, 3], {"t": 1}, [None, 4])],
}


@pytest.mark.parametrize(("part", "value"), [(part, value) for part, some in WRONG.items() for value in some], ids=str)
def test_a_state_that_says_what_cannot_be_is_refused_though_its_checksum_is_right(part, value):
    ds = D.range(40).filter(lambda x: x % 3 != 1).shuffle(5).batch(2)
    it = iter(ds)
    next(it)
    state = {k: v for k, v in it.state().items() if k != "crc"} | {part: value}
    with pytest.raises(hr.StateError):
        list(ds.iterator({**state, "crc": states._checksum(state)}))


def test_a_place_behind_the_rows_that_a_shuffle_held_is_refused():
    ds = D.range(60).filter(lambda x: x % 3 != 1).shuffle(9)
    it = iter(ds)
    for _ in range(35):
        next(it)
    state = {k: v for k, v in it.state().items() if k != "crc"}
    state["marks"] |= {"0": 0, "1": 39}
    with pytest.raises(hr.StateError, match="is after rows"):
        list(ds.iterator({**state, "crc": states._checksum(state)}))


def test_any_flipped_bit_is_noticed():
    ds = shuffled(seed=1)
    it = iter(ds)
    next(it)
    text = json.dumps(it.state()).encode()
    for position in range(len(text)):
        for bit in range(8):
            damaged = bytearray(text)
            damaged[position] ^= 1 << bit
            try:
                state = json.loads(damaged)
            except ValueError:
                continue
            if state == json.loads(text):
                continue
            with pytest.raises(hr.StateError):
                ds.iterator(state)


def test_an_input_that_has_become_shorter_is_noticed():
    length = [10]
    ds = D.from_generator(lambda: iter(range(length[0])), output_signature=hr.TensorSpec((), "int64"))
    it = iter(ds)
    for _ in range(8):
        next(it)
    length[0] = 5
    with pytest.raises(hr.StateError, match="ended before element 8"):
        next(ds.iterator(it.state()))


def test_a_state_in_the_middle_of_a_large_shuffle_is_small_and_quick():
    ds = D.from_tensor_slices(np.zeros((60_000, 4), np.uint8)).map(lambda x: x).shuffle(10_000).batch(128)
    with iter(ds) as it:
        for _ in range(100):
            next(it)
        started = time.thread_time()  # of the processor: others may use it too
        state = it.state()
        took = time.thread_time() - started
    assert len(json.dumps(state)) < 4096
    assert took < 0.1, "a state is a few numbers; this is a bound on nonsense, the benchmark has the real one"


def test_a_resume_does_not_call_the_function_again_for_rows_that_are_gone():
    calls = []

    def note(x):
        calls.append(int(x))
        return x

    ds = D.range(1000).map(note).batch(10)
    it = iter(ds)
    for _ in range(50):
        next(it)
    state = it.state()
    calls.clear()
    next(ds.iterator(state))
    assert calls == list(range(500, 510))


def test_a_resume_of_a_streaming_shuffle_calls_the_function_for_the_rows_it_held_only():
    calls = []

    def note(x):
        calls.append(int(x))
        return x

    ds = D.range(2000).map(note).shuffle(50, seed=1)
    it = iter(ds)
    for _ in range(1000):
        next(it)
    state, want = it.state(), [int(x) for x in it]
    calls.clear()
    assert [int(x) for x in ds.iterator(state)] == want
    assert 1000 <= len(calls) <= 1001


def test_a_branch_that_was_not_read_since_a_restore_says_nothing_of_the_others():
    seldom = D.from_generator(lambda: iter(range(100, 120)), output_signature=hr.TensorSpec((), "int64")).repeat()
    ds = D.choose_from_datasets([D.range(40), seldom], D.from_tensor_slices([0, 1] + [0] * 20))
    want = [int(x) for x in ds]
    it = iter(ds)
    assert [int(next(it)) for _ in range(4)] == want[:4]
    again = ds.iterator(state=it.state())
    assert [int(next(again)) for _ in range(5)] == want[4:9]
    assert [int(x) for x in ds.iterator(state=again.state())] == want[9:]


def test_what_follows_from_the_plan_alone_is_found_once_for_all_passes(monkeypatch):
    searched = []
    original = changes.digests
    monkeypatch.setattr(changes, "digests", lambda plan: searched.append(plan) or original(plan))
    ds = hr.Dataset.range(9).map(lambda x: x + 1).shuffle(3, seed=1)
    taken = []
    for _ in range(3):
        with iter(ds) as it:
            next(it)
            taken.append(it.state())
            taken[-1]["functions"]["digests"].clear()  # a state belongs to whoever took it
            taken.append(it.state())
    assert len(searched) == 1
    assert all(state["functions"]["digests"] for state in taken[1::2])


def test_a_state_names_the_files_as_they_are_in_its_pass(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    ds = hr.TextLineDataset(str(path))
    plans = []
    for text in ("a\nb\n", "c\nd\ne\n"):
        path.write_text(text)
        with iter(ds) as it:
            next(it)
            plans.append(it.state()["plan"])
    assert plans[0] != plans[1]
