"""ds.to_torch() on the CPU: tensors, their memory, dtypes, states, closing, starvation."""

import json
import logging
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.adapters.feed import Feed, Refused
from headrace.adapters.numpy import ReadOnly
from headrace.adapters.tensors import Casts, Tensors
from headrace.columns.block import Block
from headrace.execute.stages import starvation
from headrace.plan.structure import LEAF
from headrace.testing import our_threads
from tests.adapters.pipelines import labels_of, pairs

torch = pytest.importorskip("torch")
D = hr.Dataset


def test_batches_are_those_of_numpy_to_the_bit():
    for (a, b), (x, y) in zip(pairs(), pairs().to_torch(), strict=True):
        assert (x.dtype, y.dtype) == (torch.float32, torch.int32)
        assert a.tobytes() == x.numpy().tobytes()
        assert b.tobytes() == y.numpy().tobytes()


def test_every_pass_is_an_epoch():
    feed, ds = pairs().to_torch(), pairs()
    assert [labels_of(feed) for _ in range(3)] == [labels_of(ds) for _ in range(3)]


def test_a_new_feed_goes_on_with_the_datasets_epochs():
    ds, other = pairs(), pairs()
    assert [labels_of(ds.to_torch()) for _ in range(2)] == [labels_of(other) for _ in range(2)]


def test_structures_text_objects_and_scalars():
    element = {"x": np.zeros((4, 2)), "name": ["a", "b", "c", "d"], "pair": (np.arange(4), [b"1", b"2", b"3", b"4"])}
    batch = next(iter(D.from_tensor_slices(element).batch(3).to_torch()))
    assert batch["x"].shape == (3, 2)
    assert batch["name"] == ["a", "b", "c"]
    assert batch["pair"][0].tolist() == [0, 1, 2]
    assert batch["pair"][1] == [b"1", b"2", b"3"]
    one = next(iter(D.from_tensor_slices(element).to_torch()))
    assert one["pair"][0].shape == ()
    assert one["name"] == "a"


def test_ragged_batches_are_nested_tensors():
    ds = D.range(1, 5).map(lambda n: np.arange(n)).ragged_batch(3)
    batch = next(iter(ds.to_torch(dtypes={np.int64: torch.float32})))
    assert batch.is_nested
    assert [row.tolist() for row in batch.unbind()] == [[0], [0, 1], [0, 1, 2]]
    assert batch.dtype == torch.float32


def test_dtypes_by_component_and_by_dtype():
    ds = D.from_tensor_slices({"a": np.ones(4), "b": np.ones(4), "c": np.arange(4)}).batch(2)
    batch = next(iter(ds.to_torch(dtypes={"a": torch.float16, np.float64: torch.float32})))
    assert [batch[k].dtype for k in "abc"] == [torch.float16, torch.float32, torch.int64]
    nested = D.from_tensor_slices(((np.ones(4), np.ones(4)), np.ones(4))).batch(2)
    (first, second), third = next(iter(nested.to_torch(dtypes={(0, 1): torch.bfloat16})))
    assert [t.dtype for t in (first, second, third)] == [torch.float64, torch.bfloat16, torch.float64]
    with pytest.raises(ValueError, match="dtypes names component 'z', but the elements have 'a', 'b', 'c'"):
        next(iter(ds.to_torch(dtypes={"z": torch.float16})))


def test_a_dtype_that_torch_does_not_have_is_named():
    ds = D.from_tensor_slices({"when": np.zeros(4, "datetime64[s]")}).batch(2)
    with pytest.raises(hr.ElementError, match=r"component\['when'\] has dtype datetime64\[s\].*astype"):
        next(iter(ds.to_torch()))


def test_arrays_of_ones_own_are_not_copied():
    column = np.zeros((3, 4, 5))
    target = Tensors(Casts({}), None, pin=False, ahead=0)
    rows = target.convert(Block(LEAF, [column], 3)).columns[0]
    assert [t.data_ptr() for t in rows] == [row.ctypes.data for row in column]
    assert next(iter(D.from_tensor_slices(column).shuffle(3, seed=1).batch(2))).flags.writeable


