"""bfloat16, float8 and complex numbers from arrays and tensors through every operation to torch and JAX."""

import numpy as np
import pytest

import headrace as hr

ml_dtypes = pytest.importorskip("ml_dtypes")
D = hr.Dataset
EXTENDED = (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
DTYPES = (*EXTENDED, np.complex64, np.complex128)


def numbers(dtype):
    return (np.arange(12) % 5).reshape(6, 2).astype(np.float32).astype(dtype)


def same(got, want):
    got = np.asarray(got)
    return got.dtype == want.dtype and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_keep_their_bits(dtype, tmp_path):
    x = numbers(dtype)
    ds = D.from_tensor_slices(x)
    assert same(ds.batch(6).get_single_element(), x)
    assert ds.padded_batch(6, padded_shapes=[3]).get_single_element()[:, :2].tolist() == x.tolist()
    ds.save(tmp_path / "saved")
    for kept in (ds.cache(), ds.cache(tmp_path / "cache"), D.load(tmp_path / "saved")):
        for _ in range(2):
            assert same(np.stack(list(kept)), x)
    assert same(np.stack(list(ds.map(lambda v: v, mode="process"))), x)


@pytest.mark.parametrize("dtype", [each for each in DTYPES if np.dtype(each).kind != "c"])
def test_examples_hold_floats_of_any_width_and_tables_say_that_they_do_not(dtype, tmp_path):
    ds = D.from_tensor_slices({"x": numbers(dtype)})
    files = ds.write_tfrecord(tmp_path / "rows")
    features = {"x": hr.io.FixedLenFeature([2], np.float32)}
    rows = [hr.io.parse_single_example(record, features)["x"] for record in hr.TFRecordDataset(files)]
    assert np.stack(rows).tolist() == numbers(np.float32).tolist()
    with pytest.raises(TypeError, match=rf"column 'x' is of dtype {np.dtype(dtype).name}, which Arrow has .*float32"):
        ds.write_parquet(tmp_path / "table")


def test_values_of_several_shapes_and_scalars_are_stored(tmp_path):
    x = numbers(ml_dtypes.bfloat16)
    ds = D.range(4).map(lambda i: (x[0, :i], x[0, 0]), mode="eager")
    ds.save(tmp_path / "saved")
    assert [(a.dtype.name, a.shape, b.dtype.name) for a, b in D.load(tmp_path / "saved")] == [
        ("bfloat16", (min(i, 2),), "bfloat16") for i in range(4)
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_has_the_same_bits_and_gives_them_back(dtype):
    torch = pytest.importorskip("torch")
    x = numbers(dtype)
    for ds in (D.from_tensor_slices(x).batch(6), D.from_tensors(x)):
        tensor = ds.to_torch().__iter__().__next__()
        assert str(tensor.dtype) == f"torch.{np.dtype(dtype).name}"
        assert tensor.view(torch.uint8).numpy().tobytes() == x.tobytes()
        assert same(D.from_tensor_slices(tensor).batch(6).get_single_element(), x)


def test_a_dtype_that_torch_lacks_is_named():
    pytest.importorskip("torch")
    with pytest.raises(hr.ElementError, match="float8_e3m4, which torch does not know"):
        next(iter(D.from_tensors(numbers(ml_dtypes.float8_e3m4)).to_torch()))


@pytest.mark.parametrize("dtype", EXTENDED)
def test_jax_has_the_same_bits(dtype):
    pytest.importorskip("jax")
    x = numbers(dtype)
    assert same(next(iter(D.from_tensor_slices(x).batch(6).to_jax())), x)


def test_tensors_and_dlpack_objects_are_read_in_place():
    torch = pytest.importorskip("torch")

    class Capsule:
        def __init__(self, array):
            self.__dlpack__ = array.__dlpack__
            self.__dlpack_device__ = array.__dlpack_device__

    x = np.arange(6.0)
    for given in (torch.from_numpy(x), Capsule(x)):
        assert np.shares_memory(D.from_tensor_slices(given).batch(6).get_single_element(), x)
