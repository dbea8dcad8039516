"""Train a small network on the digits with Keras 3, on whatever backend it runs (KERAS_BACKEND=torch, jax, …)."""

import keras
from digits_data import digits


def main():
    keras.utils.set_random_seed(0)
    train, test = digits()
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")])
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    batches = train.batch(32, drop_remainder=True)
    held_out = test.batch(150)
    model.fit(batches.to_keras(), validation_data=held_out.to_keras(), epochs=6, verbose=2)
    _, accuracy = model.evaluate(held_out.to_keras(), verbose=0)
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
