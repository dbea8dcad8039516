"""mixup, cutmix, RandAugment and boxes."""

import numpy as np
import pytest

import headrace as hr
from headrace.image.mixing import beta_of_uniform
from tests.image.pictures import picture, pictures

I = hr.image  # noqa: E741


def labelled(count=10):
    images = np.stack(pictures([(12, 16)] * count))
    return hr.Dataset.from_tensor_slices((images, np.arange(count) % 3))


@pytest.mark.parametrize("mix", [I.mixup, I.cutmix])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_batches_are_mixed_alike_however_they_are_run(mix, drop_remainder):
    ds = labelled().batch(4, drop_remainder=drop_remainder)

    def fn(images, labels, rng):
        return mix(images, labels, rng, alpha=0.4, num_classes=3)

    plain = list(ds.random_map(fn, seed=5, mode="eager"))
    for again in (ds.random_map(fn, seed=5), ds.random_map(fn, seed=5, num_parallel_calls=2)):
        for (a, x), (b, y) in zip(plain, again, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(x, y)
            np.testing.assert_allclose(x.sum(1), 1, rtol=1e-6)
    with ds.random_map(fn, seed=5).iterator() as it:
        next(it)
        state = it.state()
    for (a, _), (b, _) in zip(plain[1:], ds.random_map(fn, seed=5).iterator(state=state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_shares_of_labels_are_those_of_pixels():
    images = np.zeros((4, 32, 32, 1), np.float32)
    images[0] = 1
    rng = np.random.default_rng(0)
    for _ in range(20):
        mixed, labels = I.mixup(images, np.eye(4), rng)
        np.testing.assert_allclose(mixed.mean((1, 2, 3)), labels[:, 0], atol=1e-6)
        cut, labels = I.cutmix(images, np.eye(4), rng)
        np.testing.assert_allclose(cut.mean((1, 2, 3)), labels[:, 0], atol=1e-6)
        assert set(np.unique(cut)) <= {0, 1}


@pytest.mark.parametrize("alpha", [0.2, 0.4, 1.0, 2.0, 8.0])
def test_shares_are_beta_distributed(alpha):
    draws = (np.arange(4000) + 0.5) / 4000
    ours = np.array([beta_of_uniform(draw, alpha) for draw in draws])
    theirs = np.quantile(np.random.default_rng(0).beta(alpha, alpha, 400_000), draws)
    assert np.abs(ours - theirs).max() < 0.01
    assert abs(ours.var() - 1 / (4 * (2 * alpha + 1))) < 1e-3


def test_what_cannot_be_mixed_is_told():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="batch first"):
        I.mixup(np.zeros((3, 3, 1)), np.eye(3), rng)
    with pytest.raises(ValueError, match="num_classes"):
        I.cutmix(np.zeros((2, 3, 3, 1)), np.array([0, 1]), rng)
    with pytest.raises(ValueError, match="outside of num_classes=1"):
        I.mixup(np.zeros((2, 3, 3, 1)), np.array([0, 1]), rng, num_classes=1)
    with pytest.raises(ValueError, match="alpha is positive"):
        I.mixup(np.zeros((2, 3, 3, 1)), np.eye(2), rng, alpha=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_rand_augment_is_the_same_however_it_is_run(channels):
    images = np.stack([picture(24, 20, channels, seed=i) for i in range(60)])
    ds = hr.Dataset.from_tensor_slices(images)

    def fn(x, rng):
        return I.rand_augment(x, rng, num_ops=3, magnitude=15)

    plain = list(ds.random_map(fn, seed=2, mode="eager"))
    assert len({x.tobytes() for x in plain}) == 60
    for again in (ds.random_map(fn, seed=2), ds.random_map(fn, seed=2, num_parallel_calls=3)):
        for a, b in zip(plain, again, strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == np.uint8
            assert a.shape == (24, 20, channels)


def test_rand_augment_without_strength_changes_nothing_but_what_has_none():
    image = picture(24, 20)
    rng = np.random.default_rng(0)
    kinds = {I.rand_augment(image, rng, num_ops=1, magnitude=0).tobytes() for _ in range(200)}
    assert image.tobytes() in kinds
    assert len(kinds) <= 4  # the contrast stretched, the values spread evenly, the largest value inverted
    with pytest.raises(TypeError, match="before images become floats"):
        I.rand_augment(image.astype(np.float32), rng)
    with pytest.raises(ValueError, match="between 0 and 30"):
        I.rand_augment(image, rng, magnitude=31)


def test_wrong_boxes_are_told():
    with pytest.raises(ValueError, match="four numbers"):
        I.crop_and_resize(np.zeros((1, 3, 3, 1)), [[0, 0, 1]], [0], (2, 2))
    with pytest.raises(ValueError, match="outside of a batch of 1"):
        I.crop_and_resize(np.zeros((1, 3, 3, 1)), [[0, 0, 1, 1]], [1], (2, 2))
