"""Training as on ImageNet, on synthetic JPEGs: augmented on the CPU, and by `device=` in batches where the model is.

    python examples/imagenet_torch.py                              # small, on whatever is there
    python examples/imagenet_torch.py --device cuda --images 20000 --model resnet50 --batch 256

It prints the images per second and the share of the time that the trainer waited for data, both ways.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import headrace as hr

CLASSES = 10
FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}
MEAN, DEVIATION = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


def write_jpegs(folder, count, height=125, width=167):
    """Pictures of stripes whose direction and width tell the class, in four TFRecord files."""
    y, x = np.mgrid[:height, :width]

    def picture(i):
        rng = np.random.default_rng(i)
        label = i % CLASSES
        angle, period = np.pi * label / CLASSES, 8 + 4 * (label % 3)
        wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period + rng.uniform(0, 6))
        pixels = 128 + wave[..., None] * rng.uniform(40, 90, 3) + rng.normal(0, 8, (height, width, 3))
        return {"image": hr.image.encode_jpeg(np.clip(pixels, 0, 255).astype(np.uint8), quality=90), "label": label}

    hr.Dataset.range(count).map(lambda i: picture(int(i)), mode="eager").write_tfrecord(folder / "pictures", shards=4)
    return str(folder / "pictures-*.tfrecord")


def parse(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return row["image"], row["label"]


def augment_to(size):
    def augment(jpeg, label, rng):
        # The transform and upsampling of the GPU's decoder, so that pixels are the same on both.
        image = hr.image.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE", fancy_upscaling=False)
        image = hr.image.random_resized_crop(image, (size, size), rng)
        image = hr.image.random_flip_left_right(image, rng)
        return (image / np.float32(255) - MEAN) / DEVIATION, label

    return augment


def batches(files, size, batch, device):
    """The pipeline: with a device the map runs there, without one in NumPy on the CPU's threads."""
    ds = hr.TFRecordDataset(hr.Dataset.list_files(files, seed=0)).map(parse).shuffle(2000, seed=0)
    how = {"num_parallel_calls": hr.AUTOTUNE} if device is None else {"device": device}
    ds = ds.random_map(augment_to(size), seed=0, **how)
    return ds.batch(batch, drop_remainder=True)


def make_model(name):
    if name == "small":
        layers = [nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, CLASSES))
    import torchvision

    return getattr(torchvision.models, name)(num_classes=CLASSES)


def train(feed, model, device, epochs):
    """Train; return images per second and the share of the time that was spent waiting, both after the first step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    images, waited, started = 0, 0.0, None
    for _ in range(epochs):
        it = iter(feed)
        while True:
            asked = time.perf_counter()
            try:
                x, y = next(it)
            except StopIteration:
                break
            if started is not None:
                waited += time.perf_counter() - asked
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if started is None:
                started = time.perf_counter()  # the first step loads and chooses kernels
            else:
                images += len(x)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    return images / seconds, waited / seconds, loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--model", default="small", help="small, or a name of torchvision.models")
    given = parser.parse_args()
    device = torch.device(given.device)
    with tempfile.TemporaryDirectory() as name:
        files = write_jpegs(Path(name), given.images)
        for how in (None, given.device):
            torch.manual_seed(0)
            model = make_model(given.model).to(device, memory_format=torch.channels_last)
            ds = batches(files, given.size, given.batch, how)
            feed = ds.to_torch(device=given.device, layout="NCHW")
            rate, waited, loss = train(feed, model, device, given.epochs)
            where = "augmented by NumPy" if how is None else f"augmented on {how} in batches"
            print(f"{where}: {rate:,.0f} images/s, waited for data {waited:.0%} of the time, loss {loss:.4f}")


if __name__ == "__main__":
    main()
