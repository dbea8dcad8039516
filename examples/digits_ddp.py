"""Train on the digits with two processes (DistributedDataParallel, CPU): each reads its own share of the batches."""

import tempfile
from pathlib import Path

import torch
from digits_data import digits, write_digits
from torch import distributed, nn

PROCESSES = 2
EPOCHS = 6


def train(rank, meeting, folder):
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=PROCESSES)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows, test = digits(folder)
    batches = rows.batch(16).to_torch()  # shuffled with a seed: all processes agree on the order that they share
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(EPOCHS):
        for images, labels in batches:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    images, labels = next(iter(test.batch(500).to_torch(shard=False)))
    with torch.no_grad():
        accuracy = (model.module(images).argmax(1) == labels).float().mean().item()
    print(f"process {rank}: {len(batches)} batches an epoch, test accuracy {accuracy:.3f}", flush=True)
    distributed.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (Path(folder) / "meeting", write_digits()), PROCESSES)


if __name__ == "__main__":
    main()
