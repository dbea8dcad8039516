"""TFRecord files to PyTorch, stopped in the middle of an epoch and resumed exactly."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import headrace as hr


def write_records(folder):
    """4,000 points, and on which side of a curve they are, in three files."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2)).astype(np.float32)
    y = (x[:, 1] > np.sin(2 * x[:, 0])).astype(np.int64)
    hr.Dataset.from_tensor_slices({"x": x, "y": y}).write_tfrecord(folder / "points", shards=3)


def batches(folder):
    rows = hr.Dataset.from_tfrecord(str(folder / "points-*.tfrecord"))
    pairs = rows.shuffle(1000, seed=0).map(lambda row: (row["x"], row["y"]))
    return pairs.batch(50).prefetch(hr.AUTOTUNE).to_torch()


def make_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    return model, torch.optim.Adam(model.parameters(), 1e-2)


def train(model, optimizer, data, steps=None):
    """Train for one epoch, or this many steps of it; return the mean loss."""
    losses = []
    for x, y in data:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == steps:
            break
    return sum(losses) / len(losses)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_records(folder)

        model, optimizer = make_model()
        data = batches(folder)
        for epoch in range(3):
            print(f"epoch {epoch + 1}: loss {train(model, optimizer, data):.4f}")
        whole = [p.detach().clone() for p in model.parameters()]

        model, optimizer = make_model()
        data = batches(folder)
        train(model, optimizer, data)
        train(model, optimizer, data, steps=17)
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "data": data.state_dict()}
        torch.save(saved, folder / "checkpoint.pt")

        model, optimizer = make_model()
        data = batches(folder)
        saved = torch.load(folder / "checkpoint.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        data.load_state_dict(saved["data"])
        for _ in range(2):  # the rest of the second epoch, and the third
            train(model, optimizer, data)
        same = all(torch.equal(a, b) for a, b in zip(whole, model.parameters(), strict=True))
        print("stopped at step 97 and resumed, the weights are the same:", same)


if __name__ == "__main__":
    main()
