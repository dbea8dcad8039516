"""What headrace wrote, TensorFlow reads."""

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_tensorflow_reads_what_was_written(tmp_path, compression):
    ds = hr.Dataset.range(2000).map(
        lambda x: {"x": x, "half": np.float32(x / 2), "name": f"row {x}", "ids": np.arange(x % 3), "nest": {"y": -x}}
    )
    files = ds.write_tfrecord(tmp_path / "train", shards=3, compression=compression or None)
    features = {
        "x": tf.io.FixedLenFeature([], tf.int64),
        "half": tf.io.FixedLenFeature([], tf.float32),
        "name": tf.io.FixedLenFeature([], tf.string),
        "ids": tf.io.RaggedFeature(tf.int64),
        "nest/y": tf.io.FixedLenFeature([], tf.int64),
    }
    read = tf.data.TFRecordDataset(files, compression).batch(2000).map(lambda r: tf.io.parse_example(r, features))
    (rows,) = read.as_numpy_iterator()
    assert rows["x"].tolist() == list(range(2000))
    assert rows["nest/y"].tolist() == [-x for x in range(2000)]
    assert rows["half"].tolist() == [x / 2 for x in range(2000)]
    assert rows["name"].tolist() == [f"row {x}".encode() for x in range(2000)]
    assert [ids.tolist() for ids in rows["ids"]] == [list(range(x % 3)) for x in range(2000)]


def test_from_tfrecord_reads_what_tensorflow_wrote(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for i in range(100):
            ids = tf.train.Feature(int64_list=tf.train.Int64List(value=range(i % 4)))
            name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[f"row {i}".encode()]))
            features = tf.train.Features(feature={"ids": ids, "name": name})
            writer.write(tf.train.Example(features=features).SerializeToString())
    rows = list(hr.Dataset.from_tfrecord(tmp_path / "*.tfrecord"))
    assert [r["ids"].tolist() for r in rows] == [list(range(i % 4)) for i in range(100)]
    assert [r["name"] for r in rows] == [f"row {i}".encode() for i in range(100)]
