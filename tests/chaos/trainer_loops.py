"""Training loops of frameworks, each with checkpoints as its users write them: what tests/chaos/trainers.py kills.

Each takes a `Job`, goes on from its newest checkpoint, and shows it every batch that the model is given.
"""

import hashlib
import json
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import headrace as hr

ROWS, BATCH = 96, 4
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
Y = X.sum(1).astype(np.float32)


def batches():
    """24 batches an epoch, in another order each time."""
    return hr.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=3).batch(BATCH)


def digest_of(x, y):
    return hashlib.blake2b(np.asarray(x).tobytes() + np.asarray(y).tobytes(), digest_size=8).hexdigest()


@dataclass
class Job:
    """One run of a trainer: where its checkpoints are, how far it goes, and at which step it is killed."""

    folder: Path
    steps: int
    kill_at: int | None = None
    rank: int = 0
    world_size: int = 1
    shown: int = field(default=0, init=False)

    def see(self, step, x, y):
        """Note a batch that the model is given at a step, and die if it is time: nothing is flushed or closed."""
        self.note(step, digest_of(x, y))

    def note(self, step, digest):
        with (self.folder / f"seen-{self.rank}-of-{self.world_size}.txt").open("a") as log:
            log.write(f"{step} {digest}\n")
        if step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def newest(self):
        """The last checkpoint that was completed, or None."""
        path = self.folder / "newest"
        return path.read_text() if path.exists() else None

    def completed(self, checkpoint):
        """Say that a checkpoint is whole: in one step, as a rename is."""
        if self.rank == 0:
            (self.folder / "newer").write_text(str(checkpoint))
            (self.folder / "newer").replace(self.folder / "newest")


class Counter:
    """The steps done, as a part of checkpoints."""

    def __init__(self):
        self.steps = 0

    def state_dict(self):
        return {"steps": self.steps}

    def load_state_dict(self, state):
        self.steps = state["steps"]


def _linear(torch):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), 0.01)


