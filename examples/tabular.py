"""A table to a wide-and-deep model: one list of columns, in PyTorch and in Keras, stopped and resumed exactly."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
import torch
from torch import nn

import headrace as hr

fc = hr.feature_column


def people(count=4000):
    """Who they are, and whether they own a boat."""
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 80, count).astype(np.float32)
    job = rng.choice(["cook", "nurse", "pilot", "smith"], count)
    town = rng.choice([f"town {i}" for i in range(200)], count)
    hours = rng.normal(38, 8, count).astype(np.float32)
    score = (age > 45) + 2 * ((job == "pilot") ^ (age > 60)) + (hours > 40) - 2.2
    label = (score + rng.normal(0, 0.5, count) > 0).astype(np.float32)
    return {"age": age, "hours": hours, "job": job, "town": town, "boat": label}


age = fc.numeric_column("age", normalizer="adapt")
decade = fc.bucketized_column(fc.numeric_column("age"), [30, 40, 50, 60, 70])
hours = fc.numeric_column("hours", normalizer="adapt")
job = fc.categorical_column_with_vocabulary_list("job", ["cook", "nurse", "pilot"], num_oov_buckets=1)
town = fc.categorical_column_with_hash_bucket("town", 100)
WIDE = fc.DenseFeatures(
    [fc.embedding_column(fc.crossed_column([decade, "job"], 50), 1, "sum"), fc.indicator_column(job)]
)
DEEP = fc.DenseFeatures([age, hours, decade, fc.embedding_column(job, 2), fc.embedding_column(town, 4)])
DEEP = DEEP.adapt(people())  # the means and variances of age and hours


def batches(rows):
    ds = hr.Dataset.from_tensor_slices(rows).shuffle(1000, seed=0)
    ds = ds.map(lambda row: ({"wide": WIDE.inputs(row), "deep": DEEP.inputs(row)}, row["boat"]))
    return ds.batch(50)


class TorchModel(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.deep = WIDE.torch(seed=1), DEEP.torch(seed=2)
        self.linear, self.hidden = nn.Linear(WIDE.width, 1), nn.Linear(DEEP.width, 16)
        self.top = nn.Linear(16, 1)

    def forward(self, x):
        return (self.linear(self.wide(x["wide"])) + self.top(torch.relu(self.hidden(self.deep(x["deep"])))))[:, 0]


def torch_training():
    model = TorchModel()
    return model, torch.optim.Adam(model.parameters(), 1e-2)


def train_torch(model, optimizer, data, steps=None):
    for step, (x, y) in enumerate(data, 1):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == steps:
            break


class KerasModel(keras.Model):
    def __init__(self):
        super().__init__()
        keras.utils.set_random_seed(0)
        self.wide, self.deep = WIDE.keras(seed=1), DEEP.keras(seed=2)
        self.linear, self.hidden = keras.layers.Dense(1), keras.layers.Dense(16, activation="relu")
        self.top = keras.layers.Dense(1)

    def call(self, x):
        return (self.linear(self.wide(x["wide"])) + self.top(self.hidden(self.deep(x["deep"]))))[:, 0]


def keras_training(rows):
    model = KerasModel()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, jit_compile=False)
    model(next(iter(batches(rows)))[0])  # which makes the weights
    model.optimizer.build(model.trainable_variables)
    return model


def train_keras(model, data, steps=None):
    for step, (x, y) in enumerate(data, 1):
        model.train_on_batch(x, y)
        if step == steps:
            break


def accuracy(predict, rows):
    """As it is served: without a pipeline, from the raw columns."""
    return float(((predict({"wide": WIDE.inputs(rows), "deep": DEEP.inputs(rows)}) > 0) == rows["boat"]).mean())


def in_torch(rows, test):
    model, optimizer = torch_training()
    data = batches(rows).to_torch()
    for _ in range(3):
        train_torch(model, optimizer, data)
    print(f"torch: test accuracy {accuracy(lambda x: model(x).detach().numpy(), test):.3f}")

    again, optimizer = torch_training()
    data = batches(rows).to_torch()
    train_torch(again, optimizer, data)
    train_torch(again, optimizer, data, steps=13)
    saved = (again.state_dict(), optimizer.state_dict(), data.state_dict())

    again, optimizer = torch_training()
    data = batches(rows).to_torch()
    for part, state in zip((again, optimizer, data), saved, strict=True):
        part.load_state_dict(state)
    train_torch(again, optimizer, data)
    train_torch(again, optimizer, data)
    same = all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    print(f"torch: stopped and resumed, the weights are the same: {same}")
    return model


def in_keras(rows, test):
    model = keras_training(rows)
    data = batches(rows)
    for _ in range(3):
        train_keras(model, data)
    print(f"keras: test accuracy {accuracy(model.predict_on_batch, test):.3f}")

    again = keras_training(rows)
    data = batches(rows)
    train_keras(again, data)
    it = iter(data)
    train_keras(again, it, steps=13)
    values = [keras.ops.convert_to_numpy(v) for v in (*again.variables, *again.optimizer.variables)]
    saved = (values, it.state())

    again = keras_training(rows)
    data = batches(rows)
    for variable, value in zip((*again.variables, *again.optimizer.variables), saved[0], strict=True):
        variable.assign(value)
    train_keras(again, data.iterator(state=saved[1]))
    train_keras(again, data)
    same = all(np.array_equal(a, b) for a, b in zip(model.get_weights(), again.get_weights(), strict=True))
    print(f"keras: stopped and resumed, the weights are the same: {same}")
    return model


def with_the_weights_of(one, other):
    """The Keras model with all that the torch model has learnt."""
    for name in ("wide", "deep"):
        getattr(other, name).load_tables(getattr(one, name).table_arrays())
    for name in ("linear", "hidden", "top"):
        weight, bias = (p.detach().numpy() for p in getattr(one, name).parameters())
        getattr(other, name).set_weights([weight.T, bias])
    return other


def main():
    WIDE.describe()
    DEEP.describe()
    rows = people()
    train = {key: column[:3000] for key, column in rows.items()}
    test = {key: column[3000:] for key, column in rows.items()}
    one = in_torch(train, test)
    other = with_the_weights_of(one, in_keras(train, test))
    inputs = {"wide": WIDE.inputs(test), "deep": DEEP.inputs(test)}
    close = np.allclose(one(inputs).detach().numpy(), other.predict_on_batch(inputs), atol=1e-5)
    print(f"with one's weights both predict the same: {close}")


if __name__ == "__main__":
    main()
