"""Databases whose servers are killed and whose lines are cut or stand still, and writers that are killed.

python -m tests.chaos.databases --faults 200 --on postgresql      or mysql
python -m tests.chaos.databases --kills 50 --on duckdb            or any other: kills this many writers
python -m tests.chaos.databases --seed 4711 --faults 20 --on mysql    that run again

Every pass must give all rows, each once and in its place, or an error after which `next()`, and a resume in another
process, continue with the very next row. A table that is written has its old rows or the new ones, all of them.
"""

import argparse
import collections
import contextlib
import json
import multiprocessing
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

import headrace as hr
from headrace.sources.sql import keys
from headrace.testing import our_threads
from tests.chaos.lines import Line
from tests.databases import servers

D = hr.Dataset
ROWS = 20_000
WRITTEN = 60_000
QUERY = "SELECT id, {pad} AS pad FROM numbers"
SERVERS = {"postgresql": servers.postgres, "mysql": servers.mariadb}
PADS = {"postgresql": "repeat('x', 400)", "mysql": "repeat('x', 400)"}
FAULTS = ["cut", "cut", "cut", "halt", "halt and cut", "kill"]
PROCESSES = multiprocessing.get_context("forkserver")


def missing(kind):
    """Why this kind cannot be tried here, None if it can."""
    module, program = {
        "postgresql": ("adbc_driver_postgresql", "initdb"),
        "mysql": ("connectorx", "mariadbd"),
        "sqlite": ("sqlite3", "true"),
        "duckdb": ("duckdb", "true"),
    }[kind]
    try:
        __import__(module)
    except ImportError:
        return f"{module} is not installed"
    return None if servers.program(program) else f"{program} is not installed"


def fill(kind, uri):
    many = {"postgresql": f"generate_series(1, {ROWS}) AS g(i)", "mysql": f"(SELECT seq AS i FROM seq_1_to_{ROWS}) g"}
    statements = ["CREATE TABLE numbers (id bigint PRIMARY KEY)", f"INSERT INTO numbers SELECT i FROM {many[kind]}"]
    if kind == "postgresql":
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(uri, autocommit=True) as db, db.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        return
    import pymysql

    port = int(uri.rpartition(":")[2].partition("/")[0])
    with pymysql.connect(
        host="127.0.0.1", port=port, user="hr", password="sesame", database="test", autocommit=True
    ) as db:
        for statement in statements:
            db.cursor().execute(statement)


def pipeline(chance, kind, uri):
    """A dataset of the table's ids, one by one or in batches."""
    query = QUERY.format(pad=PADS[kind])
    if chance.random() < 0.2:
        ds = D.from_sql(uri, f"{query} ORDER BY id")
    else:
        ds = D.from_sql(uri, query, key="id", partitions=chance.choice([1, 1, 2, 3]))
    ds = ds.map(lambda row: row["id"])
    step = chance.choice(["", "", "filter", "shuffle", "batch", "prefetch"])
    if step == "filter":
        ds = ds.filter(lambda i: i % 3 != 0)
    elif step == "shuffle":
        ds = ds.shuffle(500, seed=chance.randint(0, 9), reshuffle_each_iteration=False)
    elif step == "batch":
        ds = ds.batch(chance.choice([7, 100]))
    elif step == "prefetch":
        ds = ds.prefetch(100)
    return ds.with_options(hr.Options(retries=chance.choice([0, 0, 1, 4])))


def ids(elements):
    return [element.tolist() for element in elements]


def read_rest(dataset, state, answer):
    """What another process does: read on from a state."""
    import cloudpickle

    answer.send(ids(cloudpickle.loads(dataset).iterator(json.loads(state))))


def rest_elsewhere(ds, state):
    import cloudpickle

    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=read_rest, args=(cloudpickle.dumps(ds), json.dumps(state), there))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join()


class Torture:
    """Faults that befall a server and the line to it, one at a time."""

    def __init__(self, server, line, chance):
        self._server, self._line, self._chance = server, line, chance
        self._thread = None
        self.counts = collections.Counter()

    def strike(self):
        """One fault more, which may last while rows are asked for."""
        self.wait()
        fault = self._chance.choice(FAULTS)
        self.counts[fault] += 1
        seconds = self._chance.uniform(0.05, 0.4)
        if fault == "cut":
            self._line.cut()
        elif fault == "kill":
            self._server.kill()
            self._later(seconds, self._server.start)
        else:
            self._line.halt()
            self._later(seconds, self._line.cut if "cut" in fault else self._line.go_on)

    def _later(self, seconds, work):
        def run():
            time.sleep(seconds)  # how long a fault lasts
            work()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def wait(self):
        if self._thread is not None:
            self._thread.join()
            self._thread = None


