"""States in words: where each operation stands."""

import json
import re
import sqlite3

import pytest

import headrace as hr
from headrace.observe.state_words import Here, _position, state_lines

D = hr.Dataset


def words(ds, count, operation):
    """What a state after `count` elements says of an operation."""
    with ds.iterator() as it:
        for _ in range(count):
            next(it)
        state = json.loads(json.dumps(it.state()))
    (line,) = [line for line in state_lines(state) if line.startswith(f"  {operation}(")]
    return line.rpartition("): ")[2]


@pytest.fixture
def files(tmp_path):
    for k in range(3):
        (tmp_path / f"{k}.txt").write_text("".join(f"{i}\n" for i in range(40)))
    return [str(tmp_path / f"{k}.txt") for k in range(3)]


def test_a_reader_of_files_says_which_file_and_row(files):
    assert words(hr.TextLineDataset(files), 95, "TextLineDataset").endswith("at row 15 of file 2")


def test_files_that_take_turns_say_where_each_is(files):
    ds = hr.TextLineDataset(files, num_parallel_reads=2)
    assert re.search(r"in turns from row \d+ of file 0", words(ds, 31, "TextLineDataset"))


def test_children_of_a_flat_map_are_datasets():
    ds = D.range(9).flat_map(lambda n: D.range(10).map(lambda x: len(str(x)), mode="eager"))
    assert words(ds, 34, "flat_map").endswith("at row 4 of dataset 3")


def test_a_query_says_its_key(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO item VALUES (?)", [(10 + 3 * i,) for i in range(90)])
    ds = D.from_sql(f"sqlite:///{tmp_path}/shop.db", "SELECT * FROM item", key="id")
    assert words(ds, 7, "from_sql").endswith(" 28")


def test_a_mixture_says_which_datasets_have_ended():
    ds = D.sample_from_datasets([D.range(90), D.range(3)], [0.5, 0.5], seed=1)
    assert words(ds, 40, "sample_from_datasets").endswith("at their end: dataset 1")


def test_a_shuffle_says_what_its_buffer_holds():
    ds = D.range(100).filter(lambda x: x >= 0).shuffle(10, seed=1)
    assert words(ds, 7, "shuffle").endswith("the buffer holds 10 rows")


def test_a_key_is_named_if_the_label_is_not_cut():
    here = Here("from_sql(source=a.db, key=id, {'id': int64})", "", [7, 0, ["", [{"0": [7, 0, [28, 7, None]]}]]], 0)
    assert _position(here, over=False) == "at row 7; behind the row with id = 28"


def test_marks_of_another_form_are_shown_as_they_are():
    here = Here("odd(x)", "", [1, 0, ["odd", 1], True], None)
    assert _position(here, over=False) == "at row 1; its own position is ['odd', 1]"
