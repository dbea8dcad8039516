"""Text of records that becomes scaled numbers where it is found: the same bits as step by step, and the same errors."""

import numpy as np
import pytest
from tests.framing import framed

import headrace as hr
from headrace import _native
from headrace.errors import ElementError
from headrace.io import parse as parsing
from headrace.io.parse import plan
from headrace.testing import check_transformation
from headrace.trace import function as tracing
from headrace.trace.known import Known

SIZE, ROWS = 600, 3000
FEATURES = {
    "weight": hr.io.FixedLenFeature([], np.float32),
    "image": hr.io.FixedLenFeature([], bytes),
    "label": hr.io.FixedLenFeature([], np.int64),
}
RANDOM = np.random.default_rng(0)


def example(i, size=SIZE, **more):
    return hr.io.encode_example({"image": RANDOM.bytes(size), "label": i, "weight": i / 7, **more})


RECORDS = [example(i) for i in range(ROWS)]


@pytest.fixture
def found(monkeypatch):
    """How many rows, or None where it could not be, were given as scaled numbers, block by block."""
    blocks = []

    class Counting:
        def __init__(self, *how):
            self._parser = _native.ExampleParser(*how)
            self.parse, self.parse_places = self._parser.parse, self._parser.parse_places

        def parse_scaled(self, *arguments):
            made = self._parser.parse_scaled(*arguments)
            blocks.append(None if made is None else len(arguments[-1]))
            return made

    monkeypatch.setattr(parsing, "_native", type("Native", (), {"ExampleParser": Counting}))
    monkeypatch.setattr(tracing, "KNOWN", Known())  # graphs that others have traced parse by other means
    parsing._plan.cache_clear()
    yield blocks
    parsing._plan.cache_clear()


@pytest.fixture
def shuffled(tmp_path):
    """Write records to a file; return a dataset of them, shuffled by reference."""

    def write(records, capacity=500):
        path = tmp_path / "records"
        path.write_bytes(framed(records))
        return hr.TFRecordDataset(str(path), index=False).shuffle(capacity, seed=3, reshuffle_each_iteration=False)

    return write


def rows_of(ds):
    made = []
    for row in ds:
        leaves = row if isinstance(row, tuple) else (row,)
        made.append([(leaf.dtype, leaf.shape, leaf.tobytes()) for leaf in map(np.asarray, leaves)])
    return made


def parse(record):
    return hr.io.parse_single_example(record, FEATURES)


def decoded(record):
    row = parse(record)
    image = hr.io.decode_raw(row["image"], np.uint8).reshape(20, 30)
    return image.astype(np.float32) / 255, row["label"], row["weight"]


def several_operations(record):
    image = np.frombuffer(parse(record)["image"], np.uint8)
    return (image.astype(np.float32) - 128) * np.float32(0.3) + 1


def two_shapes(record):
    image = hr.io.decode_raw(parse(record)["image"], np.uint8, fixed_length=SIZE)
    return np.asarray(np.reshape(image.reshape(30, 20), (4, 150)), np.float32) * 2


@pytest.mark.parametrize("function", [decoded, several_operations, two_shapes])
def test_the_same_bits_as_row_by_row(function, shuffled, found):
    ds = shuffled(RECORDS)
    expected = rows_of(ds.map(function, mode="eager"))
    assert not found
    assert rows_of(ds.map(function, 2)) == expected
    assert sum(filter(None, found)) == ROWS
    assert found.count(None) <= 2  # before it is known how long the texts are, by each of two threads


def with_the_text(record):
    row = parse(record)
    return hr.io.decode_raw(row["image"], np.uint8).astype(np.float32) / 255, row["image"]


def with_the_bytes(record):
    image = hr.io.decode_raw(parse(record)["image"], np.uint8)
    return image.astype(np.float32) / 255, image


def with_a_shape_of_the_bytes(record):
    image = hr.io.decode_raw(parse(record)["image"], np.uint8)
    return image.astype(np.float32) / 255, image.reshape(2, -1)


def in_columns(record):
    image = hr.io.decode_raw(parse(record)["image"], np.uint8).reshape((20, 30), order="F")
    return image.astype(np.float32) / 255


