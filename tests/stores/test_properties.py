"""Any pipeline over a store that fails now and then gives every row once, wherever it is stopped and resumed."""

import hashlib
import json
import random
from functools import partial

import fsspec
import numpy as np
import pytest
from fsspec.asyn import AsyncFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.remote import objects as remote
from headrace.testing import difference, our_threads, reference_outcomes
from tests.pipelines import sources, steps
from tests.stores.going_on import asked_again


class Flaky(AsyncFileSystem):
    """Files in memory; while `chance` is set, one request in this many breaks off, comes short or too long."""

    protocol = "flaky"
    cachable = False
    files: dict[str, bytes] = {}  # noqa: RUF012 - all of them share these
    chance: random.Random | None = None
    often = 20

    async def _info(self, path, **options):
        path = self._strip_protocol(path)
        if path not in self.files:
            raise FileNotFoundError(path)
        self._fail()
        return {"name": path, "size": len(self.files[path]), "type": "file", "etag": path}

    async def _cat_file(self, path, start=None, end=None, **options):
        data = self.files[self._strip_protocol(path)][start:end]
        kind = self._fail()
        return data[:-1] if kind == "short" else data + b"?" if kind == "long" else data

    def _fail(self):
        chance = type(self).chance
        if chance is None or chance.randrange(self.often):
            return None
        kind = chance.choice(["short", "long", "reset", "timeout"])
        if kind == "reset":
            raise ConnectionResetError("the connection was reset")
        if kind == "timeout":
            raise TimeoutError
        return kind


fsspec.register_implementation("flaky", Flaky, clobber=True)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch):
    monkeypatch.setattr(remote, "BLOCK", 32)
    monkeypatch.setattr(remote, "READ_AHEAD_BYTES", 8)


def stored(data):
    name = hashlib.blake2b(data, digest_size=8).hexdigest()
    Flaky.files[name] = data
    return f"flaky://{name}"


def lines(n):
    data = b"".join(b"line %d\n" % i if i != 9 else b"\xff\n" for i in range(n))
    return hr.TextLineDataset([stored(data), stored(b"last")], buffer_size=16, num_parallel_reads=2 if n > 5 else None)


def records(n):
    return hr.FixedLengthRecordDataset(stored(b"".join(b"%02d" % i for i in range(n))), 2, buffer_size=8)


def table(n):
    data = b"n,s\n" + b"".join(b"%d,%s\n" % (i, b"x" * i if i % 5 != 3 else b'a"b') for i in range(n))
    return hr.CsvDataset(stored(data), [np.int64, str], header=True, buffer_size=16)


def opened_in_turn(n):
    names = [stored(b"".join(b"%d\n" % (10 * i + j) for j in range(n))) for i in range(3)]
    return hr.Dataset.from_tensor_slices(names).interleave(hr.TextLineDataset, 2, num_parallel_calls=2)


sizes = st.integers(0, 12)
remote_sources = st.one_of(sizes.map(lines), sizes.map(records), sizes.map(table), sizes.map(opened_in_turn))


@settings(max_examples=100)
@given(remote_sources, st.lists(steps(st.one_of(sources, remote_sources)), max_size=4), st.integers(0, 2**32))
def test_any_pipeline_over_a_store_that_fails(ds, operations, seed):
    for operation in operations:
        ds = operation(ds)
    ds = ds.take(40).with_options(hr.Options(retries=0))
    Flaky.chance = None
    want = reference_outcomes(ds)
    chance = Flaky.chance = random.Random(seed)
    it, got, raised = iter(ds), [], 0
    try:
        while True:
            try:
                got.append(("value", next(it)))
            except StopIteration:
                break
            except hr.ElementError as error:
                got.append(("error", error.args[0]))
            except hr.TransportError:
                raised += 1
                assert raised < 1000
                if chance.random() < 0.3:
                    state = json.loads(json.dumps(it.state())) if reachable(it) else None
                    if state is not None:
                        it.close()
                        it = asked_again(partial(ds.iterator, state=state))
    finally:
        Flaky.chance = None
        it.close()
    assert difference(got, want) is None
    assert our_threads() == []


def reachable(it):
    """Whether a state can be taken just now: it asks for the files that were not opened yet."""
    try:
        it.state()
    except hr.TransportError:
        return False
    return True
