"""from_pandas and from_polars."""

import datetime as dt

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


class TestPandas:
    @pytest.fixture
    def pd(self):
        return pytest.importorskip("pandas")

    def test_rows_are_dicts_and_the_index_is_left_out(self, run, pd):
        frame = pd.DataFrame({"x": [1.5, np.nan], "s": ["a", "b"], "i": [1, 2]}, index=[7, 8])
        ds = D.from_pandas(frame)
        first, second = run(ds)
        assert first == {"x": 1.5, "s": "a", "i": 1}
        assert np.isnan(second["x"])
        assert ds.element_spec == {
            "x": hr.TensorSpec([], "float64"),
            "s": hr.TensorSpec([], str),
            "i": hr.TensorSpec([], "int64"),
        }

    def test_every_dtype(self, run, pd):
        berlin = pd.to_datetime(["2020-01-01", "2020-01-02"]).tz_localize("Europe/Berlin")
        frame = pd.DataFrame(
            {
                "category": pd.Categorical(["u", "v"]),
                "nullable": pd.array([1, 2], "Int32"),
                "truth": pd.array([True, False], "boolean"),
                "float": pd.array([1.5, None], "Float64"),
                "arrow": pd.array(["p", "q"], "string[pyarrow]"),
                "date": pd.to_datetime(["2020-01-01", None]),
                "zoned": berlin,
                "delta": pd.to_timedelta([1, 2], "s"),
                "bytes": [b"a\0", b"b"],
                "arrays": [np.zeros(2, np.float32), np.ones(3, np.float32)],
                "dicts": [{"q": 1}, {"q": 2}],
            }
        )
        ds = D.from_pandas(frame)
        first, second = run(ds)
        assert (first["category"], first["arrow"], first["bytes"], first["dicts"]) == ("u", "p", b"a\0", {"q": 1})
        assert (first["nullable"].dtype, first["truth"].dtype) == (np.int32, np.bool_)
        assert np.isnan(second["float"])
        assert np.isnat(second["date"])
        assert first["zoned"] == np.datetime64("2019-12-31T23:00")
        assert second["delta"] == np.timedelta64(2, "s")
        assert second["arrays"].tolist() == [1, 1, 1]
        assert second["arrays"].dtype == np.float32

    def test_numbers_are_not_copied(self, pd):
        frame = pd.DataFrame({"x": np.arange(100.0)})
        (batch,) = D.from_pandas(frame).batch(100)
        assert np.shares_memory(batch["x"], frame["x"].to_numpy())
        assert not batch["x"].flags.writeable

    def test_a_series_is_a_single_component(self, run, pd):
        assert run(D.from_pandas(pd.Series([3, 4], name="x"))) == [3, 4]

    def test_column_names_may_be_anything(self, run, pd):
        assert run(D.from_pandas(pd.DataFrame([[1, 2]]))) == [{0: 1, 1: 2}]
        frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
        assert run(D.from_pandas(frame)) == [{("a", 1): 1, ("a", 2): 2}]

    def test_frames_put_together_of_others(self, run, pd):
        parts = [pd.DataFrame({"x": [i] * 80, "s": [str(i)] * 80}) for i in range(3)]
        rows = run(D.from_pandas(pd.concat(parts)))
        assert [(int(r["x"]), r["s"]) for r in rows] == [(i, str(i)) for i in range(3) for _ in range(80)]

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            (lambda pd: ["a", 1], "column 'q' of dtype object cannot be a column of one type.*astype"),
            (lambda pd: ["a", None], "column 'q' has a null in row 1.*fillna"),
            (lambda pd: pd.array([1, None], "Int64"), "column 'q' has a null in row 1, and NumPy's int64.*fillna"),
            (lambda pd: pd.Categorical(["a", None]), "column 'q' has a null in row 1"),
            (lambda pd: [1 + 2j, 3], "column 'q' of dtype complex128"),
            (lambda pd: [np.zeros((2, 2))], "column 'q'.*1-dimensional"),
            (lambda pd: pd.period_range("2020-01", periods=2, freq="M"), "column 'q' is of type.*period"),
            (lambda pd: [object()], "column 'q' of dtype object"),
        ],
    )
    def test_what_has_no_one_type_is_refused(self, pd, values, said):
        with pytest.raises(hr.SpecError, match=said):
            D.from_pandas(pd.DataFrame({"q": values(pd)}))

    def test_what_is_no_frame_is_refused(self, pd):
        with pytest.raises(TypeError, match="takes a pandas DataFrame or Series, not dict"):
            D.from_pandas({"x": [1]})
        twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
        with pytest.raises(ValueError, match="more than one column is called a"):
            D.from_pandas(twice)


class TestPolars:
    @pytest.fixture
    def pl(self):
        return pytest.importorskip("polars")

    def test_every_dtype(self, run, pl):
        frame = pl.DataFrame(
            {
                "x": [1.5, None],
                "s": ["a", "b"],
                "category": pl.Series(["u", "v"], dtype=pl.Categorical),
                "enum": pl.Series(["u", "v"], dtype=pl.Enum(["u", "v"])),
                "list": [[1], [2, 3]],
                "array": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2)),
                "date": [dt.date(2020, 1, 1), None],
                "struct": [{"a": 1}, {"a": 2}],
                "truth": [True, False],
            }
        )
        ds = D.from_polars(frame)
        first, second = run(ds)
        assert np.isnan(second["x"])
        assert np.isnat(second["date"])
        assert (second["s"], second["category"], second["enum"], second["struct"]) == ("b", "v", "v", {"a": 2})
        assert (first["list"].tolist(), second["array"].tolist()) == ([1], [3, 4])
        assert first["truth"] == np.True_
        assert ds.element_spec["array"] == hr.TensorSpec([2], "int8")
        assert ds.element_spec["list"] == hr.TensorSpec([None], "int64")

    def test_numbers_are_not_copied(self, pl):
        frame = pl.DataFrame({"x": np.arange(100.0)})
        (batch,) = D.from_polars(frame).batch(100)
        assert np.shares_memory(batch["x"], frame["x"].to_numpy(allow_copy=False))

    def test_a_series_is_a_single_component(self, run, pl):
        assert run(D.from_polars(pl.Series("x", ["a", "b"]))) == ["a", "b"]

    def test_a_frame_in_chunks(self, run, pl):
        frame = pl.concat([pl.DataFrame({"x": range(i, i + 80)}) for i in (0, 80)], rechunk=False)
        assert [int(r["x"]) for r in run(D.from_polars(frame))] == list(range(160))

    def test_what_cannot_be_a_column_is_refused(self, pl):
        with pytest.raises(TypeError, match=r"pass frame.collect\(\)"):
            D.from_polars(pl.DataFrame({"x": [1]}).lazy())
        with pytest.raises(TypeError, match="takes a polars DataFrame or Series, not dict"):
            D.from_polars({"x": [1]})
        with pytest.raises(hr.SpecError, match=r"column 'x' has a null in row 1, and NumPy's int64.*fill_null"):
            D.from_polars(pl.DataFrame({"x": [1, None]}))
        with pytest.raises(hr.SpecError, match="column 'x' is of type Object"):
            D.from_polars(pl.DataFrame({"x": [object()]}))
        with pytest.raises(hr.SpecError, match="column 'x' is of type Int128"):
            D.from_polars(pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}))
