"""Lightning resumes at every checkpoint that it writes with the batches of a run that nothing disturbed."""

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

import headrace as hr
from headrace.adapters import lightning
from headrace.adapters.plain_loader import PlainLoaderWarning

torch = pytest.importorskip("torch")
pl = pytest.importorskip("lightning.pytorch")
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
ROWS = 8
"""Four batches an epoch, also after the filter, which hides the number."""
LENGTHS = ("known", "unknown")
SAVED = {"every step": {"every_n_train_steps": 1}, "every epoch": {"every_n_epochs": 1}}
ENDS = {
    "epochs": {"max_epochs": 2},
    "steps": {"max_steps": 9},
    "epochs of 2 batches": {"max_epochs": 3, "limit_train_batches": 2},
    "steps, epochs of 2 batches": {"max_steps": 5, "limit_train_batches": 2},
    "epochs, with validation": {"max_epochs": 2, "val_check_interval": 2, "num_sanity_val_steps": 0},
}

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("error::headrace.adapters.plain_loader.PlainLoaderWarning"),
]


class Module(pl.LightningModule):
    """Notes the epoch and the batch of each step."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append((self.current_epoch, batch.tolist()))
        return self.weight * batch.sum()

    def validation_step(self, batch, _):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


@pytest.fixture(autouse=True)
def _silent():
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


def feed(length):
    ds = hr.Dataset.range(ROWS).shuffle(ROWS, seed=1)
    return (ds if length == "known" else ds.filter(lambda x: x != 1)).batch(2).to_torch()


def fit(data, ends, checkpoint=None, callbacks=()):
    module = Module()
    trainer = pl.Trainer(callbacks=list(callbacks), enable_checkpointing=bool(callbacks), **QUIET, **ends)
    trainer.fit(module, data, feed("known"), ckpt_path=checkpoint, weights_only=False if checkpoint else None)
    return module.seen, trainer


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("saved", SAVED.values(), ids=SAVED)
@pytest.mark.parametrize("length", LENGTHS)
def test_every_checkpoint_is_resumed_exactly(tmp_path, length, saved, ends):
    save = pl.callbacks.ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, **saved)
    whole, _ = fit(feed(length), ends, callbacks=[save])
    epochs = {epoch: [batch for at, batch in whole if at == epoch] for epoch, _ in whole}
    assert len({str(batches) for batches in epochs.values()}) == len(epochs)  # a mistake would show
    checkpoints = {int(path.stem.partition("=")[2]): path for path in Path(tmp_path).glob("*.ckpt")}
    assert len(checkpoints) >= 2
    checkpoints.pop(len(whole), None)
    for step, path in checkpoints.items():
        assert fit(feed(length), ends, path)[0] == whole[step:], f"resumed after step {step} of {len(whole)}"


@pytest.mark.parametrize("length", LENGTHS)
def test_a_checkpoint_that_is_written_after_a_fit_knows_what_was_trained(tmp_path, length):
    whole, _ = fit(feed(length), {"max_steps": 6})
    data = feed(length)
    begun, trainer = fit(data, {"max_steps": 2})
    trainer.save_checkpoint(tmp_path / "after.ckpt")
    rest, _ = fit(feed(length), {"max_steps": 6}, tmp_path / "after.ckpt")
    assert [batch for _, batch in begun + rest] == [batch for _, batch in whole]
    again = feed(length)
    again.load_state_dict(data.state_dict())
    assert next(iter(again)).tolist() == whole[2][1]


def test_loops_that_look_otherwise_are_warned_of(monkeypatch):
    fetcher = SimpleNamespace(prefetch_batches=1, length=None, done=False)
    loops = lightning.Running(SimpleNamespace(), "setup_data", fetcher)
    monkeypatch.setattr(lightning, "running", lambda: loops)
    with pytest.warns(PlainLoaderWarning, match=r"loops of Lightning .*_combined_loader_states_to_load"):
        assert next(iter(feed("known"))).shape == (2,)
