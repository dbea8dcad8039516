"""Small datasets that real TFDS prepares: every kind of feature, configs, versions, formats and numbers of shards."""

import io
import json
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

F = tfds.features


def jpeg(i, size=(24, 17)):
    """A picture with colours that the decoders could disagree about."""
    rng = np.random.default_rng(i)
    coarse = rng.integers(0, 255, (4, 4, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(coarse).resize((size[0] + i % 3, size[1])).save(out, "JPEG", quality=80)
    return out.getvalue()


class Everything(tfds.core.GeneratorBasedBuilder):
    """One feature of each kind."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="All there is.",
            citation="@misc{nobody}",
            homepage="https://example.com",
            supervised_keys=("png", "label"),
            features=F.FeaturesDict(
                {
                    "i": np.int64,
                    "small": F.Scalar(np.uint8),
                    "flag": np.bool_,
                    "big": np.uint64,
                    "half": np.float32,
                    "double": np.float64,
                    "text": F.Text(),
                    "raw": F.Tensor(shape=(), dtype=np.object_),
                    "words": F.Tensor(shape=(2,), dtype=np.object_),
                    "matrix": F.Tensor(shape=(2, 3), dtype=np.int32),
                    "rows": F.Tensor(shape=(None, 3), dtype=np.float32),
                    "columns": F.Tensor(shape=(2, None), dtype=np.int16),
                    "exact": F.Tensor(shape=(2, 2), dtype=np.float64, encoding="bytes"),
                    "packed": F.Tensor(shape=(None, 4), dtype=np.uint16, encoding="zlib"),
                    "free": F.Tensor(shape=(None, None), dtype=np.int64, encoding="zlib"),
                    "perhaps": F.Scalar(np.int32, optional=True),
                    "label": F.ClassLabel(names=["ant", "bee", "cat"]),
                    "png": F.Image(shape=(5, 4, 1)),
                    "jpeg": F.Image(),
                    "colour": F.Image(shape=(None, None, 3), encoding_format="png"),
                    "alpha": F.Image(shape=(3, 3, 4)),
                    "deep": F.Image(shape=(4, 3, 1), dtype=np.uint16),
                    "depth": F.Image(shape=(3, 4, 1), dtype=np.float32),
                    "mask": F.LabeledImage(labels=3, shape=(None, None, 1)),
                    "video": F.Video(shape=(None, 4, 4, 3)),
                    "box": F.BBoxFeature(),
                    "sound": F.Audio(shape=(None,), dtype=np.int16),
                    "wave": F.Audio(shape=(None, 2), dtype=np.int32),
                    "speech": F.Translation(languages=["de", "en"]),
                    "tongues": F.TranslationVariableLanguages(languages=["de", "en", "fr"]),
                    "numbers": F.Sequence(np.int64),
                    "three": F.Sequence(np.float32, length=3),
                    "strings": F.Sequence(F.Text()),
                    "labels": F.Sequence(F.ClassLabel(num_classes=5)),
                    "boxes": F.Sequence({"box": F.BBoxFeature(), "name": F.Text()}),
                    "pictures": F.Sequence(F.Image(shape=(2, 2, 3))),
                    "sizes": F.Sequence(F.Image()),
                    "nested": F.Sequence(F.Sequence(np.int64)),
                    "deeper": F.Sequence(F.Sequence(F.Sequence(F.Text()))),
                    "tensors": F.Sequence(F.Tensor(shape=(2,), dtype=np.float32)),
                    "ragged": F.Sequence({"ids": F.Sequence(np.int32), "at": np.int64}),
                    "inner": {"deep": {"x": np.int64, "y": F.Text()}},
                    "steps": F.Dataset(
                        {"observation": F.Image(shape=(3, 2, 3)), "reward": np.float32, "note": F.Text()}
                    ),
                    "counts": F.Dataset(np.int64),
                }
            ),
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(37), "test": self._generate_examples(3)}

    def _generate_examples(self, n):
        for i in range(n):
            yield f"key{i}", example(i)


def example(i):
    rng = np.random.default_rng(1000 + i)
    k = i % 4
    return {
        "i": i,
        "small": i % 256,
        "flag": i % 2 == 0,
        "big": 2**64 - 1 - i,
        "half": i / 3,
        "double": i / 7,
        "text": "é" * k,
        "raw": bytes([0, i, 255]),
        "words": [b"a" * i, b""],
        "matrix": np.arange(6, dtype=np.int32).reshape(2, 3) - i,
        "rows": rng.random((k, 3), np.float32),
        "columns": rng.integers(-9, 9, (2, k)).astype(np.int16),
        "exact": rng.random((2, 2)),
        "packed": rng.integers(0, 60000, (k, 4)).astype(np.uint16),
        "free": rng.integers(0, 9, (k, 2 + i % 2)),
        "perhaps": None if i % 3 else i,
        "label": -1 if i == 5 else ["ant", "bee", "cat"][i % 3],
        "png": rng.integers(0, 255, (5, 4, 1)).astype(np.uint8),
        "jpeg": io.BytesIO(jpeg(i)),
        "colour": rng.integers(0, 255, (2 + k, 3, 3)).astype(np.uint8),
        "alpha": rng.integers(0, 255, (3, 3, 4)).astype(np.uint8),
        "deep": rng.integers(0, 65535, (4, 3, 1)).astype(np.uint16),
        "depth": rng.random((3, 4, 1), np.float32),
        "mask": rng.integers(0, 3, (3, 2 + k, 1)).astype(np.uint8),
        "video": rng.integers(0, 255, (k, 4, 4, 3)).astype(np.uint8),
        "box": F.BBox(0.1, 0.2, 0.5, 0.75),
        "sound": rng.integers(-99, 99, 5 + k).astype(np.int16),
        "wave": rng.integers(-99, 99, (k, 2)).astype(np.int32),
        "speech": {"de": f"Zahl {i}", "en": f"number {i}"},
        "tongues": {"en": "a", "fr": ["b", "c"]} if k else {"de": "x"},
        "numbers": list(range(k)),
        "three": [i, 0.5, -1],
        "strings": ["ab"] * k,
        "labels": [i % 5] * k,
        "boxes": [{"box": F.BBox(0.0, 0.0, 0.5, 1.0), "name": f"n{j}"} for j in range(k)],
        "pictures": [rng.integers(0, 255, (2, 2, 3)).astype(np.uint8) for _ in range(k)],
        "sizes": [rng.integers(0, 255, (1 + k, 2, 3)).astype(np.uint8) for _ in range(k)],
        "nested": [list(range(j)) for j in range(k)],
        "deeper": [[["x"] * j for j in range(m)] for m in range(k)],
        "tensors": [[j, j + 0.5] for j in range(k)],
        "ragged": [{"ids": list(range(j)), "at": j} for j in range(k)],
        "inner": {"deep": {"x": -i, "y": str(i)}},
        "steps": [
            {"observation": rng.integers(0, 255, (3, 2, 3)).astype(np.uint8), "reward": j / 2, "note": f"s{j}"}
            for j in range(k)
        ],
        "counts": list(range(k)),
    }


class Numbers(tfds.core.GeneratorBasedBuilder):
    """Rows that say which they are, in as many shards as one likes."""

    VERSION = tfds.core.Version("1.2.0")
    SIZES = {"train": 75, "test": 20}
    ORDERED = False

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=F.FeaturesDict({"i": np.int64, "name": F.Text()}),
            supervised_keys=("i", "name"),
            disable_shuffling=self.ORDERED,
        )

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(n) for name, n in self.SIZES.items()}

    def _generate_examples(self, n):
        for i in range(n):
            yield i, {"i": i, "name": f"row {i}"}


class Ordered(Numbers):
    """Numbers in an order of their own."""

    VERSION = tfds.core.Version("1.0.0")
    ORDERED = True
    SIZES = {"train": 70}


class Configured(Numbers):
    """Numbers of several configs."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(name="few", version="1.0.0", description="Some."),
        tfds.core.BuilderConfig(name="many", version="1.0.0"),
    ]
    SIZES = {"train": 6}


class Hollow(Numbers):
    """Numbers with a split of which nothing came."""

    VERSION = tfds.core.Version("1.0.0")
    SIZES = {"train": 130, "test": 1}


class Hundred(Numbers):
    """Numbers in a hundred files."""

    VERSION = tfds.core.Version("1.0.0")
    SIZES = {"train": 1730}


def prepare(builder, shards=None):
    """Have TFDS write it."""
    config = tfds.download.DownloadConfig(num_shards=shards) if shards else None
    builder.download_and_prepare(download_config=config)
    return builder


def copy_version(folder, version, other):
    """A version that differs in its number alone, as one that was prepared before."""
    there = shutil.copytree(folder / version, folder / other)
    page = there / "dataset_info.json"
    page.write_text(json.dumps(json.loads(page.read_text()) | {"version": other}))


def add_empty_split(folder):
    """A split without rows, of which TFDS writes no file."""
    page = folder / "dataset_info.json"
    said = json.loads(page.read_text())
    said["splits"].append({"name": "none", "shardLengths": [], "numBytes": "0"})
    page.write_text(json.dumps(said))


def prepare_all(data_dir):
    """Every toy there is."""
    prepare(Everything(data_dir=data_dir))
    prepare(Numbers(data_dir=data_dir), 3)
    for version in ("1.0.0", "1.10.0", "2.0.1"):
        copy_version(data_dir / "numbers", "1.2.0", version)
    prepare(Ordered(data_dir=data_dir), 7)
    prepare(Hollow(data_dir=data_dir), 1)
    add_empty_split(data_dir / "hollow/1.0.0")
    for config in ("few", "many"):
        prepare(Configured(data_dir=data_dir, config=config))
    for form in ("array_record", "parquet"):
        prepare(Numbers(data_dir=data_dir / "formats" / form, file_format=form), 3)
    prepare(Hundred(data_dir=data_dir), 100)
