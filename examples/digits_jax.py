"""Train a small network on the digits with JAX."""

import jax
import jax.numpy as jnp
from digits_data import digits

EPOCHS = 6


def predict(weights, images):
    return jax.nn.relu(images @ weights["in"]) @ weights["out"]


def loss(weights, images, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(predict(weights, images)), labels[:, None], axis=1).mean()


@jax.jit
def step(weights, images, labels):
    value, gradient = jax.value_and_grad(loss)(weights, images, labels)
    return jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradient), value


def main():
    train, test = digits()
    batches = train.batch(32, drop_remainder=True).to_jax()
    one, two = jax.random.split(jax.random.key(0))
    weights = {"in": jax.random.normal(one, (64, 64)) / 8, "out": jax.random.normal(two, (64, 10)) / 8}
    for epoch in range(EPOCHS):
        for images, labels in batches:
            weights, value = step(weights, images, labels)
        print(f"epoch {epoch + 1}: loss {value:.3f}")
    images, labels = next(iter(test.batch(500).to_jax()))
    print(f"test accuracy {(predict(weights, images).argmax(1) == labels).mean():.3f}")


if __name__ == "__main__":
    main()
