"""Which classes the elements of stored rows may be of: those that the program names, never those that a file does."""

import collections
import dataclasses
import functools
import json
import subprocess
import sys
import types
import zlib

import numpy as np
import pytest

import headrace as hr
from headrace.storage import files

D = hr.Dataset
Pair = collections.namedtuple("Pair", "b a")
Unnamed = collections.namedtuple("Unnamed", "x")


@dataclasses.dataclass
class Record:
    y: int
    x: tuple


class Ordered(collections.OrderedDict):
    pass


def made(x):
    return Pair(x, Record(x + 1, (x + 2, Ordered(z=x + 3))))


def elements(ds):
    return [repr(e) for e in ds]


def test_unlisted_classes_come_as_tuples_and_dicts_with_a_warning(tmp_path):
    D.range(2).map(made).save(tmp_path)
    with pytest.warns(UserWarning, match=r"class .*test_types:Ordered, .*types=\[Ordered, Pair, Record\]") as caught:
        loaded = D.load(tmp_path)
    assert caught[0].filename == __file__
    assert list(loaded) == [(x, {"x": (x + 2, {"z": x + 3}), "y": x + 1}) for x in range(2)]
    assert loaded[1] == (1, {"y": 2, "x": (3, {"z": 4})})
    assert list(loaded[1][1]) == ["y", "x"], "keys are in the order of the fields"
    assert loaded.element_spec == (
        hr.TensorSpec((), "int64"),
        {"y": hr.TensorSpec((), "int64"), "x": (hr.TensorSpec((), "int64"), {"z": hr.TensorSpec((), "int64")})},
    )
    assert [b["x"][0].tolist() for b in loaded.map(lambda b, record: record).batch(2)] == [[2, 3]]


def test_named_classes_come_as_they_were(tmp_path):
    ds = D.range(2).map(made)
    ds.save(tmp_path)
    assert elements(D.load(tmp_path, types=[Pair, Record, Ordered])) == elements(ds)
    assert elements(D.load(tmp_path, element_spec=ds.element_spec)) == elements(ds)
    with pytest.warns(UserWarning, match=r"types=\[Ordered, Record\]"):
        loaded = D.load(tmp_path, types=[Pair])
    assert next(iter(loaded)) == Pair(0, {"y": 1, "x": (2, {"z": 3})})


def test_a_class_with_other_fields_is_refused(tmp_path):
    D.range(2).map(lambda x: Pair(x, x)).save(tmp_path)
    other = collections.namedtuple("Pair", "a b c")
    other.__module__, other.__qualname__ = Pair.__module__, Pair.__qualname__
    with pytest.raises(hr.StorageError, match=r"class .*:Pair with \['b', 'a'\], which now has \('a', 'b', 'c'\)"):
        D.load(tmp_path, types=[other])


PIPELINES = {
    "a global": lambda: D.range(3).map(lambda x: Pair(x, 1)),
    "a helper's global": lambda: D.range(3).map(lambda x: made(x)),
    "a module's": lambda: D.range(3).map(lambda x: module.Pair(x, 1)),
    "a partial": lambda: D.range(3).map(functools.partial(make, Pair)),
    "eager": lambda: D.range(3).map(made, mode="eager"),
    "an object": lambda: D.range(3).map(Maker(Pair)),
    "a method": lambda: D.range(3).map(Maker(Pair).make),
    "a nested function": lambda: D.range(3).flat_map(lambda x: D.range(2).map(lambda y: Pair(x, y))),
    "a source": lambda: D.from_tensor_slices(Pair(np.arange(3), np.arange(3))),
    "a signature": lambda: D.from_generator(
        lambda: iter([Pair(1, 2)]), output_signature=Pair(hr.TensorSpec((), "int64"), hr.TensorSpec((), "int64"))
    ),
    "said": lambda: D.range(3).map(lambda x: unnamed(x)),
    "local": lambda: D.range(3).map(local()),
}
module = types.ModuleType("module")
module.Pair = Pair


def make(kind, x):
    return kind(x, x)


class Maker:
    def __init__(self, kind):
        self.kind = kind

    def __call__(self, x):
        return self.make(x)

    def make(self, x):
        return self.kind(int(x), 1)


def local():
    Local = collections.namedtuple("Local", "x")
    return lambda x: Local(x)


def unnamed(x):
    return sys.modules[__name__].Unnamed(x)


@pytest.mark.parametrize("kind", ["cache", "snapshot"])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_cache_knows_the_classes_that_its_pipeline_names(tmp_path, name, kind):
    options = {"types": [Unnamed]} if name == "said" else {}
    want = elements(PIPELINES[name]())
    for _ in range(3):
        assert elements(getattr(PIPELINES[name](), kind)(tmp_path / "c", **options)) == want


def test_a_cache_of_a_class_that_a_later_run_would_not_know_is_refused_at_once(tmp_path):
    def pipeline():
        return D.range(3).map(lambda x: unnamed(x))

    with pytest.raises(hr.StorageError, match=r"class Unnamed cannot be stored.*types=\[Unnamed\]"):
        next(iter(pipeline().cache(tmp_path / "c")))
    list(pipeline().cache(tmp_path / "c", types=[Unnamed]))
    with pytest.raises(hr.StorageError, match=r"of class .*:Unnamed, which the functions .* types=\[Unnamed\]"):
        list(pipeline().cache(tmp_path / "c"))


EVIL = """
from pathlib import Path
from collections import namedtuple
Path({mark!r}).touch()
class Thing(namedtuple("Thing", "x")):
    def __new__(cls, *args):
        Path({mark!r}).touch()
        return super().__new__(cls, *args)
"""


def edited(page, change):
    text = page.read_bytes().partition(b'"page":')[2][:-2]
    content = json.loads(text)
    change(content)
    page.write_bytes(files.seal_page(json.dumps(content, separators=(",", ":")).encode()))
    assert zlib.crc32(json.dumps(content, separators=(",", ":")).encode())


@pytest.mark.parametrize("imported", [False, True])
def test_loading_runs_no_code_beside_the_data(tmp_path, imported):
    """Neither is the module imported, nor, where it is there already, the class called."""
    D.range(3).map(lambda x: (x,)).save(tmp_path)
    for page in (tmp_path / "saved.json", next(tmp_path.glob("rows-*/0*.json"))):
        edited(
            page,
            lambda p: p.update(json.loads(json.dumps(p).replace('["tuple", [0]', '[["evil:Thing", "tuple"], ["x"]'))),
        )
    (tmp_path / "evil.py").write_text(EVIL.format(mark=str(tmp_path / "ran")))
    code = f"""
import sys, warnings
sys.path.insert(0, {str(tmp_path)!r})
warnings.simplefilter("ignore")
import headrace as hr
if {imported}:
    import evil, os
    os.unlink({str(tmp_path / "ran")!r})
assert [e[0] for e in hr.Dataset.load({str(tmp_path)!r})] == [0, 1, 2]
assert {imported} or "evil" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert not (tmp_path / "ran").exists()
