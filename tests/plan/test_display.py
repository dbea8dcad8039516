"""What people read: reprs, plans and tables stay within a line, and say AUTOTUNE where that was said."""

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.plan.display import WIDTH, as_many_as_fit, cut_to_width, spec_text
from headrace.plan.spec import Spec

D = hr.Dataset


@pytest.fixture
def csv(tmp_path):
    names = [f"a_rather_long_name_{i}" for i in range(60)]
    (tmp_path / "table.csv").write_text("\n".join([",".join(names), *[",".join("1" * 60)] * 9]))
    return D.from_csv(tmp_path / "table.csv")


@pytest.fixture
def tfrecord(tmp_path):
    rows = {f"feature_{i}": np.arange(6.0).astype(np.float32) for i in range(40)}
    D.from_tensor_slices(rows).write_tfrecord(tmp_path / "part", shards=3)
    return D.from_tfrecord(str(tmp_path / "part-*.tfrecord"))


def texts(ds):
    it = iter(ds)
    yield repr(it)
    list(it)
    yield repr(it)
    yield from str(it.stats()).splitlines()
    yield repr(ds)
    yield from str(ds.explain()).splitlines()


@pytest.mark.parametrize("reader", ["csv", "tfrecord"])
def test_everything_stays_within_a_line(reader, request):
    ds = request.getfixturevalue(reader)
    longer = ds.shuffle(1000, seed=1).enumerate().map(lambda i, row: (i, row)).batch(2).repeat(2).prefetch(hr.AUTOTUNE)
    for text in [*texts(ds), *texts(longer), *texts(D.zip(longer, longer)), *texts(longer.concatenate(longer))]:
        assert len(text) <= WIDTH


def test_a_reader_is_known_by_its_files_and_shows_no_source_of_names(csv, tfrecord):
    assert repr(csv).startswith("<Dataset from_csv(table.csv, header=True) of {'a_rather_long_name_0': int32, …")
    assert repr(tfrecord).startswith("<Dataset from_tfrecord(part-00000-of-00003.tfrecord, … 2 more) of ")
    assert "from_tensor_slices" not in tfrecord.explain()
    names = hr.Dataset.from_tensor_slices(["a"]).map(str)
    assert "map(str)" in hr.TextLineDataset(names).explain()


def test_showing_a_dataset_looks_at_no_file(csv, monkeypatch):
    def look(path):
        raise AssertionError(f"looked at {path}")

    monkeypatch.setattr("headrace.formats.shared.files.file_identity", look)
    assert "table.csv" in repr(csv)
    assert "table.csv" in csv.explain()


def test_a_repr_loses_its_longest_parameters_first():
    ds = D.range(10).map(abs).shuffle(4, seed=1).take(5).skip(1).repeat(3).batch(2).prefetch(hr.AUTOTUNE)
    assert repr(ds) == (
        "<Dataset range(…).map(abs).shuffle(…).take(count=5).skip(count=1).repeat(count=3)"
        ".batch(…).prefetch(…) of int64[?]>"
    )
    assert repr(ds.enumerate().enumerate().enumerate().take(3).enumerate().take(2)).startswith(
        "<Dataset range(…) … take(…)"
    )


def test_autotune_is_printed_as_such():
    ds = D.range(9).map(abs, num_parallel_calls=-1).filter(bool).shuffle(hr.AUTOTUNE).prefetch(None)
    text = ds.explain()
    assert "num_parallel_calls=AUTOTUNE" in text
    assert "shuffle(buffer_size=AUTOTUNE" in text
    assert "prefetch(buffer_size=AUTOTUNE)" in text
    assert "-1" not in text
    assert (str(hr.AUTOTUNE), hr.AUTOTUNE, pickle.loads(pickle.dumps(hr.AUTOTUNE))) == ("AUTOTUNE", -1, -1)
    assert copy.deepcopy(hr.AUTOTUNE) is hr.AUTOTUNE


def test_options_show_what_was_said():
    assert "with_options(deterministic=False)" in repr(D.range(3).with_options(hr.Options(deterministic=False)))