def one_pass(chance, ds, torture, counts):
    """Read all rows under some faults; how often an error was raised."""
    want = ids(ds)
    flat = [i for e in want for i in (e if isinstance(e, list) else [e])]
    assert len(set(flat)) == len(flat) in (ROWS, ROWS - ROWS // 3), "a pass in peace"
    strikes = sorted(chance.randrange(len(want)) for _ in range(chance.randint(1, 5)))
    got, it, tries = [], iter(ds), 0
    try:
        while True:
            while strikes and len(got) >= strikes[0]:
                strikes.pop(0)
                torture.strike()
            try:
                got.append(next(it).tolist())
                tries = 0
            except StopIteration:
                break
            except hr.TransportError as error:
                assert "sesame" not in str(error)
                counts["errors that kept the place"] += 1
                tries += 1
                assert tries < 50, f"it never gets on: {error}"
                time.sleep(0.05)  # as a user would, whose server is being started again
                if chance.random() < 0.3:
                    state = json.loads(json.dumps(it.state()))
                    it.close()
                    it = ds.iterator(state)
                    counts["resumes"] += 1
                elif chance.random() < 0.1:
                    torture.wait()
                    assert got + rest_elsewhere(ds, it.state()) == want, "the rest in another process"
                    counts["rests read by another process"] += 1
    finally:
        it.close()
        torture.wait()
    assert got == want, f"row {next((i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), len(got))}"


def tortured(kind, faults, chance, counts):
    """Passes over a table of a real server until this many faults have occurred."""
    keys.FIRST_PAGE_ROWS, keys.PAGE_BYTES = 2000, 1 << 20  # so that there are many
    with SERVERS[kind]() as server:
        fill(kind, server.uri)
        line = Line(server.port)
        torture = Torture(server, line, chance)
        try:
            uri = server.uri.replace(f":{server.port}/", f":{line.port}/")
            while sum(torture.counts.values()) < faults:
                one_pass(chance, pipeline(chance, kind, uri), torture, counts)
                counts["passes"] += 1
        finally:
            torture.wait()
            line.close()
            counts.update({f"faults: {name}": n for name, n in torture.counts.items()})
    assert our_threads() == [], "threads are left"


def numbers(first):
    return D.range(first, first + WRITTEN).map(lambda i: {"id": i, "half": i / 2, "name": "some text"})


def write(uri, first, how, began):
    """What a process does that is killed: write a table."""
    began.send(None)
    numbers(first).write_sql(uri, "written", if_exists=how)


def table_of(uri):
    return sorted(int(row["id"]) for row in D.from_sql(uri, "SELECT id FROM written"))


def killed_writers(kind, kills, chance, counts):
    """Processes that write a table, killed at any time: the table has its old rows, or the new ones."""
    with contextlib.ExitStack() as stack:
        if kind in SERVERS:
            server = stack.enter_context(SERVERS[kind]())
            uri = server.uri
        else:
            server = None
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            uri = f"{kind}:///{folder}/data.db"
            if kind == "sqlite" and chance.random() < 0.5:
                with contextlib.closing(sqlite3.connect(Path(folder, "data.db"))) as db:
                    db.execute("PRAGMA journal_mode=wal")
        started = time.monotonic()
        numbers(0).write_sql(uri, "written")
        took = time.monotonic() - started
        there = list(range(WRITTEN))
        for number in range(1, kills + 1):
            how = chance.choice(["replace", "append"])
            new = list(range(number * WRITTEN, (number + 1) * WRITTEN))
            if how == "append" and len(there) > 5 * WRITTEN:
                how = "replace"
            after = sorted(there + new) if how == "append" else new
            here, began = PROCESSES.Pipe()
            process = PROCESSES.Process(target=write, args=(uri, number * WRITTEN, how, began))
            process.start()
            began.close()
            here.recv()
            process.join(chance.uniform(0, 1.5 * took))
            if server is not None and chance.random() < 0.5:
                server.kill()
                process.join(60)
                server.start()
                counts["servers killed while a table was written"] += 1
            elif process.is_alive():
                process.kill()
                counts["writers killed"] += 1
            process.join()
            assert process.exitcode in (0, 1, -signal.SIGKILL), process.exitcode
            found = table_of(uri)
            assert found in (there, after), f"{how}: {len(found)} rows, neither {len(there)} nor {len(after)}"
            assert process.exitcode != 0 or found == after, "it said that it was done"
            counts["tables as before" if found == there else "tables written"] += 1
            there = found
        numbers(0).write_sql(uri, "written", if_exists="replace")
        assert table_of(uri) == list(range(WRITTEN))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=["postgresql", "mysql", "sqlite", "duckdb"], required=True)
    parser.add_argument("--faults", type=int, default=0, help="of a server and its lines, while a table is read")
    parser.add_argument("--kills", type=int, default=0, help="of processes, and servers, while a table is written")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    why_not = missing(options.on)
    if why_not is not None:
        print(f"databases, {options.on}: not tried, {why_not}")
        return
    if options.faults and options.on not in SERVERS:
        parser.error(f"{options.on} has no server; --kills has its writers killed")
    seed = random.randrange(10**9) if options.seed is None else options.seed
    counts = collections.Counter()
    PROCESSES.set_forkserver_preload(["headrace"])
    print(f"databases, {options.on}, seed {seed}", flush=True)
    started = time.monotonic()
    try:
        if options.faults:
            tortured(options.on, options.faults, random.Random(seed), counts)
        if options.kills:
            killed_writers(options.on, options.kills, random.Random(seed), counts)
    finally:
        said = ", ".join(f"{n} {name}" for name, n in counts.items())
        print(f"{options.on}: {said} in {time.monotonic() - started:.0f} s", flush=True)
    print("nothing went wrong")


if __name__ == "__main__":
    sys.exit(main())
