"""Sizes of results that are known though those of the elements are not."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


def batches():
    return D.range(10).batch(4)


SIZES = {
    "a new axis": (lambda x: np.stack([x, x], 1), [None, 2]),
    "the same axis": (lambda x: np.concatenate([x, x]), [None]),
    "a sum": (lambda x: x.sum(), []),
    "a slice of few": (lambda x: x[:2], [None]),
    "a slice of many": (lambda x: x[:3000], [None]),
    "one of its values": (lambda x: np.stack([x[0], x[-1]]), [2]),
    "padded to a size, or longer": (lambda x: np.pad(x, (0, max(0, 100 - len(x)))), [None]),
    "padded and cut to a size": (lambda x: np.pad(x, (0, 100))[:100], [100]),
}


@pytest.mark.parametrize("what", SIZES)
def test_sizes_that_hold_for_elements_of_all_sizes_are_known(what):
    fn, shape = SIZES[what]
    ds = batches().map(fn)
    assert ds.element_spec == hr.TensorSpec(shape, np.int64)
    assert all(ds.element_spec.is_compatible_with(element) for element in ds)


def test_nothing_is_run_to_know_it():
    def elements():
        raise AssertionError("the generator was read")
        yield

    ds = D.from_generator(elements, output_signature=hr.TensorSpec([None, None, 3], np.uint8))
    resized = ds.map(lambda image: {"image": hr.image.resize(image, (4, 5)) / 255, "corner": image[0, 0]})
    assert resized.element_spec == {
        "image": hr.TensorSpec([4, 5, 3], np.float32),
        "corner": hr.TensorSpec([3], np.uint8),
    }


TEXTS = {
    "str": (lambda x: (np.stack([x, x], 1), str(x)), [2]),
    "repr": (lambda x: (np.stack([x, x], 1), repr(x)), [2]),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text_of_data_loses_only_its_own_part(what):
    fn, more = TEXTS[what]
    for rows, size in ((D.range(10).batch(4), None), (D.range(8).batch(4, drop_remainder=True), 4)):
        ds = rows.map(fn)
        assert ds.element_spec == (hr.TensorSpec([size, *more], np.int64), hr.TensorSpec([], str))
        assert [text for _, text in ds] == [fn(x)[1] for x in rows]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: np.zeros(len(str(x))),
        lambda x: np.zeros(int(str(x[0])) + 1),
        lambda x: np.zeros(4 if str(x) > "a" else 2),
        lambda x: np.zeros(2 if str(x) else 3),
        lambda x: np.zeros(len("of " + str(x))),
        lambda x: np.zeros(len("of %s" % str(x))),  # noqa: UP031
        lambda x: np.zeros(2 + (str(x) == "data")),
        lambda x: np.zeros({"data": 2}.get(str(x), 3)),
        lambda x: np.zeros(len(f"{str(x)}")),  # noqa: RUF010
    ],
)
def test_sizes_that_depend_on_text_of_data_are_unknown(fn):
    assert D.range(10).batch(4).map(fn).element_spec.shape == (None,)


def images():
    made = [np.full((n, n + 1, 3), n, np.uint8) for n in (3, 5, 4)]
    return D.from_generator(lambda: iter(made), output_signature=hr.TensorSpec([None, None, 3], np.uint8))


def test_a_function_that_cannot_be_traced_keeps_the_sizes_of_its_other_parts():
    def untraceable(image):
        resized = hr.image.resize(image, (4, 6))
        return {
            "raw": image,
            "resized": resized,
            "scaled": (resized / 127.5 - 1).astype(np.float16),
            "gray": hr.image.rgb_to_grayscale(resized),
            "cut": resized[: int(str(len(image)))],
            "label": str(int(image.max())),
        }

    ds = images().map(untraceable)
    spec = ds.element_spec
    assert {name: s.shape for name, s in spec.items()} == {
        "raw": (None, None, 3),
        "resized": (4, 6, 3),
        "scaled": (4, 6, 3),
        "gray": (4, 6, 1),
        "cut": (None, None, None),
        "label": (),
    }
    for element in ds:
        assert all(spec[name].is_compatible_with(value) for name, value in element.items())
        assert type(element["resized"]) is np.ndarray


def test_a_function_that_takes_plain_arrays_alone_is_looked_at_all_the_same():
    def picky(image):
        if type(image) is not np.ndarray:
            raise TypeError("a plain array, please")
        return image[: int(str(len(image)))]

    assert images().map(picky).element_spec == hr.TensorSpec([None, None, None], np.uint8)


def test_a_function_without_a_module_is_traced():
    names = {}
    exec("def fn(x): return x * 2", names)
    assert "vectorised" in D.range(3).map(names["fn"]).explain()
