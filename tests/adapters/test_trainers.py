"""Feeds in Accelerate and Lightning, and states that several processes share; killed trainers are in tests/chaos."""

import json
import sys
import types

import numpy as np
import pytest

import headrace as hr
from headrace.adapters.plain_loader import PlainLoaderWarning
from headrace.execute.state import opened

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
D = hr.Dataset


def batches(count=10):
    return D.range(2 * count).shuffle(2 * count, seed=1).batch(2)


def values(feed):
    return [batch.tolist() for batch in feed]


@pytest.fixture
def accelerator():
    yield accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def test_a_prepared_feed_gives_the_same_batches_and_tells_of_the_last(accelerator):
    feed = accelerator.prepare(batches().to_torch())
    want = values(batches())
    last = []
    got = []
    for batch in feed:
        got.append(batch.tolist())
        last.append(accelerator.gradient_state.end_of_dataloader)
    assert got == want
    assert last == [False] * 9 + [True]
    assert not accelerator.gradient_state.in_dataloader


def test_gradients_are_synchronised_at_the_last_batch(accelerator):
    feed = accelerator.prepare(batches().to_torch())
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    synchronised = []
    for _ in feed:
        with accelerator.accumulate(model):
            synchronised.append(accelerator.sync_gradients)
    assert synchronised == [False, False, False, True] * 2 + [False, True]


def test_save_state_holds_the_position_behind_the_last_batch(accelerator, tmp_path):
    feed = accelerator.prepare(batches().to_torch())
    whole = values(batches())
    for step, _ in enumerate(feed):
        if step == 3:
            accelerator.save_state(str(tmp_path / "at"))
            break
    accelerator.load_state(str(tmp_path / "at"))
    assert values(feed) == whole[4:]


def test_a_state_at_the_last_batch_goes_on_with_the_next_epoch(accelerator):
    ds = batches()
    first, second = values(ds), values(ds)
    feed = accelerator.prepare(batches().to_torch())
    states = [feed.state_dict() for _ in feed]
    again = batches().to_torch()
    again.load_state_dict(states[-1])
    assert values(again) == second != first


def test_an_error_of_the_next_batch_comes_after_this_one(accelerator):
    def picky(x):
        if x[0] == 4:
            raise ValueError("bad")
        return x

    feed = accelerator.prepare(D.range(8).batch(2).map(picky, mode="eager").to_torch())
    got = []
    with pytest.raises(hr.ElementError, match="bad"):
        for batch in feed:
            got.append(batch.tolist())
    assert got == [[0, 1], [2, 3]]


def test_batches_that_are_skipped_are_refused_and_the_remedy_is_named(accelerator):
    feed = accelerator.prepare(batches().to_torch())
    with pytest.raises(hr.StateError, match="load the feed's own state"):
        next(iter(accelerator.skip_first_batches(feed, 2)))


def test_the_state_of_any_process_is_valid_for_all_in_any_number():
    def make(ds, part):
        return ds.to_torch(shard=part)

    whole = values(batches())
    two = [make(batches(), (2, rank)) for rank in range(2)]
    passes = [iter(feed) for feed in two]
    given = [next(one).tolist() for _ in range(2) for one in passes]
    assert given == whole[:4]
    states = [json.loads(json.dumps(feed.state_dict())) for feed in two]
    for state in states:
        three = [make(batches(), (3, rank)) for rank in range(3)]
        for feed in three:
            feed.load_state_dict(state)
        rest = [batch.tolist() for step in zip(*three, strict=True) for batch in step]
        assert rest == whole[4:]
        alone = make(batches(), None)
        alone.load_state_dict(state)
        assert values(alone) == whole[4:]


def test_a_state_has_the_same_keys_everywhere_and_other_forms_are_read():
    feed = batches().to_torch()
    start = feed.state_dict()
    it = iter(feed)
    next(it)
    assert start.keys() == feed.state_dict().keys() == {"headrace"}
    rest = values(batches())[1:]
    for state in (feed.state_dict(), opened(feed.state_dict()), it.state()):
        again = batches().to_torch()
        again.load_state_dict(state)
        assert values(again) == rest
    assert [x.tolist() for x in batches().iterator(state=feed.state_dict())] == rest
    with pytest.raises(hr.StateError, match="not a state"):
        feed.load_state_dict({"headrace": "{"})


