"""ds.to_keras() with fit, evaluate and predict: run by test_keras.py once for each backend."""

import keras
import numpy as np
import pytest

import headrace as hr
from headrace.adapters import keras as feed
from headrace.adapters.keras import Weighted
from headrace.execute.state import opened
from headrace.testing import our_threads
from tests.adapters.pipelines import labels_of, pairs

D = hr.Dataset
ROWS = 64  # whole batches: JAX compiles anew for a short one
X = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
Y = (X.sum(1) > 0).astype(np.int32)


VERSION = tuple(map(int, keras.__version__.split(".")[:2]))
READS_AHEAD = keras.backend.backend() == "jax" and VERSION < (3, 15)
"""Whether Keras takes a batch more than the model was given, as it does on all accelerators of JAX."""
exact = pytest.mark.skipif(READS_AHEAD, reason="this Keras reads ahead of the model: its states are refused")


def batches(size=8):
    return D.from_tensor_slices((X, Y)).shuffle(ROWS, seed=1).batch(size)


def model(loss="sparse_categorical_crossentropy", **options):
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")])
    made.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"], **options)
    return made


class Lengths(keras.callbacks.Callback):
    """What the progress bar shows, and how many steps there were."""

    def __init__(self):
        self.told, self.steps = [], 0
        super().__init__()

    def on_train_begin(self, logs=None):
        self.told.append(self.params["steps"])

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1


def test_fit_learns_and_evaluate_and_predict_agree_with_arrays():
    learner = model()
    history = learner.fit(batches().to_keras(), validation_data=batches().to_keras(), epochs=12, verbose=0).history
    assert len(history["val_loss"]) == 12
    assert history["accuracy"][-1] > 0.85 > history["accuracy"][0]
    plain = D.from_tensor_slices((X, Y)).batch(8)
    by_array = learner.evaluate(X, Y, batch_size=8, verbose=0)
    assert np.allclose(learner.evaluate(plain.to_keras(), verbose=0), by_array, atol=1e-5)
    for data in (plain, plain.map(lambda x, y: x), plain.map(lambda x, y: (x,))):
        assert np.allclose(learner.predict(data.to_keras(), verbose=0), learner.predict(X, verbose=0), atol=1e-6)


def test_training_sees_the_batches_of_each_epoch_from_the_first_on():
    ds = pairs()
    want = [labels_of(ds) for _ in range(3)]
    got = []

    class Seeing(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(keras.ops.reshape(x, (-1, 6)))

    feed = pairs().to_keras()
    inner = feed._batches

    def watched():
        for batch in inner():
            got.append(np.asarray(batch[1]).tolist())
            yield batch

    feed._batches = watched
    learner = Seeing()
    learner.compile("sgd", "mse")
    learner.fit(feed, epochs=3, verbose=0)
    peeked = 2 if READS_AHEAD else 1
    assert got[peeked:] == [labels for epoch in want for labels in epoch]
    assert got[0] == want[0][0]  # Keras looked at the first batch, to learn its shape


def test_the_length_of_an_epoch_is_known():
    seen = Lengths()
    model().fit(batches().to_keras(), epochs=2, verbose=0, callbacks=[seen])
    assert (seen.told, seen.steps) == ([8], 16)
    assert batches().to_keras().num_batches == 8


@exact
def test_an_infinite_dataset_goes_on_from_epoch_to_epoch():
    seen = Lengths()
    feed = batches().repeat().to_keras()
    model().fit(feed, epochs=3, steps_per_epoch=5, verbose=0, callbacks=[seen])
    assert (seen.told, seen.steps) == ([5], 15)
    assert opened(feed.state_dict())["delivered"] == 15


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_dataset_of_unknown_length():
    seen = Lengths()
    model().fit(batches().filter(lambda x, y: True).to_keras(), epochs=2, verbose=0, callbacks=[seen])
    assert seen.steps == 16


def test_sample_weights_and_class_weights():
    plain = D.from_tensor_slices((X, Y)).batch(16)
    weights = np.where(Y == 1, np.float32(3), np.float32(1))
    losses = [
        model().fit(data, epochs=1, verbose=0).history["loss"][0]
        for data in (
            plain.to_keras(class_weight={1: 3.0}),
            D.from_tensor_slices((X, Y, weights)).batch(16).to_keras(),
        )
    ]
    assert losses[0] == losses[1]
    assert model().fit(plain.to_keras(), epochs=1, verbose=0).history["loss"][0] != losses[0]


def test_weights_of_classes_leave_the_shapes_known_that_models_are_built_by():
    plain = D.from_tensor_slices((X, Y)).batch(16)
    x, y, weights = plain.to_keras(class_weight={1: 3.0})._dataset.element_spec
    assert (x, y) == plain.element_spec
    assert weights == hr.TensorSpec((None,), np.float32)


def test_the_weight_of_a_class_whatever_form_labels_have():
    weighted = Weighted({1: 3.0})
    for labels in (Y, Y[:, None], np.eye(2, dtype=np.float32)[Y]):
        assert weighted(X, labels)[2].tolist() == np.where(Y == 1, 3.0, 1.0).tolist()
    assert weighted(X[:2], np.array([0, 7]))[2].tolist() == [1, 1]
    with pytest.raises(ValueError, match="without weights of their own"):
        weighted(X, Y, Y)


def test_named_inputs():
    inputs = {name: keras.Input((2,), name=name) for name in ("left", "right")}
    joined = keras.layers.Concatenate()([inputs["left"], inputs["right"]])
    learner = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(joined))
    learner.compile("sgd", "sparse_categorical_crossentropy")
    ds = D.from_tensor_slices(({"left": X[:, :2], "right": X[:, 2:]}, Y)).batch(16)
    learner.fit(ds.to_keras(), epochs=1, verbose=0)
    assert learner.predict(ds.map(lambda x, y: x).to_keras(), verbose=0).shape == (ROWS, 2)