def test_writing_to_a_tensor_changes_nothing_else():
    source = np.zeros((6, 2))
    for ds in (D.from_tensor_slices(source).batch(2), D.from_tensor_slices(source).batch(2).cache()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                for tensor in ds.to_torch():
                    assert tensor.sum() == 0
                    tensor.add_(1)
    assert source.sum() == 0


def test_an_error_has_its_place():
    it = iter(D.range(3).map(lambda x: 6 // (int(x) - 1)).to_torch())
    assert int(next(it)) == -6
    with pytest.raises(hr.ElementError, match="map failed on element 1"):
        next(it)
    assert int(next(it)) == 6


@dataclass
class Few:
    """A class that does not take every number of rows."""

    x: Any

    def __post_init__(self):
        if len(self.x) == 2:
            raise ValueError("two rows are refused")


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize(
    "ds",
    [
        lambda: D.range(5).map(lambda i: np.zeros(3, "datetime64[s]") if i == 2 else np.full(3, i)),
        lambda: D.range(9).batch(3).map(Few).rebatch([1, 2, 1, 3, 2]),
        lambda: D.range(5).batch(1).map(lambda x: Few(np.repeat(x, 3))).map(lambda f: f),
    ],
    ids=["a dtype of one element", "a class that refuses one", "none"],
)
def test_an_element_that_cannot_be_given_is_an_error_in_its_place(ds, prefetch):
    def given(feed):
        """The elements, None for an error, and the state after each."""
        with iter(feed) as it:
            while True:
                try:
                    value = next(it)
                except StopIteration:
                    return
                except hr.ElementError as error:
                    yield None, f"element {error.ordinal}", it.state()
                    continue
                yield np.asarray(getattr(value, "x", value)).tolist(), "", it.state()

    everything = list(given(ds().to_torch(prefetch=prefetch)))
    values = [value for value, _, _ in everything]
    assert len(values) == 5
    for i, (value, error, state) in enumerate(everything):
        assert (value is None) == (error == f"element {i}")
        assert state["delivered"] == i + 1
        again = ds().to_torch(prefetch=prefetch)
        again.load_state_dict(state)
        assert [value for value, _, _ in given(again)] == values[i + 1 :]


class PutTogetherLate(ReadOnly):
    """As what is staged for a device: elements are put together when the consumer takes them."""

    def deliver(self, element):
        if int(element) == 2:
            raise Refused(ValueError("refused"))
        return element


class LateFeed(Feed):
    def make_target(self):
        return PutTogetherLate(2)


def test_an_element_refused_at_the_last_moment_has_its_place():
    it = iter(LateFeed(D.range(4)))
    assert [int(next(it)), int(next(it))] == [0, 1]
    with pytest.raises(hr.ElementError, match="element 2: ValueError: refused") as caught:
        next(it)
    assert type(caught.value.__cause__) is ValueError
    assert it.state()["delivered"] == 3
    assert int(next(it)) == 3
    it.close()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_state_is_that_of_what_was_received(prefetch):
    want = labels_of(pairs())
    for cut in range(len(want) + 1):
        feed = pairs().to_torch(prefetch=prefetch)
        it = iter(feed)
        for _ in range(cut):
            next(it)
        state = json.loads(json.dumps(feed.state_dict()))
        it.close()
        again = pairs().to_torch(prefetch=prefetch)
        again.load_state_dict(state)
        assert again.state_dict() == state
        assert labels_of(again) == want[cut:]


def test_the_end_of_an_epoch_resumes_with_the_next():
    feed, ds = pairs().to_torch(), pairs()
    want = [labels_of(ds) for _ in range(2)]
    assert labels_of(feed) == want[0]
    again = pairs().to_torch()
    again.load_state_dict(feed.state_dict())
    assert labels_of(again) == want[1]


def test_a_state_before_the_first_pass_is_the_start():
    state = pairs().to_torch().state_dict()
    feed = pairs().to_torch()
    list(feed)
    feed.load_state_dict(state)
    assert labels_of(feed) == labels_of(pairs())


def test_a_state_of_another_pipeline_is_refused_when_it_is_loaded():
    with pytest.raises(hr.StateError, match="another pipeline"):
        pairs(batch=4).to_torch().load_state_dict(pairs().to_torch().state_dict())


def test_the_dataset_reads_the_states_of_its_feeds():
    ds = pairs()
    it = iter(ds.to_torch(prefetch=2))
    next(it)
    rest = [labels for _, labels in ds.iterator(state=it.state())]
    assert [t.tolist() for _, t in it] == [a.tolist() for a in rest]


def test_staging_reads_no_further_ahead_than_asked():
    read = []
    ds = D.range(20).map(lambda x: read.append(int(x)) or x)
    seen = threading.Event()
    it = iter(ds.to_torch(prefetch=3))
    next(it)
    seen.wait(0.05)
    assert len(read) <= 1 + 3 + 1  # given out, ready, pending
    it.close()


def test_closing_frees_the_thread():
    feed = pairs().repeat().to_torch(prefetch=2)
    it = iter(feed)
    next(it)
    assert our_threads() != []
    it.close()
    assert our_threads() == []
    with iter(feed) as it:
        next(it)
    assert our_threads() == []
    it = iter(feed)
    next(it)
    del it
    assert our_threads() == []
    for _ in feed:
        break
    assert our_threads() == []


def test_length_where_it_is_known():
    assert len(pairs().to_torch()) == 7
    with pytest.raises(TypeError, match="not known, or infinite"):
        len(pairs().repeat().to_torch())


def test_several_devices_must_be_cuda():
    with pytest.raises(ValueError, match="several CUDA devices"):
        next(iter(pairs().to_torch(device=["cpu", "cpu"])))


def test_waiting_and_computing_are_counted(clock):
    it = iter(D.range(6).map(lambda x: clock.advance(0.02) or x, mode="eager").to_torch())
    for _ in it:
        clock.advance(0.01)
    found = it.stats()["starvation"]
    assert found["waited_s"] == pytest.approx(5 * 0.02)
    assert found["computed_s"] == pytest.approx(6 * 0.01)
    assert found["first_s"] == pytest.approx(0.02)


def test_a_starved_consumer_is_told_once(monkeypatch, caplog, clock):
    monkeypatch.setattr(starvation, "CHECK_SECONDS", 0.03)
    monkeypatch.setattr(starvation, "_said", set())
    waits = threading.Event()
    begin, end = starvation.Meter.begin_wait, starvation.Meter.end_wait
    monkeypatch.setattr(starvation.Meter, "begin_wait", lambda meter: (begin(meter), waits.set()))
    monkeypatch.setattr(starvation.Meter, "end_wait", lambda meter, stats: (waits.clear(), end(meter, stats)))

    def work(x):
        assert waits.wait(300)
        clock.advance(0.005)
        return x

    with caplog.at_level(logging.WARNING, logger="headrace"):
        feed = D.range(20).map(work, mode="eager", name="slow").to_torch(prefetch=2)
        for _ in range(2):  # epochs are many, the advice is one
            for _ in feed:
                pass
    [record] = caplog.records
    text = record.getMessage()
    assert text.startswith("the consumer waits for data")
    assert "the slowest stage is map(" in text
    assert "give it num_parallel_calls=hr.AUTOTUNE" in text


def test_a_consumer_that_is_not_starved_is_not_told(monkeypatch, caplog, clock):
    monkeypatch.setattr(starvation, "CHECK_SECONDS", 0.01)
    with caplog.at_level(logging.WARNING, logger="headrace"):
        for _ in D.range(20).to_torch():
            clock.advance(0.005)
    assert caplog.records == []


@pytest.fixture
def slow(clock):
    def work(x, rng=None):
        return clock.advance(0.002) or x

    return work


@pytest.mark.parametrize(
    ("make", "share", "advice"),
    [
        (lambda d, slow: d.map(slow), 0.5, "end the pipeline with .prefetch"),
        (lambda d, slow: d.map(slow), 0.95, 'num_parallel_calls=hr.AUTOTUNE, mode="process"'),
        (lambda d, slow: d.map(slow).prefetch(1), 0.5, "as plain NumPy it would run on whole blocks"),
        (lambda d, slow: d.map(slow, num_parallel_calls=2), 0.5, ': mode="process" if it is Python code'),
        (lambda d, slow: d.random_map(slow, seed=0).prefetch(1), 0.5, "num_parallel_calls"),
        (lambda d, slow: d.scan(0, lambda s, x: (s, slow(x))).prefetch(1), 0.5, "put .cache() after it"),
        (lambda d, slow: d.flat_map(lambda n: D.range(slow(n))).prefetch(1), 0.5, "make it an interleave"),
    ],
)
def test_the_advice_fits_the_pipeline(make, share, advice, slow):
    it = iter(make(D.range(8), slow))
    list(it)
    assert advice in starvation.complaint(share, it.stats()["stages"])


def test_the_advice_for_processes_is_more_of_them():
    it = iter(D.range(8).map(lambda x: threading.Event().wait(0.002) or x, mode="process", num_parallel_calls=1))
    list(it)
    assert "more processes" in starvation.complaint(0.5, it.stats()["stages"])


@pytest.mark.parametrize(
    "make",
    [
        lambda d, slow: d.random_map(slow, seed=0, num_parallel_calls=2),
        lambda d, slow: d.random_map(lambda x, rng: x, seed=0).scan(0, lambda s, x: (s, slow(x))).prefetch(1),
        lambda d, slow: d.shuffle(3).scan(0, lambda s, x: (s, slow(x))).prefetch(1),
        lambda d, slow: d.flat_map(lambda n: D.range(2).shuffle(2)).scan(0, lambda s, x: (s, slow(x))).prefetch(1),
    ],
)
def test_a_cache_after_a_draw_is_never_advised(make, slow):
    it = iter(make(D.range(8), slow))
    list(it)
    assert "cache" not in starvation.complaint(0.5, it.stats()["stages"])
