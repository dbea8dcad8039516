"""Small programs as people write them for tf.data, ported by search and replace alone: element by element the same."""

from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from tests.interop.conftest import plain

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

REPLACED = {
    "tf.data.": "hr.",
    "tf.io.": "hr.io.",
    "tf.image.": "hr.image.",
    "tf.strings.": "hr.strings.",
    "tf.keras.utils.": "hr.",
    "tfds.": "hr.tfds.",
}

PROGRAMS = {
    "lines of a CSV file": """
        def parse(line):
            fields = tf.io.decode_csv(line, [[0.0], [0], [""]])
            return {"size": fields[0], "count": fields[1]}, fields[2]

        ds = tf.data.TextLineDataset(home + "/rows.csv").skip(1).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.filter(lambda features, label: features["count"] > 1).batch(2).prefetch(tf.data.AUTOTUNE)
        """,
    "records of Examples": """
        features = {
            "label": tf.io.FixedLenFeature([], tf.int64),
            "pixels": tf.io.FixedLenFeature([], tf.string),
            "weight": tf.io.FixedLenFeature([2], tf.float32, default_value=[0.0, 1.0]),
        }

        def parse(record):
            example = tf.io.parse_single_example(record, features)
            pixels = tf.io.decode_raw(example["pixels"], tf.uint8)
            return tf.cast(pixels, tf.float32) / 255.0, example["label"], example["weight"]

        files = tf.data.Dataset.list_files(home + "/*.tfrecord", shuffle=False)
        ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2, block_length=1)
        ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(3, drop_remainder=True)
        """,
    "images by the names of files": """
        def load(path, label):
            image = tf.io.read_file(path)
            image = tf.image.decode_image(image, channels=3, expand_animations=False)
            image = tf.image.resize(image, [4, 6], method=tf.image.ResizeMethod.BILINEAR)
            return tf.image.flip_left_right(image) / 255.0, label

        ds = tf.data.Dataset.from_tensor_slices((image_files, np.arange(len(image_files)))).map(load).batch(2)
        """,
    "images of a directory": """
        train, ds = tf.keras.utils.image_dataset_from_directory(
            home + "/images", validation_split=0.4, subset="both", image_size=(4, 4), batch_size=2, shuffle=False
        )
        """,
    "words of text": """
        def words(line):
            line = tf.strings.regex_replace(tf.strings.lower(tf.strings.strip(line)), "[^a-z ]", "")
            return tf.strings.split(line)

        ds = tf.data.TextLineDataset([home + "/text.txt"]).map(words).ragged_batch(2)
        """,
    "windows of a series": """
        ds = tf.data.Dataset.range(12).window(5, shift=2, drop_remainder=True)
        ds = ds.flat_map(lambda window: window.batch(5)).map(lambda window: (window[:-1], window[-1])).batch(2)
        """,
    "a generator in buckets": """
        def rows():
            for n in (1, 4, 2, 5, 3, 1):
                yield np.full(n, n, np.float32), n

        signature = (tf.TensorSpec([None], tf.float32), tf.TensorSpec([], tf.int32))
        ds = tf.data.Dataset.from_generator(rows, output_signature=signature)
        ds = ds.bucket_by_sequence_length(
            lambda row, n: tf.shape(row)[0], bucket_boundaries=[3], bucket_batch_sizes=[2, 2]
        )
        """,
    "shares and epochs": """
        images = tf.data.Dataset.from_tensor_slices(np.arange(12, dtype=np.float32).reshape(6, 2))
        labels = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.int32))
        ds = tf.data.Dataset.zip((images, labels)).cache().shard(2, 1).repeat(2).enumerate(start=1).skip(1).take(4)
        """,
    "a choice of datasets": """
        parts = [tf.data.Dataset.from_tensors(name).repeat() for name in ("a", "b", "c")]
        choice = tf.data.Dataset.range(3).repeat(2)
        ds = tf.data.Dataset.choose_from_datasets(parts, choice)
        """,
    "groups and sums": """
        ds = tf.data.Dataset.range(10)
        ds = ds.group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), window_size=3)
        ds = ds.scan(np.int64(0), lambda total, batch: (total + batch[0], (total, batch)))
        """,
    "what was experimental": """
        writer = tf.data.experimental.TFRecordWriter(home + "/written")
        writer.write(tf.data.Dataset.from_tensor_slices([b"one", b"two", b"three"]))
        ds = tf.data.TFRecordDataset(home + "/written").batch(2).apply(tf.data.experimental.unbatch())
        ds = tf.data.Dataset.zip((ds, tf.data.experimental.Counter(5)))
        assert int(tf.data.experimental.cardinality(tf.data.Dataset.range(3))) == 3
        """,
    "a dataset of TFDS": """
        builder = tfds.builder_from_directory(home + "/digits/1.0.0")
        builder.download_and_prepare()
        config = tfds.ReadConfig(shuffle_seed=1)
        ds = builder.as_dataset(split=tfds.Split.TRAIN + "[:60%]", as_supervised=True, read_config=config)
        ds = ds.map(lambda image, label: (tf.cast(image, tf.float32) / 255.0, label)).batch(4)
        ds = tfds.as_numpy(ds)
        """,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    (folder / "rows.csv").write_text("size,count,label\n1.5,1,a\n2.5,2,b\n3.5,3,c\n4.5,4,d\n")
    (folder / "text.txt").write_text(" One two!\nTHREE\n\nfour, five six\n")
    rng = np.random.default_rng(0)
    for shard in range(2):
        with hr.io.TFRecordWriter(folder / f"{shard}.tfrecord") as writer:
            for label in range(4):
                writer.write({"label": label + 10 * shard, "pixels": rng.integers(0, 256, 5, np.uint8).tobytes()})
    for i in range(5):
        path = folder / "images" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(hr.image.encode_png(rng.integers(0, 256, (5 + i, 7, 3), np.uint8)))
    images = rng.integers(0, 256, (10, 4, 4, 1), np.uint8)
    features = {"image": hr.tfds.features.Image(shape=(4, 4, 1)), "label": hr.tfds.features.ClassLabel(num_classes=3)}
    digits = hr.Dataset.from_tensor_slices({"image": images, "label": np.arange(10) % 3})
    digits.write_tfds(folder, "digits", features=features, supervised_keys=("image", "label"))
    return str(folder)


def elements(program, home, **modules):
    """What `ds` is when the program has run."""
    files = sorted(map(str, Path(home, "images").rglob("*.png")))
    names = {"np": np, "home": home, "image_files": files, **modules}
    source = "\n".join(line.removeprefix(" " * 8) for line in program.splitlines())
    exec(compile(source, "<program>", "exec", dont_inherit=True), names)
    return [plain(element) for element in names["ds"]]


def ported(program):
    for theirs, ours in REPLACED.items():
        program = program.replace(theirs, ours)
    return program


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_program_gives_the_same_elements(what, home):
    program = PROGRAMS[what]
    modules = {"tf": tf, "hr": hr}
    if "tfds." in program:
        modules["tfds"] = pytest.importorskip("tensorflow_datasets")
    expected = elements(program, home, **modules)
    assert expected
    assert elements(ported(program), home, hr=hr, tf=tf) == expected
