"""What needs every element of a dataset refuses one that never ends."""

import pytest

import headrace as hr


def generated():
    return hr.Dataset.from_generator(lambda: range(3), output_signature=hr.TensorSpec((), "int64"))


ENDLESS = {
    "repeat": lambda: hr.Dataset.range(3).repeat(),
    "counter": lambda: hr.Dataset.counter(),
    "of an unknown number": lambda: generated().repeat(),
    "behind a filter": lambda: hr.Dataset.range(3).repeat().filter(lambda x: x > 0),
    "behind batches": lambda: generated().repeat().batch(2).unbatch().ignore_errors().prefetch(1),
    "of an interleave": lambda: generated().repeat().interleave(lambda x: hr.Dataset.range(2)),
    "of a zip": lambda: hr.Dataset.zip(generated().repeat(), hr.Dataset.range(3).repeat()).map(lambda a, b: a),
    "take(-1)": lambda: generated().repeat().take(-1),
}
FINITE = {
    "take": lambda: generated().repeat().take(5),
    "take_while": lambda: hr.Dataset.counter().take_while(lambda x: x < 5),
    "of a zip": lambda: hr.Dataset.zip(generated().repeat(), hr.Dataset.range(5)).map(lambda a, b: b),
    "repeat(1)": lambda: hr.Dataset.range(5).filter(lambda x: True).repeat(1),
    "of nothing": lambda: hr.Dataset.range(0).repeat().concatenate(hr.Dataset.range(5)),
}


def named(ds):
    return ds.map(lambda x: {"x": x})


SINKS = {
    "count": lambda ds, to: ds.count(),
    "reduce": lambda ds, to: ds.reduce(0, lambda n, x: n + 1),
    "save": lambda ds, to: ds.save(to / "saved"),
    "statistics": lambda ds, to: ds.statistics(),
    "write_tfrecord": lambda ds, to: named(ds).write_tfrecord(to / "t"),
    "write_parquet": lambda ds, to: named(ds).write_parquet(to / "p"),
    "write_webdataset": lambda ds, to: ds.map(lambda x: {"__key__": str(x), "cls": x}).write_webdataset(to / "w"),
    "write_tfds": lambda ds, to: named(ds).write_tfds(to, "numbers"),
    "write_sql": lambda ds, to: named(ds).write_sql(f"sqlite:///{to}/n.db", "numbers"),
    "adapt": lambda ds, to: hr.preprocessing.Normalization().adapt(ds.map(float)),
}


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("made", ENDLESS)
def test_an_infinite_dataset_is_refused(tmp_path, sink, made):
    with pytest.raises(ValueError, match=r"infinite: take\(n\)"):
        SINKS[sink](ENDLESS[made](), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("made", FINITE)
def test_one_that_ends_is_not(tmp_path, made):
    ds = FINITE[made]()
    assert ds.count() == ds.reduce(0, lambda n, x: n + 1) == 5
    ds.save(tmp_path / "saved")