def test_a_pass_that_was_only_looked_at_is_not_an_epoch():
    want = values(batches())
    feed = batches().to_torch()
    iter(feed).close()
    iter(feed)
    assert values(feed) == want
    again = batches().to_torch()
    next(it := iter(again))
    again.load_state_dict(it.state())
    iter(again)
    assert values(again) == want[1:]
    assert values(again) != want


def test_trainers_that_skip_batches_name_the_epoch():
    ds = batches()
    epochs = [values(ds) for _ in range(3)]
    feed = batches().to_torch()
    feed.set_epoch(2)
    assert values(feed) == epochs[2]
    feed.set_epoch(0)  # which has begun
    assert values(feed) not in epochs


def test_a_state_as_an_array():
    state = batches().to_torch().state_dict()
    assert hr.checkpoint.from_array(torch.from_numpy(hr.checkpoint.to_array(state))) == state
    with pytest.raises(ValueError, match=r"size_bytes=\d+"):
        hr.checkpoint.to_array(state, size_bytes=10)
    with pytest.raises(hr.StateError, match="holds no state"):
        hr.checkpoint.from_array(np.zeros(8, np.uint8))


@pytest.mark.parametrize("around", ["plain", "stateful", "itself"])
def test_lightning_and_a_loader_that_cannot_say_where_it_is(around, recwarn, tmp_path):
    pl = pytest.importorskip("lightning.pytorch")

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = torch.nn.Linear(2, 1)

        def training_step(self, batch, _):
            return self.model(batch.float()).mean()

        def predict_step(self, batch, _):
            return batch.tolist()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    feed = batches().to_torch()
    if around == "plain":
        feed = torch.utils.data.DataLoader(feed, batch_size=None)
    if around == "stateful":
        feed = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader(feed, batch_size=None)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    trainer = pl.Trainer(max_epochs=1, enable_checkpointing=False, default_root_dir=tmp_path, **quiet)
    trainer.fit(Module(), feed)
    assert trainer.predict(Module(), D.range(4).batch(2).to_torch()) == [[0, 1], [2, 3]]
    said = [w for w in recwarn if issubclass(w.category, PlainLoaderWarning)]
    assert len(said) == (around != "itself")
    assert all("trainer.fit(model, ds.to_torch())" in str(w.message) for w in said)


def elements(*, known=True):
    ds = D.range(10).shuffle(10, seed=1)
    return ds if known else ds.filter(lambda x: x >= 0)


@pytest.mark.parametrize("known", [True, False])
def test_a_loader_that_skips_elements_goes_on_in_its_first_epoch(accelerator, known):
    whole = [int(x) for x in elements()]
    loader = accelerator.prepare(torch.utils.data.DataLoader(elements(known=known).to_torch(), batch_size=2))
    assert [x for batch in accelerate.skip_first_batches(loader, 3) for x in batch.tolist()] == whole[6:]
    small = accelerator.prepare(torch.utils.data.DataLoader(elements(known=known).to_torch(), batch_size=4))
    assert values(accelerate.skip_first_batches(small, 3)) == []  # the third has two elements


def test_more_skipped_elements_than_an_epoch_of_unknown_length_has_are_refused(accelerator):
    """Transformers' Trainer counts all epochs as one then, and would train the first one again."""
    loader = accelerator.prepare(torch.utils.data.DataLoader(elements(known=False).to_torch(), batch_size=2))
    with pytest.raises(hr.StateError, match="more elements to resume than this epoch has"):
        values(accelerate.skip_first_batches(loader, 7))


def test_a_loader_that_reads_ahead_of_the_model_has_no_position(accelerator):
    feed = elements().to_torch()
    loader = accelerator.prepare(torch.utils.data.DataLoader(feed, batch_size=2))
    start = feed.state_dict()
    next(iter(loader))
    with pytest.raises(hr.StateError, match=r"a batch ahead of the model.*accelerator\.prepare"):
        feed.state_dict()
    feed.load_state_dict(start)
    assert feed.state_dict() == start
    with pytest.raises(hr.StateError, match="a state was loaded, and the trainer skips 4 elements besides"):
        values(accelerate.skip_first_batches(loader, 2))
    assert len(values(feed)) == 10  # read by itself
    feed.state_dict()


def unseeded():
    return D.range(10).shuffle(10)


def test_a_loader_warns_of_a_missing_seed_and_refuses_the_resume_that_needs_one(accelerator):
    loader = accelerator.prepare(torch.utils.data.DataLoader(unseeded().to_torch(), batch_size=2))
    with pytest.warns(PlainLoaderWarning, match=r"shuffle has no seed.*will be refused"):
        assert sorted(x for batch in loader for x in batch.tolist()) == list(range(10))
    with pytest.raises(hr.StateError, match=r"shuffle without a seed draws another order.*seed=1"):
        values(accelerate.skip_first_batches(loader, 2))