def transposed(record):
    image = hr.io.decode_raw(parse(record)["image"], np.uint8).reshape(20, 30).T
    return image.astype(np.float32) / 255


def half_of_it(record):
    return hr.io.decode_raw(parse(record)["image"], np.uint8).reshape(2, 300)[0].astype(np.float32) / 255


def a_part(record):
    return np.split(hr.io.decode_raw(parse(record)["image"], np.uint8), 2)[1].astype(np.float32) / 255


def of_two_bytes(record):
    return hr.io.decode_raw(parse(record)["image"], np.uint16).astype(np.float32) / 255


def of_two_texts(record):
    row = hr.io.parse_single_example(record, {**FEATURES, "name": hr.io.FixedLenFeature([], bytes, b"?")})
    return hr.io.decode_raw(row["image"], np.uint8).astype(np.float32) / 255, row["name"]


def with_a_list(record):
    row = hr.io.parse_single_example(record, {**FEATURES, "label": hr.io.FixedLenFeature([1], np.int64)})
    return hr.io.decode_raw(row["image"], np.uint8).astype(np.float32) / 255, row["label"]


@pytest.mark.parametrize(
    "function",
    [
        with_the_text,
        with_the_bytes,
        with_a_shape_of_the_bytes,
        in_columns,
        transposed,
        half_of_it,
        a_part,
        of_two_bytes,
        of_two_texts,
        with_a_list,
    ],
)
def test_where_more_is_made_of_the_text_it_is_a_column(function, shuffled, found):
    ds = shuffled(RECORDS[:400])
    assert rows_of(ds.map(function, 2)) == rows_of(ds.map(function, mode="eager"))
    assert not found


def cut(record):
    return hr.io.decode_raw(parse(record)["image"], np.uint8, fixed_length=100).astype(np.float32) / 255


def from_there_on(record):
    return np.frombuffer(parse(record)["image"], np.uint8, offset=50).astype(np.float32) / 255


@pytest.mark.parametrize("function", [cut, from_there_on])
def test_a_part_of_the_text_is_not_the_text(function, shuffled, found):
    """Also where a part of some is as long as all of others, and few of those come first."""
    records = [example(i) for i in range(16)] + [example(i, SIZE - 50) for i in range(2000)]
    ds = shuffled(records, 2)
    for mode in ("auto", "vectorized"):
        assert rows_of(ds.map(function, 2, mode=mode)) == rows_of(ds.map(function, mode="eager"))
    assert not any(found)


def test_what_cannot_be_read_is_an_error_as_ever(shuffled):
    def function(record):
        image = hr.io.decode_raw(parse(record)["image"], np.uint8, fixed_length=0)
        return image.reshape(20, 30).astype(np.float32) / 255

    for mode in ("auto", "vectorized", "eager"):
        with pytest.raises((ElementError, TypeError), match=r"fixed_length 0|reshape"):
            list(shuffled(RECORDS[:500]).map(function, 2, mode=mode))


def test_text_of_another_length_than_is_read_is_soon_no_longer_tried(shuffled, found):
    ds = shuffled(RECORDS)
    expected = rows_of(ds.map(cut, mode="eager"))
    mapped = ds.map(cut, 2)
    tried = []
    for _ in range(20):
        assert rows_of(mapped) == expected
        tried.append(len(found))
    assert 0 < tried[-2] == tried[-1]
    assert not any(found)


def test_text_that_is_as_long_as_what_is_cut_of_it(shuffled, found):
    ds = shuffled([example(i, 100 if i % 700 else SIZE, filling=b"x" * 500) for i in range(ROWS)])
    assert rows_of(ds.map(cut, 2)) == rows_of(ds.map(cut, mode="eager"))
    assert any(found)


@pytest.mark.parametrize("others", [[SIZE - 1], [0], [SIZE - 1, SIZE + 1]], ids=str)
def test_rows_of_other_lengths_among_them(others, shuffled, found):
    records = RECORDS[:1500] + [example(i, size) for i, size in enumerate(others)] + RECORDS[1500:]

    def flat(record):
        return hr.io.decode_raw(parse(record)["image"], np.uint8).astype(np.float32) / 255

    ds = shuffled(records)
    assert rows_of(ds.map(flat, 2)) == rows_of(ds.map(flat, mode="eager"))
    assert None in found


