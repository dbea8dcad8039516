"""Stop training in the middle of an epoch and resume later, model and data together: no step differs by a bit."""

import tempfile
from pathlib import Path

import torch
from digits_data import digits
from torch import nn

EPOCHS = 4


class Trainer:
    """A model, its optimizer and its data: all that a checkpoint holds."""

    def __init__(self):
        torch.manual_seed(0)
        train, self.test = digits()
        self.batches = train.batch(32).to_torch()
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), 3e-3)
        self.epoch = 0

    def save(self, path):
        parts = {"model": self.model, "optimizer": self.optimizer, "data": self.batches}
        states = {name: part.state_dict() for name, part in parts.items()}
        torch.save({**states, "epoch": self.epoch, "random": torch.get_rng_state()}, path)

    def load(self, path):
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.batches.load_state_dict(saved["data"])
        self.epoch = saved["epoch"]
        torch.set_rng_state(saved["random"])

    def steps(self):
        """Train, a loss at a time."""
        while self.epoch < EPOCHS:
            for images, labels in self.batches:
                loss = nn.functional.cross_entropy(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                yield loss.item()
            self.epoch += 1

    def accuracy(self):
        images, labels = next(iter(self.test.batch(500).to_torch()))
        with torch.no_grad():
            return (self.model.eval()(images).argmax(1) == labels).float().mean().item()


def interrupted(stop, path):
    """The losses of a run that ends after `stop` steps, and of another that resumes from there."""
    first = Trainer()
    steps = first.steps()
    losses = [next(steps) for _ in range(stop)]
    first.save(path)
    second = Trainer()
    second.load(path)
    return losses, list(second.steps()), second


def main():
    whole = list(Trainer().steps())
    with tempfile.TemporaryDirectory() as folder:
        before, after, trainer = interrupted(100, Path(folder) / "checkpoint.pt")
    print(f"{len(before)} steps, stopped in epoch {1 + 100 // (len(whole) // EPOCHS)}, then {len(after)} more")
    print("the same losses as without the stop:", before + after == whole)
    print(f"test accuracy {trainer.accuracy():.3f}")


if __name__ == "__main__":
    main()
