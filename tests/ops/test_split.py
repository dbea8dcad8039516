"""split: sizes, keys, runs and streams."""

import subprocess
import sys

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def values(ds):
    return [int(x) for x in ds]


def test_parts_have_exact_sizes_and_share_nothing():
    train, test = D.range(101).split(0.8, seed=1)
    assert (len(train), len(test)) == (81, 20)
    assert sorted(values(train) + values(test)) == list(range(101))
    assert values(train) == values(train) == values(D.range(101).split(0.8, seed=1)[0])
    assert values(train) != values(D.range(101).split(0.8, seed=2)[0])
    assert values(train) != list(range(81))
    assert int(train[3]) == values(train)[3]


def test_more_than_two_parts():
    parts = D.range(10).split([0.5, 0.3, 0.2])
    assert [len(part) for part in parts] == [5, 3, 2]
    assert [len(part) for part in D.range(10).split([7, 0, 3])] == [7, 0, 3]
    assert sorted(x for part in parts for x in values(part)) == list(range(10))


@pytest.mark.parametrize(
    ("parts", "said"),
    [(1.5, "between 0 and 1"), (0.0, "between 0 and 1"), ([0.5, 0.2], "add up to 1"), ([3, 3], "there are 10"),
     ([1.2, -0.2], "add up to 1")],
)  # fmt: skip
def test_what_does_not_add_up_is_an_error(parts, said):
    with pytest.raises(ValueError, match=said):
        D.range(10).split(parts)


def test_a_stream_is_divided_in_its_order():
    ds = D.range(3000).filter(lambda x: x % 3 > 0)
    train, test = ds.split(0.8, seed=5)
    one, other = values(train), values(test)
    assert one == sorted(one) and other == sorted(other)
    assert sorted(one + other) == values(ds)
    assert 1500 < len(one) < 1700
    assert values(train) == one  # the same in each epoch
    it = iter(train)
    for _ in range(100):
        next(it)
    assert values(train.iterator(state=it.state())) == one[100:]


def test_elements_keep_their_structure():
    for make in (lambda x: (x, x + 1), lambda x: {"a": x}, lambda x: (x, (x, {"b": x}))):
        ds = D.range(50).map(make)
        streamed = ds.filter(lambda *_: True)
        assert streamed.split(0.5)[0].element_spec == ds.element_spec
        assert len(list(streamed.split(0.5)[0])) + len(list(streamed.split(0.5)[1])) == 50


def test_elements_with_one_key_stay_together():
    keys = np.array([f"p{i % 40}" for i in range(400)], object)
    ds = D.from_tensor_slices({"patient": keys, "x": np.arange(400)})
    train, test = ds.split(0.75, seed=3, key="patient")
    one, other = {row["patient"] for row in train}, {row["patient"] for row in test}
    assert not one & other and len(one | other) == 40 and 20 < len(one) < 40
    by_function = ds.split(0.75, seed=3, key=lambda row: row["patient"])[0]
    assert [row["x"] for row in by_function] == [row["x"] for row in train]
    numbers = D.range(100).split(0.5, key=lambda x: x // 10)
    assert all(len({v // 10 for v in values(part)}) * 10 == len(values(part)) for part in numbers)


def test_a_key_does_not_depend_on_the_process():
    code = "import headrace as hr; print([int(x) for x in hr.Dataset.range(50).split(0.5, seed=9, key=lambda x: x)[0]])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == str(values(D.range(50).split(0.5, seed=9, key=lambda x: x)[0]))


def test_a_key_that_is_none_is_an_error():
    with pytest.raises(hr.ElementError, match="a key is a string, bytes or an integer"):
        list(D.range(3).split(0.5, key=lambda x: x / 2)[0])
    with pytest.raises(ValueError, match="takes fractions"):
        D.range(4).split([2, 2], key=lambda x: x)


def test_an_endless_dataset_can_be_divided():
    assert len(values(D.range(3).repeat().split(0.5)[0].take(20))) == 20
