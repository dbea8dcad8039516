"""save and load."""

import collections
import dataclasses
import fcntl
import os
import threading

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Record:
    x: int
    y: str


ELEMENTS = {
    "numbers": lambda: D.range(7),
    "nothing": lambda: D.range(0),
    "dicts": lambda: D.from_tensor_slices({"z": np.arange(6).reshape(3, 2), "a": ["x", "y", "z"]}),
    "named tuples": lambda: D.range(3).map(lambda x: Pair(x, (x, None))),
    "dataclasses": lambda: D.range(3).map(lambda x: Record(x, str(x))),
    "ragged rows": lambda: D.range(5).map(lambda x: np.arange(x)),
    "ragged batches": lambda: D.range(5).map(lambda x: np.arange(x)).ragged_batch(2),
    "batches of text": lambda: D.from_tensor_slices(["a", "bb", "c"]).batch(2),
    "different structures": lambda: D.range(4).map(lambda x: (x,) if x % 2 else {"x": x}),
    "no components": lambda: D.range(3).map(lambda x: ()),
}


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_what_was_saved_is_loaded(name, compression, tmp_path, run):
    ds = ELEMENTS[name]()
    ds.save(tmp_path, compression=compression)
    loaded = D.load(tmp_path, types=[Pair, Record])
    assert repr(run(loaded)) == repr(list(ds))
    assert len(loaded) == len(list(ds))
    assert loaded.element_spec == ds.element_spec or name == "different structures"


def test_loaded_rows_are_found_by_number(tmp_path):
    D.range(10_000).map(lambda x: {"x": x, "name": str(x)}).save(tmp_path)
    ds = D.load(tmp_path)
    assert ds[5000] == {"x": 5000, "name": "5000"}
    assert [e["x"] for e in ds[9990:]] == list(range(9990, 10_000))
    assert sorted(int(e["x"]) for e in ds.shuffle()) == list(range(10_000))


def test_elements_of_different_structures_are_found_by_number_as_they_are(tmp_path):
    D.range(20).map(lambda x: (x,) if x % 2 else {"x": x}).save(tmp_path)
    ds = D.load(tmp_path)
    assert ds.element_spec == hr.TensorSpec(None, None)
    for some in (ds.shuffle(7, seed=1), ds.shuffle(seed=1), ds[::-1]):
        assert sorted(map(repr, some)) == sorted(map(repr, ds)) and {type(e) for e in some} == {tuple, dict}
    assert ds[3] == (3,) and ds[4] == {"x": 4}


def test_shards_take_turns_or_go_to_the_reader(tmp_path):
    D.range(6).save(tmp_path, shard_func=lambda x: x // 3)
    assert list(D.load(tmp_path)) == [0, 3, 1, 4, 2, 5]
    in_turn = D.load(tmp_path, reader_func=lambda shards: shards.flat_map(lambda shard: shard))
    assert list(in_turn) == list(range(6))


def test_a_failure_stops_the_save_and_what_was_there_stays(tmp_path):
    D.range(3).save(tmp_path)
    with pytest.raises(hr.ElementError, match="map failed on element 1"):
        D.range(3).map(lambda x: 1 // (x - 1)).save(tmp_path)
    assert list(D.load(tmp_path)) == [0, 1, 2]
    D.range(3).map(lambda x: 1 // (x - 1)).ignore_errors().save(tmp_path)
    assert list(D.load(tmp_path)) == [-1, 1]
    assert len(list(tmp_path.glob("rows-*"))) == 1


def test_nothing_saved_is_said_so(tmp_path):
    with pytest.raises(hr.StorageError, match="holds no saved dataset"):
        D.load(tmp_path)


def test_another_element_spec_is_refused(tmp_path):
    D.range(3).save(tmp_path)
    assert list(D.load(tmp_path, element_spec=hr.TensorSpec((), "int64"))) == [0, 1, 2]
    with pytest.raises(hr.SpecError, match="against"):
        D.load(tmp_path, element_spec=hr.TensorSpec((), "float32"))


def test_a_second_save_at_the_same_time_is_refused(tmp_path):
    def meanwhile(x):
        D.range(1).save(tmp_path)
        return x

    with pytest.raises(hr.ElementError, match="another process is saving to"):
        D.range(2).map(meanwhile).save(tmp_path)


def test_load_waits_for_the_one_who_saves(tmp_path):
    D.range(2).save(tmp_path)
    lock = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    found = []
    reader = threading.Thread(target=lambda: found.append(list(D.load(tmp_path, wait=True))))
    reader.start()
    reader.join(0.1)
    assert not found
    os.close(lock)
    reader.join(300)
    assert found == [[0, 1]]


def test_objects_are_refused_by_name(tmp_path):
    with pytest.raises(hr.StorageError, match="a set cannot be stored"):
        D.range(2).map(lambda x: {"s": {1}}).save(tmp_path)


def test_damage_is_found(tmp_path):
    D.range(1000).save(tmp_path)
    data = next(tmp_path.glob("rows-*/*.arrow"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 4
    data.write_bytes(content)
    with pytest.raises(hr.StorageError, match="is damaged between bytes"):
        list(D.load(tmp_path))
    with pytest.raises(hr.StorageError, match="is damaged between bytes"):
        list(D.load(tmp_path).shuffle())


def test_compression_has_known_names(tmp_path):
    with pytest.raises(ValueError, match="compression must be None, 'LZ4' or 'ZSTD', not 'RAR'"):
        D.range(1).save(tmp_path, compression="RAR")