def test_what_keras_cannot_take_apart_is_refused():
    with pytest.raises(ValueError, match="not tuples of 4"):
        D.from_tensor_slices((X, X, X, Y)).batch(2).to_keras()


@exact
def test_a_state_goes_on_where_training_stopped():
    whole = model()
    want = whole.fit(batches().repeat().to_keras(), epochs=4, steps_per_epoch=5, verbose=0).history["loss"]
    learner, feed = model(), batches().repeat().to_keras()
    first = learner.fit(feed, epochs=2, steps_per_epoch=5, verbose=0).history["loss"]
    again = batches().repeat().to_keras()
    again.load_state_dict(feed.state_dict())
    rest = learner.fit(again, epochs=2, steps_per_epoch=5, verbose=0).history["loss"]
    assert first + rest == want


class Stop(keras.callbacks.Callback):
    """Take the state of a feed after `step` steps, and leaves fit as Ctrl-C does."""

    def __init__(self, feed, step):
        self.feed, self.step, self.state = feed, step, None
        super().__init__()

    def on_train_batch_end(self, batch, logs=None):
        self.step -= 1
        if not self.step:
            self.state = self.feed.state_dict()
            raise KeyboardInterrupt


@exact
@pytest.mark.parametrize("step", [1, 4, 7, 12])
def test_a_state_within_an_epoch_is_behind_the_last_batch_of_the_model(step):
    feed = batches(4).repeat().to_keras()
    stop = Stop(feed, step)
    with pytest.raises(KeyboardInterrupt):
        model().fit(feed, epochs=2, steps_per_epoch=14, verbose=0, callbacks=[stop])
    assert opened(stop.state)["delivered"] == step
    again = batches(4).repeat().to_keras()
    again.load_state_dict(stop.state)
    with pytest.raises(KeyboardInterrupt):
        model().fit(again, epochs=2, steps_per_epoch=14, verbose=0, callbacks=[rest := Stop(again, 5)])
    assert opened(rest.state)["delivered"] == step + 5


def test_a_state_at_the_last_batch_of_an_epoch_goes_on_with_the_next_epoch():
    feed = batches(16).to_keras()
    stop = Stop(feed, 4)
    with pytest.raises(KeyboardInterrupt):
        model().fit(feed, epochs=2, verbose=0, callbacks=[stop])
    assert opened(stop.state)["delivered"] == 4
    again = batches(16).to_keras()
    again.load_state_dict(stop.state)
    rest = Lengths()
    model().fit(again, epochs=1, verbose=0, callbacks=[rest])
    assert rest.steps == 4
    assert opened(again.state_dict())["epoch"] == 1


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="strategies are TensorFlow's")
def test_a_state_is_refused_under_a_strategy_which_reads_ahead():
    import tensorflow as tf

    feed = batches(4).repeat().to_keras()
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        learner = model()
    learner.fit(feed, epochs=1, steps_per_epoch=3, verbose=0)
    with pytest.raises(hr.errors.StateError, match=r"tf\.distribute strategy reads batches ahead"):
        feed.state_dict()


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras reads a batch ahead on JAX alone")
def test_a_state_is_refused_within_an_epoch_where_keras_reads_ahead(monkeypatch):
    feed = batches(4).to_keras()
    if not READS_AHEAD:
        monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    learner = model()
    learner.fit(feed, epochs=1, verbose=0)
    assert opened(feed.state_dict())["over"]
    with pytest.raises(hr.errors.StateError, match="reads batches ahead"):
        learner.fit(feed, epochs=1, verbose=0, callbacks=[Stop(feed, 2)])


