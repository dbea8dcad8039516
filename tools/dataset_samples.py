"""Draw the sample pictures of the pages of public datasets: `python tools/dataset_samples.py [--data-dir DIR]`.

Datasets that are prepared in DIR (by default TFDS_DATA_DIR or ~/tensorflow_datasets) are shown as they are. For the
others, pictures are made up: of the same sizes, channels and classes, with the name of the class on them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import headrace as hr
from headrace.datasets.declare import PublicDataset
from headrace.datasets.pages import image_of
from headrace.datasets.public import public_configs, public_names

FOLDER = Path(__file__).resolve().parents[1] / "docs/datasets/samples"
SHOWN, CELL, CAPTION = 8, 96, 16
PHOTO = (120, 160)
"""Height and width of made-up pictures of datasets whose pictures differ in size."""
COLORS = 48


def rows_of(dataset: PublicDataset, data_dir: str | None) -> Iterator[tuple[Any, str]]:
    """Yield pictures and the names of their classes: of the prepared dataset, or made up."""
    image, label = image_of(dataset), dataset.feature.children().get("label")
    names = getattr(label, "names", None) or []
    try:
        ds = hr.load(dataset.name, split=next(iter(dataset.row_counts)), data_dir=data_dir, download=False)
    except FileNotFoundError:
        for number in range(SHOWN):
            at = number * max(1, len(names) // SHOWN) % max(1, len(names))
            name = str(names[at]) if names else str(number)
            yield made_up(dataset.feature.children()[image].shape, number, name), name
        return
    for row in ds.take(SHOWN):
        yield row[image], str(names[int(row["label"])]) if names else ""


def made_up(shape: tuple[int | None, ...], seed: int, name: str) -> Any:
    """Return a picture of this shape: soft shapes, with the name on it; light on black if it is grey and small."""
    height, width, channels = (known or default for known, default in zip(shape, (*PHOTO, 3), strict=True))
    rng = np.random.default_rng(seed)
    grey = channels == 1
    coarse = rng.integers(60, 220, (3, 3, 3)).astype(np.uint8)
    base = Image.new("L", (width, height)) if grey else Image.fromarray(coarse).resize((width, height), Image.BICUBIC)
    draw = ImageDraw.Draw(base)
    text = name if len(name) <= 2 or not grey else name[:1].upper()
    size = int(height * 0.8) if grey else max(9, min(height // 5, 2 * width // max(4, len(text))))
    where = (width / 2 + rng.integers(-1, 2), height / 2 + rng.integers(-1, 2))
    draw.text(where, text, 255 if grey else (255, 255, 255), ImageFont.load_default(size), anchor="mm")
    return np.asarray(base).reshape(height, width, channels)


def sheet(rows: list[tuple[Any, str]]) -> Image.Image:
    """Return pictures side by side, each with its name below."""
    made = Image.new("RGB", (SHOWN * CELL, CELL + CAPTION), "white")
    draw, font = ImageDraw.Draw(made), ImageFont.load_default(10)
    for number, (pixels, name) in enumerate(rows):
        picture = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).convert("RGB")
        scale = (CELL - 6) / max(picture.size)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        picture = picture.resize(size, Image.NEAREST if scale > 1 else Image.BICUBIC)
        left = number * CELL
        made.paste(picture, (left + (CELL - size[0]) // 2, (CELL - size[1]) // 2))
        shown = name if len(name) <= 16 else f"{name[:15]}…"
        draw.text((left + CELL / 2, CELL + CAPTION / 2 - 2), shown, "black", font, anchor="mm")
    return made.quantize(COLORS)


def main() -> None:
    """Draw a sheet for each dataset that has pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", help="where prepared datasets are")
    given = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name in public_names():
        dataset = next(iter(public_configs(name).values()))
        if image_of(dataset) is not None:
            sheet(list(rows_of(dataset, given.data_dir))).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
