"""Keras 3, whatever its backend: fit, evaluate and predict read a dataset through to_keras()."""

import keras
import numpy as np

import headrace as hr


def points(count, seed):
    """Points of the plane, and whether they lie in a ring: one in four does."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    radius = np.hypot(*x.T)
    return x, ((radius > 0.4) & (radius < 0.7)).astype(np.int32)


def main():
    keras.utils.set_random_seed(0)
    train = hr.Dataset.from_tensor_slices(points(3200, 0)).shuffle(1000, seed=0).batch(32).prefetch(hr.AUTOTUNE)
    test = hr.Dataset.from_tensor_slices(points(640, 1)).batch(64)

    model = keras.Sequential(
        [
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy", metrics=["accuracy"])
    model.fit(train.to_keras(class_weight={0: 1.0, 1: 2.0}), validation_data=test.to_keras(), epochs=8, verbose=2)

    _, accuracy = model.evaluate(test.to_keras(), verbose=0)
    print(f"test accuracy {accuracy:.3f}")
    inside = model.predict(test.map(lambda x, y: x).to_keras(), verbose=0) > 0.5
    print(f"{inside.mean():.0%} of the points are taken to lie in the ring")


if __name__ == "__main__":
    main()