@pytest.mark.skipif(VERSION < (3, 14), reason="adapt of earlier versions takes no iterables")
def test_a_layer_adapts_to_a_feed_and_training_begins_at_the_first_epoch():
    feed = batches().to_keras()
    layer = keras.layers.Normalization()
    layer.adapt(feed)
    by_array = keras.layers.Normalization()
    by_array.adapt(X)
    assert np.allclose(np.asarray(layer.mean), np.asarray(by_array.mean), atol=1e-6)
    model().fit(feed, epochs=1, verbose=0)
    assert opened(feed.state_dict())["epoch"] == 0


def test_threads_end_with_fit():
    feed = batches().prefetch(2).to_keras(prefetch=2)
    model().fit(feed, epochs=2, verbose=0)
    assert our_threads() == []
    assert feed.stats()["starvation"]["computed_s"] > 0


@pytest.mark.parametrize("use", ["fit", "evaluate"])
def test_what_keras_would_ignore_is_refused(use):
    learner, plain = model(), D.from_tensor_slices((X, Y)).batch(16)
    with pytest.raises(ValueError, match=r"make the dataset's elements \(x, y\)"):
        getattr(learner, use)(plain.to_keras(), Y)
    with pytest.raises(ValueError, match="x, y, sample_weight"):
        getattr(learner, use)(plain.to_keras(), sample_weight=Y)


def test_a_keras_that_keeps_its_arguments_elsewhere_is_warned_of(monkeypatch):
    monkeypatch.setattr("keras.src.trainers.epoch_iterator.EpochIterator.__init__", lambda self, x: None)
    feed._adapter_class.cache_clear()
    with pytest.warns(UserWarning, match="class_weight, y and sample_weight given to fit"):
        batches().to_keras()
    monkeypatch.undo()
    feed._adapter_class.cache_clear()
    batches().to_keras()


def test_class_weight_given_to_fit_is_refused():
    plain = D.from_tensor_slices((X, Y)).batch(16)
    with pytest.raises(ValueError, match=r"ds\.to_keras\(class_weight=\.\.\.\)"):
        model().fit(plain.to_keras(), class_weight={0: 1.0, 1: 3.0}, verbose=0)
    model().fit(plain.to_keras(class_weight={1: 3.0}), verbose=0)


@pytest.mark.parametrize(("use", "steps"), [("fit", "steps_per_epoch"), ("evaluate", "steps"), ("predict", "steps")])
def test_an_infinite_dataset_needs_steps(use, steps):
    learner, endless = model(), batches().repeat().to_keras()
    with pytest.raises(ValueError, match="steps_per_epoch"):
        getattr(learner, use)(endless, verbose=0)
    getattr(learner, use)(endless, verbose=0, **{steps: 2})
    assert endless.num_batches is None


def test_infinite_validation_data_need_steps():
    learner, endless = model(), batches().repeat()
    with pytest.raises(ValueError, match="validation_steps"):
        learner.fit(batches().to_keras(), validation_data=endless.to_keras(), verbose=0)
    learner.fit(batches().to_keras(), validation_data=endless.to_keras(), validation_steps=2, verbose=0)
    learner.fit(X, Y, batch_size=8, validation_data=batches().to_keras(), verbose=0)


@pytest.mark.parametrize("use", ["fit", "evaluate", "predict"])
def test_a_dataset_itself_is_pointed_to_its_adapter(use):
    with pytest.raises(ValueError, match=r"Unrecognized data type.*give it ds\.to_keras\(\)"):
        getattr(model(), use)(batches(), verbose=0)
    assert f"{batches()}" == repr(batches())
    assert f"{batches():>200}" == repr(batches()).rjust(200)


def test_a_tutorial_from_the_name_of_a_dataset_to_fit(tmp_path, monkeypatch):
    from headrace.datasets import declare
    from tests.public.stand_ins import with_sources, write_files

    made = with_sources("cats_vs_dogs", None, write_files("cats_vs_dogs", None, tmp_path / "files"))
    monkeypatch.setitem(declare.DECLARED, "cats_vs_dogs", {None: made})
    ds, info = hr.load("cats_vs_dogs", split="train", data_dir=tmp_path, as_supervised=True, with_info=True)
    ds = ds.map(lambda image, label: (hr.image.resize(image, (8, 8)) / np.float32(255), label))
    ds = ds.cache().shuffle(10, seed=1).batch(2).prefetch(hr.AUTOTUNE)
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 3)),
            keras.layers.Flatten(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile("sgd", "binary_crossentropy")
    with pytest.raises(ValueError, match=r"give it ds\.to_keras\(\)"):
        model.fit(ds, verbose=0)
    history = model.fit(ds.to_keras(), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
    assert np.isfinite(history.history["loss"]).all()
    assert info.splits["train"].num_examples == len(model.predict(ds.map(lambda x, y: x).to_keras(), verbose=0))
