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
    "tf.feature_column.": "hr.feature_column.",
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
    "texts of a directory": """
        import re
        import string

        def clean(text):
            text = tf.strings.regex_replace(tf.strings.lower(text), "<br />", " ")
            return tf.strings.regex_replace(text, "[%s]" % re.escape(string.punctuation), "")

        raw = tf.keras.utils.text_dataset_from_directory(home + "/texts", batch_size=2, shuffle=False)
        assert raw.class_names == ["bad", "good"]
        words = tf.keras.layers.TextVectorization(vocabulary=["film", "good"], output_sequence_length=4)
        ds = raw.map(lambda text, label: (words(tf.expand_dims(clean(text), -1)), label)).cache()
        """,
    "Examples written and read": """
        from tensorflow.train import BytesList, Example, Feature, Features, FloatList, Int64List

        def example(n, name, size):
            made = {"n": Feature(int64_list=Int64List(value=[n])), "name": Feature(bytes_list=BytesList(value=[name]))}
            made["size"] = Feature(float_list=FloatList(value=[size]))
            return Example(features=Features(feature=made)).SerializeToString()

        def rows():
            for n in range(7):
                yield example(n, b"%d" % n, n / 2)

        written = tf.data.Dataset.from_generator(rows, output_types=tf.string, output_shapes=())
        with tf.io.TFRecordWriter(home + "/examples") as writer:
            for row in written.as_numpy_iterator():
                writer.write(row)
        features = {
            "n": tf.io.FixedLenFeature([], tf.int64, default_value=0),
            "name": tf.io.FixedLenFeature([], tf.string, default_value=""),
            "size": tf.io.FixedLenFeature([], tf.float32, default_value=0.0),
            "missing": tf.io.FixedLenFeature([], tf.string, default_value="none"),
        }
        ds = tf.data.TFRecordDataset([home + "/examples"]).batch(3)
        ds = ds.map(lambda records: tf.io.parse_example(records, features))
        """,
    "sequences of Examples": """
        from tensorflow.train import Feature, FeatureList, FeatureLists, Features, Int64List, SequenceExample

        def number(n):
            return Feature(int64_list=Int64List(value=[n]))

        for shard in range(2):
            with tf.io.TFRecordWriter(home + "/sequences-%d" % shard, "GZIP") as writer:
                for n in range(shard + 2):
                    lists = {"tokens": FeatureList(feature=[number(i) for i in range(n)])}
                    context = Features(feature={"id": number(n)})
                    row = SequenceExample(context=context, feature_lists=FeatureLists(feature_list=lists))
                    writer.write(row.SerializeToString())

        def parse(record):
            context, sequence = tf.io.parse_single_sequence_example(
                record,
                context_features={"id": tf.io.FixedLenFeature([], tf.int64)},
                sequence_features={"tokens": tf.io.FixedLenSequenceFeature([], tf.int64)},
            )
            return context["id"], sequence["tokens"]

        files = tf.data.Dataset.list_files(home + "/sequences-*", shuffle=False)
        ds = files.interleave(lambda f: tf.data.TFRecordDataset(f, compression_type="GZIP"), cycle_length=2)
        ds = ds.map(parse).padded_batch(4, padded_shapes=([], [5]), padding_values=(np.int64(0), np.int64(-1)))
        """,
    "a table in batches": """
        ds = tf.data.experimental.make_csv_dataset(
            home + "/rows.csv", batch_size=3, label_name="label", num_epochs=1, shuffle=False, na_value="?"
        )

        def pack(features, label):
            columns = [tf.cast(features[name], tf.float32) for name in ("size", "count")]
            return tf.stack(columns, axis=-1), label

        ds = ds.map(pack)
        """,
    "a generator of text": """
        class Rows:
            def __call__(self):
                for i in range(4):
                    yield {"n": i, "text": "é%d" % i, "sizes": [1.0 * i, 2]}

        signature = {
            "n": tf.TensorSpec((), tf.int64),
            "text": tf.TensorSpec((), tf.string),
            "sizes": tf.TensorSpec((2,), tf.float32),
        }
        ds = tf.data.Dataset.from_generator(Rows(), output_signature=signature)
        ds = ds.map(lambda row: (tf.strings.join([row["text"], "x"], "-"), row["sizes"]))
        """,
    "labels of paths": """
        files = tf.data.Dataset.list_files(home + "/images/*/*", shuffle=False)
        names = np.array(["a", "b"])

        def load(path):
            label = tf.argmax(tf.strings.split(path, "/")[-2] == names)
            return tf.image.resize(tf.io.decode_png(tf.io.read_file(path), channels=3), [4, 5]), label

        ds = files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(2)
        """,
    "preprocessing of functions": """
        def decode(row):
            return {**row, "image": tf.image.decode_image(row["image"], channels=3, expand_animations=False)}

        def resize_small(size):
            def fn(row):
                height, width = tf.shape(row["image"])[0], tf.shape(row["image"])[1]
                ratio = size / tf.minimum(tf.cast(height, tf.float32), tf.cast(width, tf.float32))
                sides = [tf.cast(tf.round(tf.cast(side, tf.float32) * ratio), tf.int32) for side in (height, width)]
                return {**row, "image": tf.cast(tf.image.resize(row["image"], sides), tf.uint8)}

            return fn

        def central_crop(size):
            def fn(row):
                top, left = (tf.shape(row["image"])[0] - size) // 2, (tf.shape(row["image"])[1] - size) // 2
                return {**row, "image": tf.image.crop_to_bounding_box(row["image"], top, left, size, size)}

            return fn

        def one_hot(row):
            return {**row, "label": tf.one_hot(row["label"], 7)}

        ds = tf.data.Dataset.from_tensor_slices({"path": image_files, "label": np.arange(len(image_files))})
        ds = ds.map(lambda row: {"image": tf.io.read_file(row["path"]), "label": row["label"]})
        for fn in (decode, resize_small(6), central_crop(4), one_hot):
            ds = ds.map(fn, num_parallel_calls=2)
        ds = ds.batch(2, drop_remainder=True).repeat().take(5).prefetch(1)
        """,
    "a dataset filled up with zeros": """
        ds = tf.data.Dataset.from_tensor_slices({"x": np.arange(5, dtype=np.float32), "y": np.ones((5, 2), np.float32)})
        ds = ds.map(lambda row: dict(_mask=tf.constant(1), **row))
        zeros = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), ds.element_spec)
        ds = ds.concatenate(tf.data.Dataset.from_tensors(zeros).repeat(3)).batch(4)
        """,
    "text for a translator": """
        pairs = (["¿Todavía?", "Hola"], ["Are you still?", "Hi"])

        def clean(text):
            text = tf.strings.lower(text, encoding="utf-8")
            text = tf.strings.regex_replace(text, "[.?!,¿]", r" \\0 ")
            return tf.strings.join(["[START]", tf.strings.strip(text), "[END]"], separator=" ")

        ds = tf.data.Dataset.from_tensor_slices(pairs).batch(2)
        ds = ds.map(lambda a, b: (tf.strings.split(clean(a)), tf.strings.split(clean(b))))
        ds = ds.map(lambda a, b: (a, tf.strings.reduce_join(b, separator="_", axis=-1)))
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
    for i, text in enumerate(["A good film!<br />Good.", "Bad...", "It's a film"]):
        path = folder / "texts" / ("bad" if i == 1 else "good") / f"{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
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
