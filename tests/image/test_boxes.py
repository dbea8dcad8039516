"""Boxes cut out of images, within a function of map."""

import numpy as np

import headrace as hr
from tests.image.pictures import pictures


def test_boxes_are_cut_by_a_traced_function_as_row_by_row():
    data = [hr.image.encode_png(image) for image in pictures()]
    boxes = np.sort(np.random.default_rng(0).random((len(data), 3, 2, 2)), axis=2).reshape(-1, 3, 4)

    def cut(content, corners):
        image = hr.image.decode_png(content, 3)
        whole = hr.image.crop_and_resize(image, [[0, 0, 1, 0.5]], [0], (3, 4), method="nearest")
        return whole, hr.image.crop_and_resize(image, corners, [0, 0, 0], crop_size=(2, 5))

    ds = hr.Dataset.from_tensor_slices((data, boxes)).map(cut)
    assert "vectorised" in ds.explain(), ds.explain()
    assert ds.element_spec == (hr.TensorSpec((1, 3, 4, 3), np.float32), hr.TensorSpec((3, 2, 5, 3), np.float32))
    for made, content, corners in zip(ds, data, boxes, strict=True):
        for ours, alone in zip(made, cut(content, corners), strict=True):
            np.testing.assert_array_equal(ours, alone)
