"""to_torch in a DataLoader, in torchdata's StatefulDataLoader, and in the ranks of torch.distributed."""

import multiprocessing

import numpy as np
import pytest

import headrace as hr
from headrace.dataset import Dataset
from headrace.distribute.even_shard import EvenShard
from headrace.execute.state import opened
from headrace.testing import check_transformation
from tests.adapters.pipelines import labels_of, pairs

torch = pytest.importorskip("torch")
DataLoader = pytest.importorskip("torch.utils.data").DataLoader
D = hr.Dataset
WAYS = [way for way in ("fork", "spawn") if way in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("way", WAYS)
def test_workers_read_shares_and_the_loader_gives_them_in_order(way):
    loader = DataLoader(pairs().to_torch(), batch_size=None, num_workers=2, multiprocessing_context=way)
    ds = pairs()
    assert [labels_of(loader) for _ in range(2)] == [labels_of(ds) for _ in range(2)]  # and every pass is an epoch


def test_functions_written_in_place_reach_spawned_workers():
    feed = D.range(6).map(lambda x: x * 2).batch(2).to_torch()
    loader = DataLoader(feed, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert [t.tolist() for t in loader] == [[0, 2], [4, 6], [8, 10]]


def test_workers_that_stay_count_epochs_too():
    feed, ds = pairs().to_torch(), pairs()
    loader = DataLoader(feed, batch_size=None, num_workers=2, persistent_workers=True)
    assert [labels_of(loader) for _ in range(3)] == [labels_of(ds) for _ in range(3)]


def test_no_workers():
    assert labels_of(DataLoader(pairs().to_torch(), batch_size=None)) == labels_of(pairs())


def test_a_worker_cannot_give_out_cuda_tensors(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # or to_torch would refuse the device at once
    loader = DataLoader(pairs().to_torch(device="cuda"), batch_size=None, num_workers=1)
    with pytest.raises(RuntimeError, match="cannot return CUDA tensors"):
        next(iter(loader))


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_only_workers_know_is_refused_and_the_way_that_works_is_named(way):
    feed = pairs().to_torch()
    start = feed.state_dict()
    loader = DataLoader(feed, batch_size=None, num_workers=2, multiprocessing_context=way)
    it = iter(loader)
    next(it), next(it)  # one batch of each worker: both have begun their passes, and none begins one later
    with pytest.raises(hr.StateError, match=r"workers of a DataLoader.*StatefulDataLoader"):
        feed.state_dict()
    del it
    with pytest.raises(hr.StateError, match="workers"):
        feed.state_dict()
    feed.load_state_dict(start)
    assert feed.state_dict() == start
    it = iter(feed)  # a pass in this process has a place in this process
    next(it)
    assert opened(feed.state_dict())["delivered"] == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_loaded_before_workers_start_is_refused_by_them(way, workers):
    feed = pairs().to_torch()
    next(iter(feed))
    feed.load_state_dict(feed.state_dict())
    loader = DataLoader(feed, batch_size=None, num_workers=workers, multiprocessing_context=way)
    with pytest.raises(hr.StateError, match="StatefulDataLoader"):
        next(iter(loader))


OLD_TORCHDATA = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")


@OLD_TORCHDATA
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cut", [0, 3, 6, 7])
def test_stateful_data_loader_resumes_exactly(workers, cut):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return stateful.StatefulDataLoader(pairs().to_torch(), batch_size=None, num_workers=workers)

    ds = pairs()
    want = [labels_of(ds) for _ in range(3)]
    first = loader()
    it = iter(first)
    given = [next(it)[1].tolist() for _ in range(cut)]
    state = first.state_dict()
    del it
    second = loader()
    second.load_state_dict(state)
    rest = labels_of(second)
    assert given + rest == want[0]
    assert labels_of(second) == want[1]


@OLD_TORCHDATA
def test_the_end_of_a_stateful_loader_resumes_with_the_next_epoch():
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    ds = pairs()
    want = [labels_of(ds) for _ in range(2)]
    loader = stateful.StatefulDataLoader(pairs().to_torch(), batch_size=None)
    assert labels_of(loader) == want[0]
    again = stateful.StatefulDataLoader(pairs().to_torch(), batch_size=None)
    again.load_state_dict(loader.state_dict())
    assert labels_of(again) == want[1]


def test_shares_are_equally_long_and_nothing_is_read_twice():
    everything = labels_of(pairs())
    shares = [labels_of(pairs().to_torch(shard=(3, i))) for i in range(3)]
    assert [len(share) for share in shares] == [2, 2, 2]
    assert [shares[i % 3][i // 3] for i in range(6)] == everything[:6]
    assert len(pairs().to_torch(shard=(3, 1))) == 2


def test_shares_of_a_dataset_of_unknown_length():
    shares = [labels_of(pairs().filter(lambda x, y: True).to_torch(shard=(2, i))) for i in range(2)]
    assert [len(share) for share in shares] == [3, 3]


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("rows", [0, 2, 3, 10])
def test_a_share_keeps_every_promise(index, rows):
    for ds in (D.range(rows), D.range(rows).filter(lambda x: True), D.range(rows).map(lambda x: 6 // (int(x) - 4))):
        check_transformation(Dataset(EvenShard(ds._node, 3, index)))


def test_an_order_that_each_process_would_draw_for_itself_is_refused():
    ds = D.from_tensor_slices(np.arange(6)).shuffle(6).batch(2)
    with pytest.raises(ValueError, match="shuffle needs a seed"):
        ds.to_torch(shard=(2, 0))
    hr.set_random_seed(1)
    try:
        ds.to_torch(shard=(2, 0))
    finally:
        hr.set_random_seed(None)


def test_an_epoch_that_a_trainer_names_is_not_added_to_those_that_workers_have_begun():
    """Transformers' Trainer calls `set_epoch` before every pass; a worker adds the epochs that it has begun."""
    feed = pairs().to_torch()
    epochs = feed._dataset._epochs
    feed._counters[:2] = 1
    feed.set_epoch(1)
    assert epochs.next == 0
    feed.set_epoch(3)
    assert epochs.next == 2