def _step(torch, model, optimizer, x, y):
    loss = torch.nn.functional.mse_loss(model(x)[:, 0], y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def _join(job):
    """Join the other processes of the run, where there are several."""
    import torch.distributed as dist

    if job.world_size > 1:
        store = dist.FileStore(str(job.folder / f"ranks-{os.environ['ATTEMPT']}"), job.world_size)
        dist.init_process_group("gloo", store=store, rank=job.rank, world_size=job.world_size)
    return dist


def dcp(job):
    """torch.distributed.checkpoint: the feed is a Stateful like the others."""
    import torch
    import torch.distributed.checkpoint as checkpoint

    dist = _join(job)
    model, optimizer = _linear(torch)
    feed, counter = batches().to_torch(), Counter()
    parts = {"model": model, "counter": counter, "feed": feed}
    if job.newest():
        checkpoint.load(parts, checkpoint_id=job.newest())
    while counter.steps < job.steps:
        for x, y in feed:
            job.see(counter.steps + 1, x, y)
            _step(torch, model, optimizer, x, y)
            counter.steps += 1
            if counter.steps % 2 == 0:
                path = job.folder / f"dcp-{counter.steps}-{job.world_size}"
                checkpoint.save(parts, checkpoint_id=path)
                if dist.is_initialized():
                    dist.barrier()
                job.completed(path)
            if counter.steps == job.steps:
                break


def torchtitan(job):
    """torchtitan's dataloader protocol: an iterable Stateful, read by next(), saved by DCP beside its train state."""
    import torch
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.stateful import Stateful

    dist = _join(job)
    model, optimizer = _linear(torch)
    dataloader, train_state = batches().repeat().to_torch(), Counter()
    assert isinstance(dataloader, Stateful)
    states = {"model": model, "train_state": train_state, "dataloader": dataloader}
    if job.newest():
        checkpoint.load(states, checkpoint_id=job.newest())
    data_iterator = iter(dataloader)
    while train_state.steps < job.steps:
        x, y = next(data_iterator)
        job.see(train_state.steps + 1, x, y)
        _step(torch, model, optimizer, x, y)
        train_state.steps += 1
        path = job.folder / f"step-{train_state.steps}-{job.world_size}"
        checkpoint.save(states, checkpoint_id=path)
        if dist.is_initialized():
            dist.barrier()
        job.completed(path)


def accelerate(job, *, dispatch=None, registered=False):
    """Accelerate: prepare(feed), save_state, load_state."""
    import torch
    from accelerate import Accelerator, DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
    model, optimizer = _linear(torch)
    feed, counter = batches().to_torch(), Counter()
    model, optimizer = accelerator.prepare(model, optimizer)
    if registered:
        accelerator.register_for_checkpointing(feed)
    else:
        feed = accelerator.prepare(feed)
    accelerator.register_for_checkpointing(counter)
    if job.newest():
        accelerator.load_state(job.newest())
    while counter.steps < job.steps:
        for x, y in feed:
            with accelerator.accumulate(model):
                job.see(counter.steps + 1, x, y)
                accelerator.backward(torch.nn.functional.mse_loss(model(x)[:, 0], y))
                optimizer.step()
                optimizer.zero_grad()
            counter.steps += 1
            if counter.steps % 2 == 0:
                path = job.folder / f"state-{counter.steps}-{job.world_size}"
                accelerator.save_state(str(path))
                accelerator.wait_for_everyone()
                job.completed(path)
            if counter.steps == job.steps:
                break


def accelerate_dispatch(job):
    """Accelerate with dispatch_batches=True, where the first process reads for all loaders but a feed."""
    accelerate(job, dispatch=True)


def accelerate_registered(job):
    """Accelerate, where the feed is registered for checkpoints and not prepared."""
    accelerate(job, registered=True)


def lightning(job):
    """Lightning: the feed itself is given to fit, and checkpoints hold its position."""
    import lightning.pytorch as pl
    import torch

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, _ = _linear(torch)

        def training_step(self, batch, _):
            x, y = batch
            job.see(self.global_step + 1, x, y)
            return torch.nn.functional.mse_loss(self.model(x)[:, 0], y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    class Completed(pl.Callback):
        """Runs after the checkpoint of the step was written."""

        def on_train_batch_end(self, trainer, *_):
            job.completed(job.folder / f"l-{trainer.global_step}-{job.world_size}.ckpt")

    save = pl.callbacks.ModelCheckpoint(
        job.folder, f"l-{{step}}-{job.world_size}", every_n_train_steps=1, save_top_k=-1, auto_insert_metric_name=False
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=job.world_size,
        strategy="ddp" if job.world_size > 1 else "auto",
        max_steps=job.steps,
        callbacks=[save, Completed()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=job.folder,
    )
    newest = job.newest()
    # The callbacks of Lightning run in the order of their list, checkpoints last: only whole ones count.
    if newest and not Path(newest).exists():
        newest = str(max(job.folder.glob("l-*.ckpt"), key=lambda path: int(path.stem.split("-")[1])))
    trainer.fit(Module(), batches().to_torch(), ckpt_path=newest, weights_only=False if newest else None)


def huggingface(job, kind="batched"):
    """Transformers' Trainer: map-style, iterable, or batches that headrace made."""
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, _ = _linear(torch)

        def forward(self, x, labels):
            job.see(trainer.state.global_step + 1, x, labels)
            return {"loss": torch.nn.functional.mse_loss(self.linear(x)[:, 0], labels)}

    named = hr.Dataset.from_tensor_slices({"x": X, "labels": Y})
    feed = named.shuffle(ROWS, seed=3).batch(BATCH).to_torch()
    if job.newest() and kind == "batched":
        feed.load_state_dict(json.loads((Path(job.newest()) / "feed.json").read_text()))

    class Trainer(transformers.Trainer):
        def get_train_dataloader(self):
            return self.accelerator.prepare(feed) if kind == "batched" else super().get_train_dataloader()

    class Completed(transformers.TrainerCallback):
        def on_save(self, arguments, state, control, **_):
            path = job.folder / f"checkpoint-{state.global_step}"
            if job.rank == 0:
                (path / "feed.json").write_text(json.dumps(feed.state_dict() if kind == "batched" else {}))
            job.completed(path)

    arguments = transformers.TrainingArguments(
        str(job.folder),
        max_steps=job.steps,
        per_device_train_batch_size=BATCH,
        save_steps=2,
        ignore_data_skip=kind == "batched",  # the feed has its own position
        save_total_limit=3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
        logging_strategy="no",
    )
    data = named if kind == "map" else named.shuffle(ROWS, seed=3).to_torch()
    trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=[Completed()])
    trainer.train(resume_from_checkpoint=job.newest())


def huggingface_map(job):
    """Transformers' Trainer over a dataset whose elements have numbers."""
    huggingface(job, "map")


def huggingface_iterable(job):
    """Transformers' Trainer that batches the elements of a feed."""
    huggingface(job, "iterable")


def orbax(job):
    """JAX with Orbax: the position of a feed is an item beside the weights."""
    import jax.numpy as jnp
    import orbax.checkpoint as ocp

    from headrace.checkpoint.orbax import FeedRestore, FeedSave

    feed = batches().repeat().to_jax(shard=(job.world_size, job.rank))
    weights = {"w": jnp.zeros(3), "steps": jnp.zeros((), jnp.int32)}
    with ocp.CheckpointManager((job.folder / "orbax").absolute()) as manager:
        if manager.latest_step() is not None:
            found = manager.restore(
                manager.latest_step(),
                args=ocp.args.Composite(model=ocp.args.StandardRestore(weights), data=FeedRestore(feed)),
            )
            weights = found["model"]
        for x, y in feed:
            step = int(weights["steps"]) + 1
            job.see(step, x, y)
            weights = {"w": weights["w"] + 0.01 * (x * y[:, None]).mean(0), "steps": weights["steps"] + 1}
            if step % 2 == 0 and job.rank == 0:
                manager.save(step, args=ocp.args.Composite(model=ocp.args.StandardSave(weights), data=FeedSave(feed)))
                manager.wait_until_finished()
                job.completed(job.folder / f"orbax-{step}")
            if step == job.steps:
                break


def keras(job):
    """Keras on whichever backend: the loss of a step says which batch the model was given, because weights stay."""
    import keras

    feed = batches().repeat().to_keras()
    done = 0
    if job.newest():
        saved = json.loads(job.newest())
        feed.load_state_dict(saved["feed"])
        done = saved["steps"]

    class Saving(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            job.note(epoch + 1, np.float32(logs["loss"]).tobytes().hex())
            job.completed(json.dumps({"steps": epoch + 1, "feed": feed.state_dict()}))

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(feed, initial_epoch=done, epochs=job.steps, steps_per_epoch=1, verbose=0, callbacks=[Saving()])


FORKED = {
    "dcp": dcp,
    "torchtitan": torchtitan,
    "accelerate": accelerate,
    "accelerate_dispatch": accelerate_dispatch,
    "accelerate_registered": accelerate_registered,
    "lightning": lightning,
    "huggingface": huggingface,
    "huggingface_map": huggingface_map,
    "huggingface_iterable": huggingface_iterable,
    "orbax": orbax,
}
"""Those whose frameworks can be imported once and forked: each run is a process of its own all the same."""
MODULES = {
    "dcp": ["torch.distributed.checkpoint"],
    "torchtitan": ["torch.distributed.checkpoint"],
    "accelerate": ["accelerate"],
    "lightning": ["lightning.pytorch"],
    "huggingface": ["transformers", "transformers.trainer", "accelerate"],
    "orbax": ["orbax.checkpoint", "jax"],
}
