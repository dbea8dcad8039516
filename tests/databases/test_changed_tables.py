"""Tables that change between a state and a resume: exact where that can be, else refused, no row lost in silence."""

import json
import pickle

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
ROWS = 20_000
QUERY = "SELECT id, s FROM changing"


def flat(elements):
    return [int(i) for e in elements for i in np.atleast_1d(e["id"])]


def cut(ds, count):
    with ds.iterator() as it:
        got = flat(next(it) for _ in range(count))
        return got, json.loads(json.dumps(it.state()))


@pytest.fixture
def changing(database):
    """Rows with even numbers."""
    database.numbers("changing", ROWS)
    database.run("DELETE FROM changing WHERE id % 2 = 1")
    return database


PLAIN = {
    "rows": lambda ds: ds,
    "mapped": lambda ds: ds.map(lambda row: row),
    "batches": lambda ds: ds.batch(7),
    "some": lambda ds: ds.skip(3).take(10**6).batch(3).prefetch(2),
}


@pytest.mark.parametrize("how", PLAIN)
def test_a_resume_goes_on_behind_the_last_row_whatever_became_of_those_before(changing, how):
    ds = PLAIN[how](D.from_sql(changing.uri, QUERY, key="id"))
    got, state = cut(ds, 700)
    last = got[-1]
    changing.run(f"DELETE FROM changing WHERE id <= {last} AND id > {last - 900}")
    changing.run(f"INSERT INTO changing VALUES ({last - 1}, 0.5, 'new'), ({last - 31}, 0.5, 'newer')")
    assert flat(ds.iterator(state)) == list(range(last + 2, ROWS + 1, 2))
    changing.run(f"DELETE FROM changing WHERE id < {ROWS - 10}")
    changing.run(f"INSERT INTO changing VALUES ({ROWS - 3}, 0.5, 'newest')")
    late = [ROWS - 10, ROWS - 8, ROWS - 6, ROWS - 4, ROWS - 3, ROWS - 2, ROWS]
    assert flat(ds.iterator(state)) == late


@pytest.mark.parametrize("how", [{"key": "id", "partitions": 3}, {"key": "s"}])
def test_so_do_parts_and_text(changing, how):
    ds = D.from_sql(changing.uri, QUERY, **how)
    want = flat(ds)
    for count in (1, 2000, 4100):
        got, state = cut(ds, count)
        assert got == want[:count]
        gone = got[-600:]
        changing.run(f"DELETE FROM changing WHERE id IN ({', '.join(map(str, gone))})")
        assert flat(ds.iterator(state)) == want[count:]
        want = [i for i in want if i not in set(gone)]


AGAIN = {
    "filter": lambda ds: ds.filter(lambda row: row["id"] % 4 == 0),
    "shuffle": lambda ds: ds.shuffle(500, seed=1, reshuffle_each_iteration=False),
    "flat_map": lambda ds: ds.flat_map(lambda row: D.from_tensors({"id": row["id"]}).repeat(3)),
    "repeat": lambda ds: ds.repeat(2),
    "windows": lambda ds: ds.window(5, shift=2).flat_map(lambda w: w["id"].batch(5).map(lambda ids: {"id": ids})),
}


@pytest.mark.parametrize("how", AGAIN)
@pytest.mark.parametrize("parts", [1, 3])
def test_where_rows_are_read_again_a_change_among_them_is_refused(sqlite, how, parts):
    sqlite.numbers("changing", ROWS)
    ds = AGAIN[how](D.from_sql(sqlite.uri, QUERY, key="id", partitions=parts))
    want = flat(ds)
    got, state = cut(ds, 801)
    assert got + flat(ds.iterator(state)) == want
    sqlite.run(f"DELETE FROM changing WHERE id = {ROWS}")
    assert flat(ds.iterator(state))
    sqlite.run(f"DELETE FROM changing WHERE id = {got[-1]}")
    with pytest.raises(hr.StateError, match="have come or gone since the state was taken"):
        list(ds.iterator(state))


def test_rows_that_are_read_again_lie_in_the_table_in_any_order(sqlite):
    sqlite.run("CREATE TABLE backwards (id int)")
    sqlite.run(f"INSERT INTO backwards VALUES {', '.join(f'({i})' for i in range(900, 0, -1))}")
    ds = AGAIN["shuffle"](D.from_sql(sqlite.uri, "SELECT * FROM backwards", key="id"))
    want = flat(ds)
    got, state = cut(ds, 301)
    assert got + flat(ds.iterator(state)) == want


def test_a_state_of_another_process_knows_the_keys_too(sqlite):
    sqlite.numbers("changing", 3000)
    ds = D.from_sql(sqlite.uri, QUERY, key="id").batch(10).prefetch(2, mode="process")
    got, state = cut(ds, 55)
    sqlite.run(f"DELETE FROM changing WHERE id <= {got[-1]}")
    assert flat(ds.iterator(state)) == list(range(got[-1] + 1, 3001))