def test_processes_that_keep_their_shares_of_all_elements_need_the_same_order(accelerator):
    def share(ds, process):
        loader = torch.utils.data.DataLoader(ds.to_torch(shard=False), batch_size=2)
        one = accelerate.data_loader.prepare_data_loader(
            loader, num_processes=2, process_index=process, dispatch_batches=False
        )
        return [x for batch in one for x in batch.tolist()]

    assert {*share(elements(), 0), *share(elements(), 1)} == set(range(10))
    with pytest.raises(ValueError, match=r"shuffle needs a seed.*hr.set_random_seed"):
        share(unseeded(), 0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        return {"loss": self.linear(x[:, None]).mean()}


@pytest.mark.parametrize("seed", [None, 1])
def test_a_trainer_that_takes_elements_by_number_is_warned_of_a_missing_seed(seed, tmp_path, recwarn):
    transformers = pytest.importorskip("transformers")
    how = transformers.TrainingArguments(
        str(tmp_path), max_steps=1, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no"
    )
    ds = D.range(8).map(lambda i: {"x": i.astype(np.float32)}).shuffle(8, seed=seed)
    transformers.Trainer(Net(), how, train_dataset=ds).train()
    said = [str(w.message) for w in recwarn if issubclass(w.category, PlainLoaderWarning)]
    assert bool(said) == (seed is None)
    assert all("shuffle has no seed" in text and "shuffle(…, seed=1)" in text for text in said)


KINDS_OF_DATA = {"by number": lambda ds: ds, "single elements": lambda ds: ds.to_torch(shard=False)}


@pytest.mark.parametrize("kind", KINDS_OF_DATA)
@pytest.mark.parametrize(
    ("saved_by", "batch_size", "more", "warns"),
    [(1, 2, {}, False), (2, 2, {}, True), (2, 4, {}, False), (2, 2, {"ignore_data_skip": True}, False)],
)
def test_a_trainer_that_resumes_what_other_processes_saved_is_warned(
    tmp_path, recwarn, kind, saved_by, batch_size, more, warns
):
    transformers = pytest.importorskip("transformers")
    ds = D.range(32).map(lambda i: {"x": i.astype(np.float32)}).shuffle(32, seed=1)

    def train(steps, size, resume=None, **more):
        how = transformers.TrainingArguments(
            str(tmp_path), max_steps=steps, save_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, **more,
            per_device_train_batch_size=size,
        )  # fmt: skip
        data = KINDS_OF_DATA[kind](ds)
        transformers.Trainer(Net(), how, train_dataset=data).train(resume_from_checkpoint=resume)
        return [str(w.message) for w in recwarn if issubclass(w.category, PlainLoaderWarning)]

    assert train(2, 2) == []
    checkpoint = tmp_path / "checkpoint-2"
    if saved_by == 2:  # each process writes such a file
        state = (checkpoint / "rng_state.pth").read_bytes()
        (checkpoint / "rng_state.pth").unlink()
        for rank in range(2):
            (checkpoint / f"rng_state_{rank}.pth").write_bytes(state)
    said = train(4, batch_size, str(checkpoint), **more)
    assert bool(said) == warns
    assert all("checkpoint-2 was saved by 2 processes, and 1 resumes it" in text for text in said)


def test_a_loop_of_ones_own_over_numbers_needs_no_seed(recwarn):
    loader = torch.utils.data.DataLoader(unseeded(), batch_size=2, shuffle=True)
    assert sorted(x for batch in loader for x in batch.tolist()) == list(range(10))
    assert not [w for w in recwarn if issubclass(w.category, PlainLoaderWarning)]


@pytest.mark.parametrize("seed", [None, 1])
def test_composer_which_resumes_by_reading_the_epoch_again_is_warned_of_a_missing_seed(seed, monkeypatch, recwarn):
    composer = types.ModuleType("composer.trainer.trainer")
    monkeypatch.setitem(sys.modules, composer.__name__, composer)
    exec("def spin(loader):\n    for batch in loader:\n        break", composer.__dict__)
    composer.spin(D.range(8).shuffle(8, seed=seed).batch(2).to_torch())
    said = [str(w.message) for w in recwarn if issubclass(w.category, PlainLoaderWarning)]
    assert len(said) == (seed is None)
    assert all("Composer resumes by reading the epoch again" in text for text in said)
