"""Train a small network on a folder of images: JPEGs of many sizes, a sub-folder a class, changed at random."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import nn

import headrace as hr

KINDS = ("disc", "square", "stripes")
SIZE = (48, 48)


def draw(kind, rng):
    """A coloured shape somewhere on a noisy ground, in an image of any size."""
    height, width = rng.integers(60, 120, 2)
    y, x = np.mgrid[:height, :width]
    reach = rng.uniform(0.2, 0.35) * min(height, width)
    from_y, from_x = y - rng.uniform(reach, height - reach), x - rng.uniform(reach, width - reach)
    shape = {
        "disc": from_y**2 + from_x**2 < reach**2,
        "square": np.maximum(abs(from_y), abs(from_x)) < 0.9 * reach,
        "stripes": (np.maximum(abs(from_y), abs(from_x)) < reach) & ((from_x // (reach / 3)) % 2 == 0),
    }[kind]
    ground, colour = rng.uniform(0, 110, 3), rng.uniform(140, 255, 3)
    image = np.where(shape[:, :, None], colour, ground) + rng.normal(0, 8, (height, width, 3))
    return image.clip(0, 255).astype(np.uint8)


def make_folder(folder, per_class=120):
    """Write the images as people keep them."""
    rng = np.random.default_rng(0)
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        for i in range(per_class):
            (folder / kind / f"{i:03d}.jpg").write_bytes(hr.image.encode_jpeg(draw(kind, rng), quality=90))


def augment(image, label, rng):
    """Another piece of the image, perhaps mirrored, in other light: drawn anew in each epoch."""
    image = hr.image.random_resized_crop(image, SIZE, rng, scale=(0.6, 1.0))
    image = hr.image.random_flip_left_right(image, rng)
    return hr.image.random_brightness(image / np.float32(255), 0.2, rng), label


def prepare(image, label):
    return hr.image.resize(image, SIZE) / np.float32(255), label


def channels_first(image, label):
    return image.transpose(2, 0, 1), label


def pipelines(folder):
    train, test = hr.Dataset.from_image_folder(folder, validation_split=0.25, seed=1)
    train = train.shuffle(seed=2).random_map(augment, seed=3, num_parallel_calls=hr.AUTOTUNE)
    test = test.map(prepare, num_parallel_calls=hr.AUTOTUNE)
    return tuple(ds.map(channels_first).batch(32) for ds in (train, test))


def accuracy(model, test):
    with torch.no_grad():
        right = [(model(images).argmax(1) == labels).float() for images, labels in test.to_torch()]
    return torch.cat(right).mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        make_folder(Path(folder))
        train, test = pipelines(folder)
        print(f"classes: {train.class_names}")
        print(train)
        model = nn.Sequential(
            *(nn.Conv2d(3, 16, 5, 2), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 5, 2), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(64, len(KINDS))),
        )
        optimiser = torch.optim.Adam(model.parameters(), 3e-3)
        feed = train.to_torch()
        for epoch in range(10):
            losses = []
            for images, labels in feed:
                loss = nn.functional.cross_entropy(model(images), labels)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")
        model.eval()
        print(f"test accuracy {accuracy(model, test):.2f}")


if __name__ == "__main__":
    main()
