"""A format of tables that another package adds keeps every promise."""

import numpy as np
import pytest
from tests.formats.npz import ROWS_PER_GROUP, NpzDataset

import headrace as hr
from headrace.testing import check_transformation

X = np.arange(2400, dtype=np.float32).reshape(1200, 2)
Y = np.arange(1200)


@pytest.fixture
def archives(tmp_path):
    """Two archives: one of more than a group, one of a few rows."""
    for name, rows in (("a", slice(0, 1190)), ("b", slice(1190, 1200))):
        np.savez(tmp_path / f"{name}.npz", x=X[rows], y=Y[rows])
    assert ROWS_PER_GROUP < 1190
    return str(tmp_path / "*.npz")


def test_its_rows_are_read_in_order_and_by_number(archives):
    ds = NpzDataset(archives)
    assert len(ds) == 1200
    batch = ds[1199]
    np.testing.assert_array_equal(batch["x"], X[1199])
    batch = next(iter(ds.batch(1200)))
    np.testing.assert_array_equal(batch["x"], X)
    np.testing.assert_array_equal(batch["y"], Y)
    assert ds.element_spec == {"x": hr.TensorSpec((2,), np.float32), "y": hr.TensorSpec((), np.int64)}
    assert [int(row["y"]) for row in ds.shuffle(seed=1).take(1200).batch(1200).unbatch()] != Y.tolist()


def test_columns_are_chosen(archives):
    assert list(next(iter(NpzDataset(archives, columns=["y"])))) == ["y"]


def test_it_keeps_every_promise(archives):
    few = archives.replace("*", "b")
    check_transformation(NpzDataset(few))
    check_transformation(NpzDataset(few).shuffle(3, seed=2).batch(4))
    check_transformation(NpzDataset([few, few], num_parallel_reads=2))


def test_a_damaged_archive_is_one_error_or_left_out(archives, tmp_path):
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "c.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(hr.ElementError, match=r"c\.npz"):
        list(NpzDataset(archives))
    assert NpzDataset(archives, on_error="skip").count() == 1200