def test_a_function_whose_elements_are_not_known_is_decided_at_the_first_rows():
    def vague():
        yield from (np.arange(4.0) for _ in range(40))

    signature = hr.TensorSpec(None, np.float64)
    ds = D.from_generator(vague, output_signature=signature).map(lambda v: v * 2)
    after = D.range(9).map(lambda x: x if x > 1 else 0.5).map(lambda x: x + 1)
    for undecided in (ds, after):
        assert "[decided at the first rows]" in undecided.explain()
    assert "[row by row: branches on data" in after.explain()
    list(ds.batch(20))
    assert "vectorised: 1 operation, by the shapes that came" in ds.explain()
    list(after)
    assert "decided at the first rows" not in after.explain()


def test_a_reason_that_no_row_can_change_is_told_before_the_first():
    seen = []
    ds = D.from_generator(lambda: [], output_signature=hr.TensorSpec(None)).map(lambda v: seen.append(v) or v)
    assert "[row by row: " in ds.explain()


def test_functions_in_processes_are_said_to_be():
    assert "[row by row: in worker processes, as asked for]" in D.range(3).map(abs, mode="process").explain()


def test_an_explanation_shows_itself():
    found = D.from_tensor_slices(np.arange(10)).skip(1).shuffle(4).batch(2).explain()
    assert repr(found) == str(found)
    assert found.startswith("plan:\n")
    html = found._repr_html_()
    assert html.count("<table>") == 2
    assert "gather_late at shuffle" in html
    assert pickle.loads(pickle.dumps(found))._repr_html_() == html


def test_datasets_and_stats_are_tables_in_a_notebook():
    ds = D.range(4).map(lambda x: x < 3)
    assert "map(&lt;lambda&gt;)" in ds._repr_html_()
    it = iter(ds)
    list(it)
    assert "<td" in it.stats()._repr_html_()
    assert "map(&lt;lambda&gt;)" in it.stats()._repr_html_()


def test_an_iterator_says_where_it_stands():
    it = iter(D.range(4).batch(2))
    next(it)
    assert repr(it) == "<Iterator range(start=0, stop=4).batch(batch_size=2) of int64[?], epoch 0, 1 given>"
    list(it)
    assert repr(it).endswith("epoch 0, 2 given, at its end>")
    it.close()
    assert repr(it).endswith("2 given, closed>")


def test_tuning_is_never_blank():
    it = iter(D.range(4))
    assert str(it.tuning()).startswith("nothing is tuned")
    list(it)
    assert str(it.tuning()).strip()


def test_stages_of_many_nodes_claim_to_be_none_of_them(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text("x\n")
    it = iter(hr.TextLineDataset([tmp_path / "a", tmp_path / "b"], buffer_size=100))
    list(it)
    assert "TextLineDataset(…)" in [line["stage"] for line in it.stats()["stages"]]


@dataclass
class Pair:
    left: object
    right: object


LEAVES = st.sampled_from([np.float32(1), np.zeros((2, 3)), "text", b"", None])
ELEMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=9).map(tuple),
        st.dictionaries(st.text(max_size=20), inner, max_size=9),
        st.builds(Pair, inner, inner),
    ),
)


@given(ELEMENTS, st.integers(1, 200))
def test_specs_fit_any_width(element, width):
    spec = Spec.of(element)
    text = spec_text(spec, width)
    assert len(text) <= max(width, 2)
    assert text == str(spec) or "…" in text


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=20), st.integers(1, 200))
def test_what_is_left_out_is_counted(parts, width):
    text = as_many_as_fit(parts, width)
    whole = ", ".join(parts)
    assert text == whole or "…" in text
    if len(whole) <= width:
        assert text == whole
    if len(parts) > 1 and text != whole and " more" in text:
        left = int(text.rpartition("… ")[2].removesuffix(" more"))
        assert 0 < left < len(parts)


def test_a_cut_keeps_the_closing_bracket():
    assert cut_to_width("f(abcdef)", 7) == "f(abc…)"
    assert cut_to_width("short", 7) == "short"
