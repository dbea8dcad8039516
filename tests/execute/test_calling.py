"""A function that cannot be traced: its rows are read in blocks, which its calls do not reveal."""

import gc
import threading
import weakref

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


class Noted:
    """A function whose calls are counted; it cannot be traced."""

    def __init__(self, fn=lambda x: x):
        self.calls = []
        self.fn = fn

    def __call__(self, x):
        self.calls.append(int(x))
        return self.fn(x)


def test_it_is_called_when_its_element_is_asked_for_and_no_sooner():
    noted = Noted()
    it = iter(D.range(1000).map(noted))
    for i in range(300):
        assert next(it) == i
        assert noted.calls == list(range(i + 1))


def test_its_rows_are_read_in_blocks():
    it = iter(D.range(1000).map(lambda x: x + 1).map(Noted()))
    assert list(it) == list(range(1, 1001))
    counted = {stage["stage"].partition("(")[0]: stage for stage in it.stats()["stages"]}
    assert counted["map"]["rows"] == counted["range"]["rows"] == 1000
    assert counted["range"]["blocks"] < 50


@pytest.mark.parametrize("cut", [0, 1, 17, 64, 99])
def test_a_state_is_exact_and_calls_nothing_twice(cut):
    noted = Noted()
    ds = D.range(100).shuffle(10, seed=1).map(noted)
    whole = [int(x) for x in D.range(100).shuffle(10, seed=1)]
    with iter(ds) as it:
        assert [int(next(it)) for _ in range(cut)] == whole[:cut]
        state = it.state()
    noted.calls.clear()
    assert [int(x) for x in ds.iterator(state=state)] == whole[cut:]
    assert noted.calls == whole[cut:]


def test_a_state_taken_by_the_function_itself_has_its_row_still_to_come():
    states = []
    ds = D.range(10).map(Noted(lambda x: states.append(it.state()) or x))
    it = iter(ds)
    for _ in range(5):
        next(it)
    assert [state["delivered"] for state in states] == list(range(5))
    it.close()  # the function refers to its own iterator, which is never collected otherwise


def test_what_fails_fails_in_its_place():
    it = iter(D.range(40).map(Noted(lambda x: 1 // (int(x) % 4))))
    for i in range(40):
        if i % 4:
            assert next(it) == 1 // (i % 4)
        else:
            with pytest.raises(hr.ElementError, match=f"map failed on element {i}: ZeroDivisionError"):
                next(it)
    with pytest.raises(StopIteration):
        next(it)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_row_whose_call_was_interrupted_is_made_again(stop):
    def interrupted(x):
        if x == 20 and noted.calls.count(20) == 1:
            raise stop
        return x

    noted = Noted(interrupted)
    it = iter(D.range(30).map(noted))
    assert [int(next(it)) for _ in range(20)] == list(range(20))
    with pytest.raises(stop):
        next(it)
    assert [int(x) for x in it] == list(range(20, 30))


def test_closing_from_within_ends_after_that_element():
    it = iter(D.range(30).map(Noted(lambda x: (it.close() if x == 7 else None, x)[1])))
    assert [int(x) for x in it] == list(range(8))


def test_an_array_that_is_used_again_is_copied():
    buffer = np.zeros(2)

    def reuse(x):
        buffer[:] = x
        return buffer

    assert [x.tolist() for x in D.range(3).map(reuse)] == [[0, 0], [1, 1], [2, 2]]


@pytest.mark.parametrize(
    "fn",
    [lambda x: [x, [x, 2]], lambda x: {"b": x, "a": (2.5, "text", b"\0")}, lambda x: np.array(["a"]), lambda x: 2**70],
)
def test_elements_are_what_they_are_elsewhere(run, fn):
    (one,) = D.range(1).map(Noted(fn))
    (other,) = run(D.range(1).map(Noted(fn)).take(1))
    assert repr(one) == repr(other)


def test_threads_that_share_the_iterator_call_one_after_the_other():
    inside, most, got = [], [], []

    def alone(x):
        inside.append(x)
        most.append(len(inside))
        inside.pop()
        return x

    it = iter(D.range(2000).map(alone, mode="eager"))
    threads = [threading.Thread(target=lambda: got.extend(it)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(2000))
    assert max(most) == 1


def test_an_unreferenced_iterator_is_freed_at_once():
    it = iter(D.range(100).map(Noted()))
    next(it)
    gone = weakref.ref(it)
    gc.disable()
    try:
        del it
        assert gone() is None
    finally:
        gc.enable()


def test_arrays_of_a_numpy_iterator_cannot_be_written_to():
    it = D.range(3).map(Noted(lambda x: np.full(2, x))).as_numpy_iterator()
    assert not any(x.flags.writeable for x in it)
