"""Train a small network on the digits with PyTorch, on a GPU if there is one."""

import torch
from digits_data import digits
from torch import nn

import headrace as hr

EPOCHS = 6


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, test = digits()
    batches = train.batch(32).prefetch(hr.AUTOTUNE).to_torch(device=device)
    held_out = test.batch(500).to_torch(device=device)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(EPOCHS):
        with iter(batches) as passing:
            for images, labels in passing:
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        starved = passing.stats()["starvation"]["share"]
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, waited for data {starved:.0%} of the time")

    with torch.no_grad():
        images, labels = next(iter(held_out))
        accuracy = (model(images).argmax(1) == labels).float().mean().item()
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
