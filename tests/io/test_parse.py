"""What hr.io.parse_* gives, and what it says of records that do not fit."""

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from tests.by_hand import (
    Generator,
    entry,
    example,
    field,
    floats,
    ints,
    sequence_example,
    steps,
    texts,
    unpacked_floats,
    unpacked_ints,
    varint,
)

import headrace as hr
from headrace.columns import values
from headrace.io.parse import plan

X = {"x": hr.io.FixedLenFeature([2], np.int64)}


def said(call, *parts):
    with pytest.raises(hr.ParseError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
    return caught.value


def test_errors_name_the_record_the_feature_and_what_is_wrong():
    good = example(entry(b"x", ints(1, 2)))

    def parse(bad, features=X):
        return lambda: hr.io.parse_example([good, good, bad], features)

    error = said(parse(example(entry(b"x", ints(1, 2, 3)))), "record 2", "feature 'x' has 3 values where 2 were asked")
    assert error.row == 2
    said(parse(example(entry(b"x", ints(1)))), "feature 'x' has 1 value where 2 were asked")
    said(parse(example(entry(b"x", floats(1)))), "feature 'x' holds float32 where int64 was asked")
    said(parse(example(entry(b"x", texts(b"1")))), "feature 'x' holds bytes where int64 was asked")
    said(parse(example()), "feature 'x' is missing and has no default")
    said(parse(b"\xff\xff"), "record 2", "not an Example")
    said(parse(example(entry(b"x", field(3, field(1, b"\x80"))))), "feature 'x' is damaged")
    pairs = {"x": hr.io.FixedLenSequenceFeature([2], np.int64, allow_missing=True)}
    said(parse(example(entry(b"x", ints(1, 2, 3))), pairs), "feature 'x' has 3 values, which is no multiple of 2")
    said(lambda: hr.io.parse_single_example(b"\x08", X), "not an Example")


def test_errors_name_the_record_as_the_user_does():
    said(lambda: hr.io.parse_example([b"\xff"], X, example_names=["train-7:33"]), "record 'train-7:33' of the batch")


def test_errors_in_lists_name_the_step():
    record = sequence_example([], [steps(b"w", ints(1, 2), ints(3))])
    wanted = {"w": hr.io.FixedLenSequenceFeature([2], np.int64)}
    parse = hr.io.parse_sequence_example
    said(lambda: parse([record], {}, wanted), "record 0", "feature list 'w', step 1 has 1 value where 2 were asked")
    said(lambda: parse([b""], {}, wanted), "feature list 'w' is missing")


def test_wrong_partitions_are_refused():
    def cut(partition, *cuts):
        record = example(entry(b"v", ints(1, 2, 3)), entry(b"p", ints(*cuts)))
        return hr.io.parse_example([b"", record], {"x": hr.io.RaggedFeature(np.int64, "v", [partition])})["x"].to_list()

    kinds = hr.io.RaggedFeature
    assert cut(kinds.RowSplits("p"), 0, 1, 3) == [[], [[1], [2, 3]]]
    said(lambda: cut(kinds.RowSplits("p"), 0, 1, 4), "record 1", "does not cut its 3 values")
    said(lambda: cut(kinds.RowSplits("p"), 0, 3, 1, 3), "does not cut")
    said(lambda: cut(kinds.RowLengths("p"), 4, -1), "does not cut")
    said(lambda: cut(kinds.RowStarts("p"), 1, 2), "does not cut")
    said(lambda: cut(kinds.RowLimits("p"), 1, 2), "does not cut")
    said(lambda: cut(kinds.ValueRowIds("p"), 0, 1, 0), "do not rise")
    said(lambda: cut(kinds.ValueRowIds("p"), 0, 1, 2**62), "do not rise")
    said(lambda: cut(kinds.UniformRowLength(2)), "3 values for rows of 2")


def test_wrong_sparse_indices_are_refused():
    def parse(indices, values):
        record = example(entry(b"i", ints(*indices)), entry(b"v", floats(*values)))
        return hr.io.parse_example([b"", record], {"x": hr.io.SparseFeature("i", "v", np.float32, 4)})["x"]

    assert parse([3, 1], [0.5, 1.5]).indices.tolist() == [[1, 1], [1, 3]]
    assert parse([3, 1], [0.5, 1.5]).to_dense().tolist() == [[0, 0, 0, 0], [0, 1.5, 0, 0.5]]
    said(lambda: parse([3], [0.5, 1.5]), "record 1", "1 indices for 2 values")
    said(lambda: parse([1, 4], [0.5, 1.5]), "record 1", "[4]", "size of [4]")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hr.io.FixedLenFeature([None, 2], np.int64), "known"),
        (lambda: hr.io.parse_example([], {"x": hr.io.FixedLenFeature([], np.int32)}), "float32, int64 and bytes"),
        (lambda: hr.io.parse_example([], {"x": hr.io.FixedLenFeature([2], np.int64, 1)}), "default"),
        (lambda: hr.io.parse_example([], {"x": hr.io.FixedLenFeature([], np.int64, 1.5)}), "default"),
        (lambda: hr.io.parse_example([], {"x": hr.io.FixedLenSequenceFeature([], np.int64)}), "allow_missing"),
        (lambda: hr.io.parse_sequence_example([], {}, {"x": hr.io.FixedLenFeature([], np.int64)}), "feature list 'x'"),
        (lambda: hr.io.SparseFeature(["a", "b"], "v", np.float32, 3), "keys"),
        (lambda: hr.io.RaggedFeature(np.int64, partitions=[hr.io.RaggedFeature.UniformRowLength(0)]), "positive"),
    ],
)
def test_descriptions_are_checked(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_unknown_fields_are_passed_over_wherever_they_stand():
    unknown = field(9, b"?") + varint(12 << 3 | 3) + varint(13 << 3 | 3) + varint(13 << 3 | 4) + varint(12 << 3 | 4)
    listed = field(3, unknown + field(1, varint(1)) + unknown + varint(8) + varint(2) + unknown)
    inner = field(1, unknown + field(1, b"x") + unknown + field(2, unknown + listed + unknown) + unknown)
    record = unknown + field(1, unknown + inner + unknown) + unknown
    assert hr.io.parse_single_example(record, X)["x"].tolist() == [1, 2]
    assert hr.io.Example.parse(record)["x"].tolist() == [1, 2]


def test_one_name_may_be_asked_for_in_several_ways():
    features = {
        "dense": hr.io.RaggedFeature(np.int64, "x", [hr.io.RaggedFeature.UniformRowLength(2)]),
        "ragged": hr.io.RaggedFeature(np.int64, "x"),
        "x": hr.io.FixedLenFeature([4], np.int64),
    }
    got = hr.io.parse_single_example(example(entry(b"x", ints(1, 2, 3, 4))), features)
    assert got["dense"].tolist() == [[1, 2], [3, 4]]
    assert got["ragged"].tolist() == got["x"].tolist() == [1, 2, 3, 4]


def test_the_block_form_makes_no_objects_and_agrees_with_one_by_one():
    chance = random.Random(3)
    records = [Generator(chance).example({"i": None, "f0": 1, "b0": 1, "i4": 4}) for _ in range(50)]
    features = {
        "i": hr.io.VarLenFeature(np.int64),
        "f0": hr.io.FixedLenFeature([], np.float32, 1.0),
        "b0": hr.io.FixedLenFeature([], bytes, b"none"),
        "i4": hr.io.FixedLenFeature([2, 2], np.int64, [[1, 2], [3, 4]]),
    }
    columns = plan(features, single=True).fixed_columns(pa.array(records, pa.large_binary())[5:45])
    assert isinstance(columns["i"], hr.Ragged)
    assert columns["i4"].shape == (40, 2, 2)
    assert columns["b0"].type == pa.large_binary()
    for number, record in enumerate(records[5:45]):
        one = hr.io.parse_single_example(record, features)
        assert one["i"].tolist() == columns["i"][number].tolist()
        assert one["f0"] == columns["f0"][number]
        assert type(one["f0"]) is np.float32
        assert one["b0"] == columns["b0"][number].as_py()
        assert one["i4"].tolist() == columns["i4"][number].tolist()
    context, lists = plan({}, {"i": features["i"]}).columns(pa.array([b""] * 3, pa.large_binary()))
    assert context == {}
    assert lists["i"].to_list() == [[], [], []]


def test_batches_may_come_in_any_container():
    records = [example(entry(b"x", ints(1, 2))), example(entry(b"x", ints(3, 4)))]
    strings = pa.chunked_array([pa.array(records[:1]), pa.array(records[1:])])
    for batch in (records, tuple(records), np.array(records, object), pa.array(records), strings):
        assert hr.io.parse_example(batch, X)["x"].tolist() == [[1, 2], [3, 4]]
    assert hr.io.parse_example([], X)["x"].shape == (0, 2)
    with pytest.raises(TypeError, match="record 1 is int"):
        hr.io.parse_example([b"", 1], X)
    with pytest.raises(TypeError, match="bytes"):
        hr.io.parse_single_example(records, X)


def test_parsing_works_within_a_pipeline():
    records = [hr.io.encode_example({"x": [i, -i]}) for i in range(10)]
    ds = hr.Dataset.from_tensor_slices(records)
    one_by_one = ds.map(lambda r: hr.io.parse_single_example(r, X)["x"]).batch(4)
    in_batches = ds.batch(4).map(lambda r: hr.io.parse_example(r, X)["x"])
    for a, b in zip(one_by_one, in_batches, strict=True):
        assert a.tolist() == b.tolist()


def test_damage_anywhere_is_an_error_or_another_value_but_never_a_crash():
    chance = random.Random(11)
    sizes = {"i0": 1, "f": None, "b2": 2}
    features = {
        "i0": hr.io.FixedLenFeature([], np.int64, 0),
        "f": hr.io.VarLenFeature(np.float32),
        "b2": hr.io.FixedLenFeature([2], bytes, [b"", b""]),
    }
    generator = Generator(chance)
    refused = 0
    for _ in range(3000):
        record = bytearray(generator.example(sizes) or b"\0")
        for _ in range(chance.randint(1, 3)):
            record[chance.randrange(len(record))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        try:
            hr.io.parse_single_example(bytes(record), features)
        except hr.ParseError:
            refused += 1
    assert 300 < refused < 3000


def test_a_wrong_length_takes_no_memory():
    huge = varint(2**62)
    lies = [b"\x0a" + huge, field(1, b"\x0a" + huge), example(entry(b"x", b"\x1a" + huge + b"\x0a" + huge))]
    tracemalloc.start()
    for lie in lies:
        said(lambda: hr.io.parse_single_example(lie, X))  # noqa: B023
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


NAMES = [b"", b"a", b"user", b"user_id", b"feature", b"a name of 16 byte", b"n" * 23, b"n" * 99, b"n" * 101, b"n" * 127]
NUMBERS = [
    0,
    1,
    127,
    128,
    2**14,
    2**21 - 1,
    2**28 - 1,
    2**28,
    2**35,
    2**42,
    2**49,
    2**56 - 1,
    2**56,
    2**63 - 1,
    -1,
    -(2**63),
]


@pytest.mark.parametrize("seed", range(40))
def test_records_that_look_alike_are_read_as_each_by_itself(seed):
    """Blocks of such records are read by comparing with the one before; each by itself is not."""
    chance = random.Random(seed)
    names = chance.sample(NAMES, chance.randint(1, len(NAMES)))
    kinds = {name: chance.choice([np.int64, np.int64, np.float32, bytes]) for name in names}
    unasked = set(chance.sample(names, chance.randint(0, len(names) - 1))) if chance.random() < 0.3 else set()

    def value(name):
        if name in unasked and chance.random() < 0.5:
            return texts(b"x" * chance.randint(0, 20))
        if kinds[name] is bytes:
            size = chance.choice([0, 1, 8, 8, 8, 15, 16, 17, 40, 110, 116, 117, 118, 119, 200])
            return texts(chance.randbytes(size), *[b"two"] * (chance.random() < 0.02))
        if kinds[name] is np.int64:
            number = chance.choice([*NUMBERS, chance.randrange(1 << 20)])
            return (ints if chance.random() < 0.95 else unpacked_ints)(number)
        return (floats if chance.random() < 0.95 else unpacked_floats)(chance.random())

    def record():
        order = list(names)
        if chance.random() < 0.1:
            chance.shuffle(order)
        if chance.random() < 0.05:
            order.remove(chance.choice(order))
        if chance.random() < 0.05:
            order.append(chance.choice(names))
        return example(*[entry(name, value(name)) for name in order])

    records = [record() for _ in range(60)]
    features = {
        name.decode(): hr.io.FixedLenFeature([], kinds[name], b"none" if kinds[name] is bytes else 7)
        for name in names
        if name not in unasked
    }
    alone = []
    for one in records:
        try:
            alone.append(hr.io.parse_single_example(one, features))
        except hr.ParseError:
            break
    if len(alone) < len(records):
        said(lambda: hr.io.parse_example(records, features), f"record {len(alone)} ")
        records = records[: len(alone)]
    columns = plan(features, single=True).fixed_columns(pa.array(records, pa.large_binary()))
    assert set(columns) == set(features)
    rows = {name: list(values(column)) for name, column in columns.items()}
    assert [{name: rows[name][number] for name in features} for number in range(len(records))] == alone


def test_strangers_are_refused_in_records_that_look_alike():
    empty, full = (example(entry(b"a", ints(1)), entry(b"b", feature)) for feature in (b"", ints(5)))
    described = plan({"a": hr.io.FixedLenFeature([], np.int64)}, single=True, closed=True)
    with pytest.raises(hr.ParseError, match="'b' is none of those"):
        described.fixed_columns(pa.array([empty, empty, full, empty], pa.large_binary()))


def test_a_text_that_is_cut_short_does_not_go_on_in_the_next():
    good = example(entry(b"a", texts(b"x" * 20)), entry(b"b", texts(b"12345678")), entry(b"c", ints(5)))
    features = {"a": hr.io.FixedLenFeature([], bytes, b"-"), "b": hr.io.FixedLenFeature([], bytes, b"-"),
                "c": hr.io.FixedLenFeature([], np.int64, -1)}  # fmt: skip
    for cut in range(1, len(good)):
        records = [good, good, good[:-cut], good, good]
        try:
            expected = [hr.io.parse_single_example(r, features) for r in records]
        except hr.ParseError:
            assert said(lambda r=records: hr.io.parse_example(r, features), "record 2").row == 2
        else:
            assert hr.io.parse_example(records, features)["b"].tolist() == [one["b"] for one in expected]


def test_a_record_that_is_cut_short_does_not_go_on_in_the_next():
    good = example(entry(b"a", ints(300)), entry(b"b", ints(5)))
    features = {name: hr.io.FixedLenFeature([], np.int64, -1) for name in "ab"}
    for cut in range(1, len(good)):
        records = [good, good, good[:-cut], good, good]
        try:
            expected = [hr.io.parse_single_example(r, features) for r in records]
        except hr.ParseError:
            assert said(lambda r=records: hr.io.parse_example(r, features), "record 2").row == 2
        else:
            assert hr.io.parse_example(records, features)["b"].tolist() == [one["b"] for one in expected]


def test_columns_of_numbers_can_be_written_to_one_by_one():
    records = [example(entry(b"a", ints(i)), entry(b"b", ints(i)), entry(b"c", floats(i))) for i in range(10)]
    kinds = {"a": np.int64, "b": np.int64, "c": np.float32}
    features = {name: hr.io.FixedLenFeature([], kind) for name, kind in kinds.items()}
    ds = hr.Dataset.from_tensor_slices(np.array(records, object)).map(lambda r: hr.io.parse_single_example(r, features))
    (batch,) = ds.batch(10)
    batch["a"] += 100
    assert batch["b"].tolist() == list(range(10)) == batch["c"].tolist()
    assert all(column.flags.c_contiguous for column in batch.values())


def test_a_missing_feature_is_told_with_those_there_are():
    record = hr.io.encode_example({"image": b"", "label": 1, "width": 3})
    features = {"lable": hr.io.FixedLenFeature([], np.int64)}
    for parse in (
        lambda: hr.io.parse_single_example(record, features),
        lambda: hr.io.parse_example([record], features),
    ):
        with pytest.raises(
            hr.ParseError, match=r"'lable' is missing and has no default: did you mean 'label'\? there are "
        ):
            parse()
    with pytest.raises(
        hr.ElementError, match=r"ParseError.*did you mean 'label'\? there are 'image', 'label', 'width'"
    ):
        list(hr.Dataset.from_tensor_slices([record] * 5).map(lambda r: hr.io.parse_single_example(r, features)))
    steps = hr.io.encode_sequence_example({"id": 7}, {"words": [[1], [2]]})
    word = hr.io.FixedLenSequenceFeature([1], np.int64)
    with pytest.raises(hr.ParseError, match=r"'word' is missing: did you mean 'words'\? there are 'id', 'words'"):
        hr.io.parse_single_sequence_example(steps, sequence_features={"word": word})
    with pytest.raises(hr.ParseError, match="is missing and has no default: there are none"):
        hr.io.parse_single_example(b"", features)


def test_a_missing_field_of_json_is_told_with_those_there_are():
    with pytest.raises(hr.ParseError, match=r"'lable' is missing and has no default: did you mean 'label'\?"):
        hr.io.decode_json(b'{"label": 1, "x": null}', {"lable": np.int64})


def test_the_default_of_a_feature_of_bytes_is_bytes():
    row = [hr.io.encode_example({"y": 1})]
    assert hr.io.parse_example(row, {"x": hr.io.FixedLenFeature([], bytes, "é")})["x"].tolist() == ["é".encode()]
    with pytest.raises(ValueError, match="feature 'x': the default 10 is no bytes"):
        hr.io.parse_example(row, {"x": hr.io.FixedLenFeature([], bytes, 10)})