def test_a_record_without_the_text_is_named_as_ever(shuffled, found):
    records = [*RECORDS[:1000], hr.io.encode_example({"label": 1, "weight": 1.0}), *RECORDS[1000:]]
    said = []
    for mode in ("auto", "eager"):
        with pytest.raises(ElementError, match="'image' is missing") as error:
            list(shuffled(records).map(decoded, 2, mode=mode))
        said.append(str(error.value))
    assert said[0] == said[1]
    assert None in found


def test_a_default_and_other_orders_of_features(shuffled, found):
    features = {**FEATURES, "label": hr.io.FixedLenFeature([], np.int64, 9)}
    records = RECORDS[:700] + [
        hr.io.encode_example({"weight": 0.5, "image": RANDOM.bytes(SIZE), "zebra": [1, 2]}) for _ in range(700)
    ]

    def function(record):
        row = hr.io.parse_single_example(record, features)
        return hr.io.decode_raw(row["image"], np.uint8).astype(np.float32) / 255, row["label"], row["weight"]

    ds = shuffled(records)
    assert rows_of(ds.map(function, 2)) == rows_of(ds.map(function, mode="eager"))
    assert sum(filter(None, found)) == len(records)


def test_records_that_were_copied_are_parsed_as_ever(found):
    ds = hr.Dataset.from_tensor_slices(RECORDS[:300])
    assert rows_of(ds.map(decoded, 2)) == rows_of(ds.map(decoded, mode="eager"))
    assert not found


AMONG = {"none": [], "shorter": [example(0, SIZE - 1)], "refused": [hr.io.encode_example({"label": 1})]}


@pytest.mark.parametrize("among", AMONG)
def test_what_the_reference_executor_gives_and_a_resume_anywhere(among, shuffled, found):
    """Also where a row of another length, or one that is refused, is among them."""
    records = RECORDS[:150] + AMONG[among] + RECORDS[150:300]

    def flat(record):
        row = parse(record)
        return hr.io.decode_raw(row["image"], np.uint8).astype(np.float32) / 255, row["label"]

    check_transformation(shuffled(records, 40).map(flat, 2), cuts=6)
    assert any(found)


def test_rows_are_memory_of_their_own(shuffled):
    kept = [images for images, _, _ in shuffled(RECORDS).map(decoded, 2).batch(128)]
    before = [images.copy() for images in kept]
    for number, images in enumerate(kept):
        images += number  # noqa: PLW2901
    for number, (images, was) in enumerate(zip(kept, before, strict=True)):
        assert np.array_equal(images, was + number)


def test_the_kernel_checks_what_it_gets(tmp_path):
    from headrace.formats.shared.files import LocalFile

    path = tmp_path / "records"
    path.write_bytes(framed(RECORDS[:3]))
    file = LocalFile(str(path))
    memory = file.map_memory()
    file.close()
    bounds, _, _ = _native.RecordScan(memory, 0).bounds(0, len(memory.data), 3)
    parser = plan(FEATURES, single=True)._parser
    what, numbers, out = np.full(1, 3), np.full(1, 255, np.float32), np.empty((3, SIZE), np.float32)
    good = ([memory], bounds, 1, what, numbers, out)
    ints, floats = parser.parse_scaled(*good)
    assert ints.tolist() == [0, 1, 2]
    assert floats.tolist() == (np.arange(3) / 7).astype(np.float32).tolist()
    assert parser.parse_scaled(*good[:-1], np.empty((3, SIZE + 1), np.float32)) is None
    for place, wrong in [(2, 0), (2, 3), (2, -1), (3, what + 1), (4, numbers[:0]), (5, out[:2])]:
        with pytest.raises(ValueError, match=r"text|request|operation|fit"):
            parser.parse_scaled(*good[:place], wrong, *good[place + 1 :])
    with pytest.raises(TypeError):
        parser.parse_scaled(*good[:-1], out.astype(np.float64))
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)  # in place: the same file
    assert parser.parse_scaled(*good) is None