def test_keys_travel_with_a_mark():
    import pyarrow as pa

    from headrace.sources.seen_rows import KeyedMark, KeyRun, Spot

    first, second = KeyRun(pa.array([3, 5, 7])), KeyRun(pa.array([8, 9]))
    first.following = second
    mark = KeyedMark(Spot(""), 0, first)
    assert [mark.advance(n).spot.mark for n in range(1, 6)] == [3, 5, 7, 8, 9]
    assert mark.advance(6) is None
    sent = pickle.loads(pickle.dumps(mark.advance(1)))
    assert sent.advance(2).spot.mark == 7
    assert sent.advance(3) is None
    assert sent.witness() == mark.advance(1).witness()
    assert sent.witness().seen.rows == 4
    assert mark.advance(5).witness().seen is None


ODD = ["a", "A", "ä", "Ä", "b", "B ", "B", "b ", "ss", "ß", "c"]


def text_keys(database, kind):
    database.run("DROP TABLE IF EXISTS words")
    database.run(f"CREATE TABLE words (id int, s {kind})")
    for i, word in enumerate(ODD):
        database.run(f"INSERT INTO words VALUES ({i}, {database.mark(1)})", (word,))


def all_of(ds):
    """The words, and the same from every place on."""
    want = [row["s"] for row in ds]
    for count in range(1, len(want)):
        with ds.iterator() as it:
            for _ in range(count):
                next(it)
            state = it.state()
        assert [row["s"] for row in ds.iterator(state)] == want[count:]
    return sorted(want)


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize(
    ("kind", "type"),
    [("sqlite", "TEXT COLLATE NOCASE"), ("sqlite", "TEXT COLLATE RTRIM"), ("duckdb", "VARCHAR COLLATE NOCASE")],
)
def test_texts_that_a_collation_takes_for_the_same_are_not(request, kind, type, partitions):
    database = request.getfixturevalue(kind)
    text_keys(database, type)
    assert all_of(D.from_sql(database.uri, "SELECT * FROM words", key="s", partitions=partitions)) == sorted(ODD)


def test_a_collation_of_mariadb_that_could_lose_rows_is_refused(mysql):
    text_keys(mysql, "varchar(20)")
    with pytest.raises(hr.SpecError, match=r"utf8mb4_general_ci.*unique index") as told:
        D.from_sql(mysql.uri, "SELECT * FROM words", key="s")
    assert "COLLATE utf8mb4_nopad_bin" in str(told.value)
    with pytest.raises(hr.SpecError, match="utf8mb4_bin"):
        D.from_sql(mysql.uri, "SELECT id, s COLLATE utf8mb4_bin AS s FROM words", key="s")
    exact = "SELECT id, s COLLATE utf8mb4_nopad_bin AS s FROM words"
    for partitions in (1, 4):
        assert all_of(D.from_sql(mysql.uri, exact, key="s", partitions=partitions)) == sorted(ODD)
    mysql.run("DELETE FROM words WHERE s IN ('ß') OR id IN (1, 2, 3, 5, 6, 7)")
    mysql.run("ALTER TABLE words ADD PRIMARY KEY (id, s)")
    with pytest.raises(hr.SpecError, match="unique index"):
        D.from_sql(mysql.uri, "SELECT * FROM words", key="s")
    mysql.run("ALTER TABLE words DROP PRIMARY KEY, ADD PRIMARY KEY (s)")
    assert all_of(D.from_sql(mysql.uri, "SELECT * FROM words WHERE id < %s", params=[99], key="s")) == [
        "a",
        "b",
        "c",
        "ss",
    ]
    mysql.run("ALTER TABLE words ADD COLUMN e ENUM('z', 'a') UNIQUE")
    with pytest.raises(hr.SpecError, match="ENUM"):
        D.from_sql(mysql.uri, "SELECT * FROM words", key="e")


def test_a_collation_of_postgresql_that_could_lose_rows_is_refused(postgresql):
    postgresql.run("DROP TABLE IF EXISTS words")
    postgresql.run("CREATE COLLATION IF NOT EXISTS ci (provider=icu, locale='und-u-ks-level2', deterministic=false)")
    text_keys(postgresql, "text COLLATE ci")
    with pytest.raises(hr.SpecError, match='COLLATE "C"'):
        D.from_sql(postgresql.uri, "SELECT * FROM words", key="s")
    exact = 'SELECT id, CAST(s AS text) COLLATE "C" AS s FROM words'
    assert all_of(D.from_sql(postgresql.uri, exact, key="s", partitions=3)) == sorted(ODD)
    with pytest.raises(hr.SpecError, match="character"):
        D.from_sql(postgresql.uri, "SELECT CAST(s AS char(9)) AS s FROM words WHERE id < $1", params=[3], key="s")
    plain = 'SELECT CAST(s AS varchar(20)) COLLATE "und-x-icu" AS s FROM words'
    assert all_of(D.from_sql(postgresql.uri, plain, key="s", partitions=2)) == sorted(ODD)
