"""SqlDataset against tf.data's own, on the same SQLite files."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import headrace as hr

tf = pytest.importorskip("tensorflow")


@pytest.fixture
def people(tmp_path):
    path = str(tmp_path / "people.db")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, first TEXT, last TEXT, age INTEGER, height REAL)")
        rows = [
            ("John", "Doe", 38, 1.8),
            ("Jane", "Moe", 27, 1.65),
            (None, "Noe", None, None),
            ("A\0B", "☃", 2**40, -0.5),
        ]
        db.executemany("INSERT INTO people (first, last, age, height) VALUES (?, ?, ?, ?)", rows)
        db.execute("CREATE TABLE towns (last TEXT, town TEXT)")
        db.executemany("INSERT INTO towns VALUES (?, ?)", [("Doe", "Rome"), ("Moe", "Oslo")])
        db.execute("CREATE TABLE odd (v)")
        odd = [
            1,
            -129,
            128,
            2**31,
            -(2**31) - 1,
            2**63 - 1,
            -(2**63),
            1.9,
            -1.9,
            1e300,
            "12abc",
            "abc",
            "3.7",
            "",
            b"\x41\x42",
            None,
            65535,
            65536,
        ]
        db.executemany("INSERT INTO odd VALUES (?)", [(v,) for v in odd])
    return path


def theirs(path, query, types):
    known = {str: tf.string, bool: tf.bool}
    kinds = tuple(known.get(t) or tf.as_dtype(np.dtype(t)) for t in types)
    rows = tf.data.experimental.SqlDataset("sqlite", path, query, kinds)
    return [tuple(v.decode() if isinstance(v, bytes) else v for v in row) for row in rows.as_numpy_iterator()]


def check(path, query, types):
    want = theirs(path, query, types)
    ds = hr.SqlDataset("sqlite", path, query, types)
    got = list(ds)
    assert got == want
    assert [tuple(map(type, row)) for row in got] == [tuple(map(type, row)) for row in want]
    assert len(ds.element_spec) == len(types)
    return got


I8, I16, I32, I64, U8, U16, F64 = np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.float64


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("SELECT first, last, age FROM people ORDER BY id", (str, str, I64)),
        ("SELECT first, last, age, height FROM people ORDER BY id DESC", (str, str, I32, F64)),
        ("SELECT p.first, p.last, t.town FROM people p JOIN towns t ON p.last = t.last ORDER BY p.id", (str, str, str)),
        ("SELECT p.last, t.last FROM people p JOIN towns t ON p.last = t.last ORDER BY p.id", (str, str)),
        ("SELECT first FROM people WHERE age > 2000000000000", (str,)),
        ("SELECT id FROM people LIMIT 2;", (I64,)),
        ("SELECT id, id FROM people ORDER BY id LIMIT 2", (I64, str)),
        ("WITH old AS (SELECT * FROM people WHERE age > 30) SELECT last FROM old ORDER BY id", (str,)),
        ("SELECT count(*), max(height) FROM people", (I64, F64)),
    ],
)
def test_the_same_rows(people, query, types):
    check(people, query, types)


@pytest.mark.parametrize("kind", [I8, I16, I32, I64, U8, U16, F64, bool, str])
def test_the_same_conversions_at_every_bound(people, kind):
    got = check(people, "SELECT v FROM odd ORDER BY rowid", (kind,))
    assert len(got) == 18


@pytest.mark.parametrize(
    ("first", "late", "kinds"),
    [
        (7, -1.9, (I8, I64, str)),
        (7, "12abc", (I64, F64, bool)),
        (2.5, 3, (F64, I64)),
        (2.5, "x", (F64, str)),
        (None, b"\x41", (I64, F64, str)),
        ("x", 3, (I64, str)),
    ],
)
def test_a_value_of_another_type_long_after_the_first_is_converted_as_theirs(tmp_path, first, late, kinds):
    path, size = str(tmp_path / "late.db"), 17_000  # rows, more than are needed to infer a column
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE late (v, n INTEGER)")
        db.executemany("INSERT INTO late VALUES (?, ?)", ((first, i) for i in range(size)))
        db.executemany("INSERT INTO late VALUES (?, ?)", [(late, size), (first, size + 1)])
    for kind in kinds:
        query = "SELECT v, n FROM late ORDER BY rowid"
        told = (tf.string if kind is str else tf.as_dtype(np.dtype(kind)), tf.int64)
        want = next(tf.data.experimental.SqlDataset("sqlite", path, query, told).batch(size + 2).as_numpy_iterator())
        got = next(iter(hr.SqlDataset("sqlite", path, query, (kind, I64)).batch(size + 2)))
        texts = [v.decode() if isinstance(v, bytes) else v for v in want[0].tolist()]
        assert got[0].tolist() == texts
        assert got[1].tolist() == want[1].tolist()


def test_text_keeps_its_nul(people):
    assert ("A\0B",) in check(people, "SELECT first FROM people ORDER BY id", (str,))


@pytest.mark.parametrize(
    ("driver", "query", "types"),
    [
        ("sqliteee", "SELECT first FROM people", (str,)),
        ("sqlite", "SELECT fist FROM people", (str,)),
        ("sqlite", "SELEmispellECT first FROM people", (str,)),
        ("sqlite", "SELECT first, last FROM people", (str,)),
        ("sqlite", "SELECT first FROM people", (str, str)),
        ("sqlite", "SELECT first FROM nobody", (str,)),
    ],
)
def test_the_same_mistakes_are_errors(people, driver, query, types):
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnknownError)):
        kinds = tuple(tf.string for _ in types)
        list(tf.data.experimental.SqlDataset(driver, people, query, kinds).as_numpy_iterator())
    with pytest.raises(ValueError, match="SqlDataset"):
        hr.SqlDataset(driver, people, query, types)


def test_a_type_that_tf_data_refuses_is_refused(people):
    with pytest.raises(TypeError, match="cannot be float32"):
        hr.SqlDataset("sqlite", people, "SELECT age FROM people", (np.float32,))


def test_types_of_tensorflow_are_understood(people):
    got = list(hr.SqlDataset("sqlite", people, "SELECT first, age FROM people LIMIT 1", (tf.string, tf.int32)))
    assert got == [("John", np.int32(38))]


def test_a_resume_goes_on(people):
    ds = hr.SqlDataset("sqlite", people, "SELECT v FROM odd ORDER BY rowid", (I64,))
    want = list(ds)
    for cut in range(1, 18):
        with ds.iterator() as it:
            for _ in range(cut):
                next(it)
            state = it.state()
        assert list(ds.iterator(state)) == want[cut:]


TENSORFLOW_FIRST = """
import sys
from importlib import import_module

for name in sys.argv[2].split(","):
    import_module(name)
import sqlite3
import subprocess
import sys
from contextlib import closing

import headrace as hr

with closing(sqlite3.connect(sys.argv[1])) as db:  # whose locks would be lost if two SQLites had the file open
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM towns")
    print(list(hr.SqlDataset("sqlite", sys.argv[1], "SELECT town FROM towns ORDER BY town", (str,))))
    print(db.execute("SELECT count(*) FROM people").fetchone()[0])
"""


@pytest.mark.parametrize("imports", ["tensorflow,headrace,sqlite3", "sqlite3,tensorflow,headrace"])
def test_tensorflows_copy_of_sqlite_does_not_get_in_the_way(people, imports):
    command = [sys.executable, "-c", TENSORFLOW_FIRST, people, imports]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, ["[('Oslo',), ('Rome',)]", "4"]), ran.stderr
