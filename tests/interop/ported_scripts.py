"""Small programs as people write them for tf.data, for `headrace port`; each leaves its results in `results`."""

SCRIPTS = {
    "csv": '''
        """Read a table of measurements."""
        import tensorflow as tf


        def parse_line(line):
            size, count, name = tf.io.decode_csv(line, [[0.0], [0], [""]])
            return {"size": tf.math.sqrt(size), "count": count}, name


        table = tf.data.TextLineDataset(home + "/rows.csv").skip(1)
        table = table.map(parse_line, num_parallel_calls=tf.data.AUTOTUNE)
        table = table.filter(lambda features, name: features["count"] > 2).batch(2)
        results = [(f["size"].numpy(), f["count"].numpy(), n.numpy()) for f, n in table]
        ''',
    "records": """
        import tensorflow as tf

        SCHEMA = {
            "label": tf.io.FixedLenFeature([], tf.int64),
            "pixels": tf.io.FixedLenFeature([], tf.string),
        }


        @tf.function
        def decode(serialized):
            example = tf.io.parse_single_example(serialized, SCHEMA)
            pixels = tf.io.decode_raw(example["pixels"], tf.uint8)
            pixels.set_shape([4])
            return scale(pixels), tf.one_hot(example["label"], 3)


        def scale(pixels):
            return tf.reshape(tf.cast(pixels, tf.float32) / 255.0, [2, 2])


        def input_fn(pattern, batch_size):
            files = tf.data.Dataset.list_files(pattern, shuffle=False)
            parallel = tf.data.experimental.AUTOTUNE
            ds = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=parallel)
            return ds.map(decode).batch(batch_size, drop_remainder=True).prefetch(1)


        results = []
        for pixels, label in input_fn(home + "/*.tfrecord", 2):
            results.append((pixels.numpy(), label.numpy()))
        """,
    "image files": """
        import tensorflow as tf

        IMG_SIZE = [4, 6]


        def load(path):
            image = tf.io.decode_png(tf.io.read_file(path), channels=3)
            image = tf.image.convert_image_dtype(image, tf.float32)
            return tf.image.resize(image, IMG_SIZE)


        paths = tf.data.Dataset.list_files(home + "/images/*/*.png", shuffle=False)
        images = paths.map(load).map(tf.image.flip_left_right).batch(3)
        results = [batch.numpy() for batch in images]
        """,
    "image directory": """
        import tensorflow as tf

        train = tf.keras.utils.image_dataset_from_directory(
            home + "/images", image_size=(4, 4), batch_size=2, shuffle=False, label_mode="int"
        )
        train = train.map(lambda x, y: (tf.cast(x, tf.float32) / 127.5 - 1.0, y))
        results = [(x.numpy(), y.numpy()) for x, y in train]
        """,
    "words": """
        import tensorflow as tf

        lines = tf.data.TextLineDataset([home + "/poem.txt"])
        words = lines.map(lambda line: tf.strings.lower(line)).filter(lambda line: tf.strings.length(line) > 0)
        words = words.map(lambda line: tf.strings.split(line)).flat_map(tf.data.Dataset.from_tensor_slices)
        results = [word.numpy() for word in words.unique().take(6)]
        """,
    "series": """
        import numpy as np
        import tensorflow as tf

        series = np.arange(12, dtype=np.float32)
        ds = tf.data.Dataset.from_tensor_slices(series)
        ds = ds.window(5, shift=1, drop_remainder=True)
        ds = ds.flat_map(lambda window: window.batch(5))
        ds = ds.map(lambda window: (window[:-1], window[-1:]))
        results = [(x.numpy(), y.numpy()) for x, y in ds.batch(4).prefetch(1)]
        """,
    "generator": """
        import tensorflow as tf


        def count():
            for i in range(5):
                yield i, [i] * (i + 1)


        ds = tf.data.Dataset.from_generator(
            count, output_signature=(tf.TensorSpec((), tf.int32), tf.TensorSpec((None,), tf.int64))
        )
        ds = ds.padded_batch(2, padded_shapes=([], [None]))
        results = [(a.numpy(), b.numpy()) for a, b in ds]
        """,
    "python functions": """
        import numpy as np
        import tensorflow as tf


        def plain_python(x, y):
            return np.float32(x * 2 + y)


        def wrapped(x):
            y = tf.numpy_function(plain_python, [x, 1.0], tf.float32)
            return tf.ensure_shape(y, [])


        ds = tf.data.Dataset.from_tensor_slices(np.arange(4, dtype=np.float32)).map(wrapped)
        results = [float(v.numpy()) for v in ds]
        """,
    "from imports": """
        from tensorflow.data import AUTOTUNE, Dataset
        from tensorflow.data.experimental import ignore_errors

        ds = Dataset.range(8).map(lambda x: x * x, num_parallel_calls=AUTOTUNE).apply(ignore_errors())
        results = list(ds.batch(3).as_numpy_iterator())
        """,
    "class": """
        import numpy as np
        import tensorflow as tf


        class Pipeline:
            def __init__(self, mean):
                self.mean = mean

            def center(self, x):
                return tf.cast(x, tf.float32) - self.mean

            def transform(self, x):
                return tf.concat([self.center(x), tf.zeros([1])], axis=0)

            def dataset(self, values):
                return tf.data.Dataset.from_tensor_slices(values).map(self.transform).batch(2)


        ds = Pipeline(1.5).dataset(np.arange(12).reshape(4, 3))
        results = [batch for batch in ds.as_numpy_iterator()]
        """,
    "write and read": """
        import tensorflow as tf


        def to_example(i):
            feature = {"x": tf.train.Feature(int64_list=tf.train.Int64List(value=[i, i * i]))}
            return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


        with tf.io.TFRecordWriter(home + "/squares.out") as writer:
            for i in range(6):
                writer.write(to_example(i))

        spec = {"x": tf.io.FixedLenFeature([2], tf.int64)}
        ds = tf.data.TFRecordDataset(home + "/squares.out").batch(4)
        ds = ds.map(lambda serialized: tf.io.parse_example(serialized, spec)["x"])
        results = [x.numpy() for x in ds]
        """,
    "buckets": """
        import tensorflow as tf

        ds = tf.data.Dataset.range(1, 9).map(lambda n: tf.range(n))
        ds = ds.bucket_by_sequence_length(
            element_length_func=lambda x: tf.shape(x)[0],
            bucket_boundaries=[4, 7],
            bucket_batch_sizes=[3, 3, 3],
        )
        results = [batch.numpy() for batch in ds]
        """,
    "combining": """
        import numpy as np
        import tensorflow as tf

        a = tf.data.Dataset.range(0, 5)
        b = tf.data.Dataset.from_tensor_slices(np.linspace(0, 1, 5))
        pairs = tf.data.Dataset.zip((a, b)).enumerate()
        choice = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 0], np.int64))
        chosen = tf.data.Dataset.choose_from_datasets([a, a.map(lambda x: x + 100)], choice)
        total = a.reduce(np.int64(0), lambda state, x: state + x)
        results = [int(total), [(i.numpy(), x.numpy(), y.numpy()) for i, (x, y) in pairs], [c.numpy() for c in chosen]]
        """,
    "tfds": """
        import tensorflow_datasets as tfds

        ds, info = tfds.load("counted_rows", split="train[:75%]", data_dir=home + "/tfds", with_info=True)
        results = [info.splits["train"].num_examples, [int(row["x"]) for row in tfds.as_numpy(ds)]]
        """,
    "feature columns": """
        import tensorflow as tf

        columns = [
            tf.feature_column.numeric_column("age", shape=(2,)),
            tf.feature_column.embedding_column(tf.feature_column.categorical_column_with_hash_bucket("town", 10), 4),
        ]
        spec = tf.feature_column.make_parse_example_spec(columns)
        results = sorted((name, type(feature).__name__) for name, feature in spec.items())
        """,
}
