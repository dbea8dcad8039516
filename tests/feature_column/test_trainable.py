"""The modules of torch, Keras, JAX and Flax: the numbers of the layer with the same tables, and gradients."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import pytest

import headrace as hr

fc = hr.feature_column


def columns():
    age = fc.numeric_column("age")
    city = fc.categorical_column_with_vocabulary_list("city", ["a", "b"])
    tags = fc.categorical_column_with_hash_bucket("tags", 6)
    other = fc.categorical_column_with_hash_bucket("other", 6)
    weighted = fc.weighted_categorical_column(tags, "share")
    return [
        age,
        fc.bucketized_column(age, [10, 20]),
        fc.indicator_column(city),
        fc.embedding_column(city, 2, "sum", trainable=False),
        fc.embedding_column(tags, 3, "mean", max_norm=0.5),
        fc.embedding_column(weighted, 2, "sqrtn"),
        fc.embedding_column(fc.crossed_column(["city", "tags"], 9), 2, "mean"),
        *fc.shared_embeddings([other], 4, shared_embedding_collection_name="all"),
    ]


FEATURES = {
    "age": np.array([5, 15, 25, 35], np.float32),
    "city": ["a", "", "zz", "b"],
    "tags": hr.Ragged.from_rows([np.array(r, object) for r in (["x", "y"], [], ["x"], ["x", "z", "x"])]),
    "share": hr.Ragged(np.array([1, 0.5, -1, 2, 0, 3], np.float32), [0, 2, 2, 3, 6]),
    "other": ["p", "q", "", "p"],
}


@pytest.fixture
def layer():
    made = fc.DenseFeatures(columns())
    return made.load_tables({c.table: c.initial_table(number) for number, c in enumerate(made.embeddings)})


def padded(inputs):
    ids = {
        name: value.to_padded(0.0 if "/" in name else -1) if isinstance(value, hr.Ragged) else value
        for name, value in inputs["ids"].items()
    }
    return {**inputs, "ids": ids}


def test_the_torch_module_gives_the_numbers_of_the_layer(layer):
    torch = pytest.importorskip("torch")
    module = layer.torch()
    inputs = layer.inputs(FEATURES)
    expected = layer(FEATURES)
    for given in (inputs, padded(inputs)):
        np.testing.assert_allclose(module(given).detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    nested = {
        "dense": torch.from_numpy(inputs["dense"]),
        "ids": {k: v.to_torch() if isinstance(v, hr.Ragged) else torch.from_numpy(v) for k, v in inputs["ids"].items()},
    }
    np.testing.assert_allclose(module(nested).detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    assert module.out_features == layer.width
    module(inputs).sum().backward()
    for name, table in module.tables.items():
        assert (table.grad is None) == (name == "city_embedding"), name
    assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)
    again = fc.DenseFeatures(columns()).load_tables(module.table_arrays())
    np.testing.assert_array_equal(again(FEATURES), expected)
    other = fc.DenseFeatures(columns()).torch(seed=3).load_tables({f"m/{k}/x": v for k, v in layer.tables.items()})
    np.testing.assert_allclose(other(inputs).detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(KeyError, match="no column has a table 'nothing'"):
        module.load_tables({"nothing": [[1.0]]})


def test_gradients_of_a_torch_module_are_those_of_plain_sums():
    torch = pytest.importorskip("torch")
    tags = fc.categorical_column_with_identity("tags", 4)
    module = fc.DenseFeatures(fc.embedding_column(tags, 1, "mean")).torch(seed=0)
    inputs = fc.DenseFeatures(fc.embedding_column(tags, 1)).inputs({"tags": [[0, 1, 1], [3]]})
    module(inputs).sum().backward()
    (table,) = module.parameters()
    torch.testing.assert_close(table.grad, torch.tensor([[1 / 3], [2 / 3], [0.0], [1.0]]))


def test_the_keras_layer_gives_the_numbers_of_the_layer(layer, tmp_path):
    keras = pytest.importorskip("keras")
    made = layer.keras()
    inputs = padded(layer.inputs(FEATURES))
    expected = layer(FEATURES)
    got = keras.ops.convert_to_numpy(made(inputs))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert len(made.trainable_weights) == len(layer.embeddings) - 1
    copy = type(made).from_config(made.get_config()).load_tables(made.table_arrays())
    np.testing.assert_allclose(keras.ops.convert_to_numpy(copy(inputs)), expected, rtol=1e-6, atol=1e-6)


def test_the_jax_functions_give_the_numbers_of_the_layer(layer):
    jax = pytest.importorskip("jax")
    functions = layer.jax()
    parameters = functions.init()
    inputs = layer.inputs(FEATURES)
    expected = layer(FEATURES)
    np.testing.assert_allclose(functions.apply(parameters, inputs), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.jit(functions.apply)(parameters, padded(inputs)), expected, rtol=1e-6, atol=1e-6)
    slopes = jax.grad(lambda p: functions.apply(p, inputs).sum())(parameters)
    assert not np.asarray(slopes["city_embedding"]).any()
    assert np.asarray(slopes["all"]).any()
    assert all(np.isfinite(np.asarray(slope)).all() for slope in slopes.values())


def test_the_flax_module_gives_the_numbers_of_the_layer(layer):
    nnx = pytest.importorskip("flax.nnx")
    module = layer.flax()
    inputs = layer.inputs(FEATURES)
    expected = layer(FEATURES)
    np.testing.assert_allclose(module(inputs), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(nnx.jit(lambda m, x: m(x))(module, padded(inputs)), expected, rtol=1e-6, atol=1e-6)
    assert module.out_features == layer.width
    slopes = nnx.grad(lambda m: m(inputs).sum())(module)["tables"]
    assert set(slopes) == {name for name in module.tables if name != "city_embedding"}
    assert all(np.isfinite(np.asarray(slope[...])).all() for slope in slopes.values())
    assert np.asarray(slopes["all"][...]).any()
    again = fc.DenseFeatures(columns()).load_tables(module.table_arrays())
    np.testing.assert_array_equal(again(FEATURES), expected)
    other = fc.DenseFeatures(columns()).flax(seed=3)
    assert not np.allclose(other(inputs), expected)
    other.load_tables({f"m/{k}/x": v for k, v in layer.tables.items()})
    np.testing.assert_allclose(other(inputs), expected, rtol=1e-6, atol=1e-6)


def test_a_flax_module_learns(layer):
    nnx = pytest.importorskip("flax.nnx")
    optax = pytest.importorskip("optax")
    module = layer.flax()
    before = module.table_arrays()
    inputs = padded(layer.inputs(FEATURES))
    optimizer = nnx.Optimizer(module, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(module, optimizer):
        loss, slopes = nnx.value_and_grad(lambda m: (m(inputs)[:, -4:] ** 2).sum())(module)
        optimizer.update(module, slopes)
        return loss

    losses = [float(step(module, optimizer)) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
    np.testing.assert_array_equal(module.table_arrays()["city_embedding"], before["city_embedding"])


def test_batches_of_a_pipeline_are_what_the_modules_take(layer):
    torch = pytest.importorskip("torch")
    rows = [{key: column[i] for key, column in FEATURES.items()} for i in range(4)]
    signature = {
        "age": hr.TensorSpec((), np.float32), "city": hr.TensorSpec((), str), "other": hr.TensorSpec((), str),
        "tags": hr.TensorSpec((None,), str), "share": hr.TensorSpec((None,), np.float32),
    }  # fmt: skip
    ds = hr.Dataset.from_generator(lambda: iter(rows), output_signature=signature).map(layer.inputs)
    expected = layer(FEATURES)
    module = layer.torch()
    for batches in (ds.ragged_batch(4), ds.padded_batch(4, padding_values=np.int64(-1))):
        (batch,) = batches.to_torch()
        assert isinstance(batch["dense"], torch.Tensor)
        np.testing.assert_allclose(module(batch).detach().numpy(), expected, rtol=1e-6, atol=1e-6)
