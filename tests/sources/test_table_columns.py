"""Which columns of a table are read, and as what: in files, in memory, by the same rules."""

import decimal
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables import write_arrow, write_parquet, write_stream

import headrace as hr
from headrace.testing import check_transformation, outcomes

D = hr.Dataset
CHAT = pa.array(
    [
        [{"role": "user", "content": "Hi"}, {"role": "bot", "content": "Hello"}],
        [],
        [{"role": "user", "content": "é"}],
    ]
)
DECIMAL = decimal.Decimal


def plain(value):
    """Lists of what there is, however it is kept."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.fixture(params=["parquet", "arrow", "stream", "memory"])
def read(request, tmp_path):
    """The rows of a table, from wherever it is; with the arguments of a reader, from files alone."""

    def rows(table, **options):
        if request.param == "memory":
            return pytest.skip("for readers of files") if options else D.from_arrow(table)
        write, reader = {
            "parquet": (write_parquet, hr.ParquetDataset),
            "arrow": (write_arrow, hr.ArrowDataset),
            "stream": (write_stream, hr.ArrowDataset),
        }[request.param]
        write(table, tmp_path / "t")
        return reader(str(tmp_path / "t"), **options)

    return rows


class TestKinds:
    COLUMNS = [  # noqa: RUF012
        pytest.param(
            CHAT,
            [
                {"role": ["user", "bot"], "content": ["Hi", "Hello"]},
                {"role": [], "content": []},
                {"role": ["user"], "content": ["é"]},
            ],
            {"role": hr.TensorSpec([None], str), "content": hr.TensorSpec([None], str)},
            id="lists of structs",
        ),
        pytest.param(
            pa.array([[{"a": 1, "b": [{"c": [1, 2]}, {"c": []}]}], [{"a": 2, "b": []}], []]),
            [{"a": [1], "b": {"c": [[[1, 2], []]]}}, {"a": [2], "b": {"c": [[]]}}, {"a": [], "b": {"c": []}}],
            {"a": hr.TensorSpec([None], "int64"), "b": {"c": hr.TensorSpec([None, None, None], "int64")}},
            id="lists of structs of lists of structs",
        ),
        pytest.param(
            pa.array([[("a", 1), ("b", 2)], [], [("c", 3)]], pa.map_(pa.string(), pa.int32())),
            [{"key": ["a", "b"], "value": [1, 2]}, {"key": [], "value": []}, {"key": ["c"], "value": [3]}],
            {"key": hr.TensorSpec([None], str), "value": hr.TensorSpec([None], "int32")},
            id="maps",
        ),
        pytest.param(
            pa.array([[{"x": 1}, {"x": 2}], [{"x": 3}, {"x": 4}]], pa.list_(pa.struct([("x", pa.int8())]), 2)),
            [{"x": [1, 2]}, {"x": [3, 4]}],
            {"x": hr.TensorSpec([2], "int8")},
            id="lists of structs of one length",
        ),
        pytest.param(
            pa.array([[["a", "b"], []], [], [["c"]]]),
            [[["a", "b"], []], [], [["c"]]],
            hr.TensorSpec([None, None], str),
            id="lists of lists of text",
        ),
        pytest.param(
            pa.array([[[[1], []], []], [], [[[2, 3]]]]),
            [[[[1], []], []], [], [[[2, 3]]]],
            hr.TensorSpec([None, None, None], "int64"),
            id="lists of lists of lists",
        ),
        pytest.param(
            pa.array([DECIMAL("1.50"), DECIMAL("-2.25")], pa.decimal128(9, 2)),
            [1.5, -2.25],
            hr.TensorSpec([], "float64"),
            id="decimals of few digits",
        ),
        pytest.param(pa.nulls(2), [np.nan, np.nan], hr.TensorSpec([], "float64"), id="nulls"),
        pytest.param(pa.array([[], [None]]), [[], [np.nan]], hr.TensorSpec([None], "float64"), id="lists of nulls"),
        pytest.param(pa.array([{"a": {}}, {"a": {}}]), [{"a": {}}] * 2, {"a": {}}, id="structs without fields"),
    ]

    @pytest.mark.parametrize(("column", "want", "spec"), COLUMNS)
    def test_are_read(self, read, column, want, spec):
        try:
            ds = read(pa.table({"c": column, "i": np.arange(len(column))}))
        except pa.ArrowNotImplementedError as error:  # Parquet has no structs without fields
            pytest.skip(str(error))
        assert ds.element_spec["c"] == spec
        got = [plain(row["c"]) for row in ds]
        assert json.dumps(got) == json.dumps(want)
        check_transformation(ds, cuts=4)
        check_transformation(ds.repeat(3).shuffle(4, seed=1), cuts=4)

    def test_a_chat_in_batches(self, read):
        ds = read(pa.table({"messages": CHAT}))
        (batch,) = ds.ragged_batch(3)
        assert batch["messages"]["role"].to_list() == [["user", "bot"], [], ["user"]]
        (batch,) = ds.padded_batch(3)
        assert batch["messages"]["content"].tolist() == [["Hi", "Hello"], ["", ""], ["é", ""]]

    def test_a_chat_is_kept(self, read, tmp_path):
        ds = read(pa.table({"messages": CHAT, "deep": pa.array([[["a"], []], [], [["b"]]])}))
        want = [plain(row) for row in ds]
        cached = ds.cache(str(tmp_path / "cache"))
        assert [plain(row) for row in cached] == [plain(row) for row in cached] == want

    @pytest.mark.parametrize("kind", [pa.decimal128(38, 9), pa.decimal256(50, 2)])
    def test_decimals_of_many_digits_need_a_word(self, read, kind):
        table = pa.table({"price": pa.array([DECIMAL("12345678901234567.25"), None], kind)})
        with pytest.raises(hr.SpecError, match=r"column 'price' is of type decimal.*more digits than a float64"):
            read(table)

    def test_what_there_is_nothing_like(self, read):
        table = pa.table({"gap": pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "x": [1]})
        try:
            with pytest.raises(hr.SpecError, match=r"column 'gap' is of type month_day_nano_interval"):
                read(table)
        except pa.ArrowNotImplementedError as error:  # Parquet has nothing like it either
            pytest.skip(str(error))
        assert list(read(table, exclude=["gap"])) == [{"x": 1}]


class TestCast:
    TABLE = pa.table(
        {
            "price": pa.array([DECIMAL("12345678901234567.25"), None, DECIMAL("1")], pa.decimal128(38, 9)),
            "n": pa.array([1, 2, 3], pa.int64()),
            "tags": pa.array([[1, 2], [], [3]]),
            "text": pa.array(["1.5", "x", "2"]),
            "nothing": pa.nulls(3),
            "messages": CHAT,
        }
    )

    @pytest.mark.parametrize(
        ("cast", "column", "want", "spec"),
        [
            ({"price": np.float64}, "price", [12345678901234567.25, np.nan, 1.0], hr.TensorSpec([], "float64")),
            (
                {"price": object},
                "price",
                [DECIMAL("12345678901234567.250000000"), "none", DECIMAL("1.000000000")],
                hr.TensorSpec(None, None),
            ),
            ({"n": "float32"}, "n", [1.0, 2.0, 3.0], hr.TensorSpec([], "float32")),
            ({"n": str}, "n", ["1", "2", "3"], hr.TensorSpec([], str)),
            ({"tags": np.int16}, "tags", [[1, 2], [], [3]], hr.TensorSpec([None], "int16")),
            ({"tags": pa.large_list(pa.float32())}, "tags", [[1.0, 2.0], [], [3.0]], hr.TensorSpec([None], "float32")),
            ({"text": bytes}, "text", [b"1.5", b"x", b"2"], hr.TensorSpec([], bytes)),
            ({"messages": object}, "messages", CHAT.to_pylist(), hr.TensorSpec(None, None)),
            (
                {"messages.role": bytes},
                "messages",
                [
                    {"role": [b"user", b"bot"], "content": ["Hi", "Hello"]},
                    {"role": [], "content": []},
                    {"role": [b"user"], "content": ["é"]},
                ],
                {"role": hr.TensorSpec([None], bytes), "content": hr.TensorSpec([None], str)},
            ),
        ],
    )
    def test_says_what_a_column_is(self, read, cast, column, want, spec):
        ds = read(self.TABLE, columns=[column], cast=cast, nulls={"price": "none"} if object in cast.values() else {})
        assert ds.element_spec == {column: spec}
        got = [plain(row[column]) for row in ds]
        assert repr(got) == repr(want)
        check_transformation(ds, cuts=4)

    def test_a_column_without_a_type_gets_one(self, read):
        options = {"columns": ["nothing"]}
        assert [r["nothing"] for r in read(self.TABLE, **options, nulls={"nothing": "?"})] == ["?"] * 3
        ds = read(self.TABLE, **options, cast={"nothing": np.int32}, nulls={"nothing": -1})
        assert [int(r["nothing"]) for r in ds] == [-1] * 3
        assert ds.element_spec == {"nothing": hr.TensorSpec([], "int32")}

    def test_a_value_that_cannot_be_cast_is_an_error_in_its_place(self, read):
        ds = read(self.TABLE, columns=["text"], cast={"text": np.float64})
        got = outcomes(iter(ds))
        assert [kind for kind, _ in got] == ["value", "error", "value"]
        assert "column 'text' cannot be cast to double" in got[1][1] and "row 1" in got[1][1]
        check_transformation(ds)

    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            ({"cast": {"messages": np.float64}}, hr.SpecError, "has fields: say it of each, as 'messages.role'"),
            ({"cast": {"n": "complex64"}}, TypeError, "cast={'n': 'complex64'}: that is no dtype"),
            ({"cast": {"n": "nonsense"}}, TypeError, "cast={'n': 'nonsense'}: that is no dtype"),
            ({"cast": {"text": pa.list_(pa.int8())}}, hr.SpecError, "column 'text' cannot be cast"),
            ({"cast": {"nn": np.float64}}, hr.SpecError, r"no columns nn: did you mean 'n'\? there are 'n'"),
            ({"exclude": ["messages.rolle"]}, hr.SpecError, r"messages.rolle: did you mean 'messages.role'\?"),
            ({"nulls": {"messages": 0}}, hr.SpecError, "has fields"),
            ({"nulls": {"pricee": 0}}, hr.SpecError, "no columns pricee"),
            ({"nulls": {"n": "none"}}, hr.SpecError, "nulls={'n': 'none'} is no value of int64"),
            ({"columns": "n"}, TypeError, r"columns is a list of names, not 'n'"),
            ({"columns": ["n", "n"]}, ValueError, "columns names n more than once"),
            ({"exclude": [1]}, TypeError, "exclude holds names of columns, not 1"),
        ],
    )
    def test_what_makes_no_sense(self, read, options, error, said):
        with pytest.raises(error, match=said):
            read(self.TABLE.drop_columns("price"), **options)


class TestExclude:
    def test_columns_and_fields(self, read):
        table = pa.table({"x": [1, 2, 3], "y": [4, 5, 6], "messages": CHAT})
        ds = read(table, exclude=["y", "messages.role"])
        assert plain(next(iter(ds))) == {"x": 1, "messages": {"content": ["Hi", "Hello"]}}
        check_transformation(ds)


class TestNulls:
    TABLE = pa.table(
        {
            "messages": pa.array([[{"role": "user", "content": None}], None, [{"role": None, "content": "x"}]]),
            "in": pa.array([{"a": 1, "b": 1.5}, None, {"a": None, "b": None}]),
        }
    )

    def test_are_errors_that_say_what_to_do(self, read):
        got = outcomes(iter(read(self.TABLE, columns=["messages"])))
        assert [kind for kind, _ in got] == ["error"] * 3
        assert "column 'messages.content' has no value here; say what stands for it: nulls=" in got[0][1]

    def test_can_be_filled_in_lists_and_fields(self, read):
        fillers = {"messages": [], "messages.role": "?", "messages.content": "", "in.a": -1}
        ds = read(self.TABLE, nulls=fillers)
        got = [plain(row) for row in ds]
        assert [row["messages"] for row in got] == [
            {"role": ["user"], "content": [""]},
            {"role": [], "content": []},
            {"role": ["?"], "content": ["x"]},
        ]
        assert [row["in"]["a"] for row in got] == [1, -1, -1]
        check_transformation(ds)


class TestNames:
    def test_two_columns_of_one_name_are_refused(self, read):
        table = pa.table([[1], [2], [3]], ["a", "b", "a"])
        with pytest.raises(ValueError, match=r"more than one column is called '?a'?"):
            read(table)
        assert list(read(table, exclude=["a"])) == [{"b": 2}]
        assert list(read(table, columns=["b"])) == [{"b": 2}]

    def test_two_fields_of_one_name_are_refused(self, read):
        column = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
        with pytest.raises(ValueError, match=r"more than one .* is called '?a'?"):
            read(pa.table({"c": column}))

    def test_a_dot_in_a_name_is_no_field(self, read):
        """A column `a.b` beside a column `a` with a field `b`."""
        table = pa.table({"a.b": [1, 2], "a": [{"b": 3}, {"b": 4}], "c": [5, 6]})
        assert plain(next(iter(read(table)))) == {"a.b": 1, "a": {"b": 3}, "c": 5}

    def test_a_dot_in_a_name_that_is_chosen(self, read):
        table = pa.table({"a.b": [1, 2], "a": [{"b": 3}, {"b": 4}], "c": [5, 6]})
        assert plain(next(iter(read(table, columns=["a"])))) == {"a": {"b": 3}}
        assert plain(next(iter(read(table, columns=["a.b"])))) == {"a.b": 1}


class TestOrder:
    @pytest.fixture
    def files(self, tmp_path):
        for i, name in enumerate("abc"):
            pq.write_table(pa.table({"x": [i]}), tmp_path / f"{name}.parquet")
            (tmp_path / f"{name}.jsonl").write_text(f'{{"x": {i}}}\n')
            (tmp_path / f"{name}.csv").write_text(f"x\n{i}\n")
            D.from_tensors({"x": i}).write_tfrecord(tmp_path / f"{name}")
        return tmp_path

    @pytest.mark.parametrize(
        ("reader", "ending"),
        [
            (hr.ParquetDataset, ".parquet"),
            (hr.JsonLinesDataset, ".jsonl"),
            (D.from_csv, ".csv"),
            (D.from_tfrecord, "-00000-of-00001.tfrecord"),
        ],
    )
    def test_a_list_keeps_its_order_and_a_pattern_is_sorted(self, files, reader, ending):
        names = [str(files / f"{name}{ending}") for name in "cab"]
        assert [int(row["x"]) for row in reader(names)] == [2, 0, 1]
        assert [int(row["x"]) for row in reader(str(files / f"*{ending}"))] == [0, 1, 2]
        assert [int(row["x"]) for row in reader([names[0], str(files / f"[ab]{ending}")])] == [2, 0, 1]
        with pytest.raises(FileNotFoundError, match="nothing-there"):
            reader([names[0], str(files / "nothing-there")])

    def test_list_files_sorts_as_tf_data_does(self, files):
        names = [str(files / f"{name}.csv") for name in "cab"]
        assert list(D.list_files(names, shuffle=False)) == sorted(names)
