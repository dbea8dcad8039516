"""Reading a file, an index, stored rows or a state runs no code that they bring along, whatever they hold."""

import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fuzz import pages

import headrace as hr
from headrace.core.extended import dtype_of

FORBIDDEN = (
    "import", "exec", "compile", "code.__new__", "marshal.", "pickle.find_class", "subprocess.", "os.system", "os.exec",
    "os.posix_spawn", "os.fork", "ctypes.", "socket.",
)  # fmt: skip
PAGES = 150
"""How many pages are damaged: the same when modules are imported as when imports are watched."""


class Bomb:
    """What a pickle of it would do."""

    def __reduce__(self):
        return os.system, ("true",)


BOMB = pickle.dumps(Bomb())


def extension_table():
    """A column that asks for its type to be unpickled, as old versions of pyarrow did."""
    marks = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": BOMB}
    return pa.table([pa.array([1, 2])], schema=pa.schema([pa.field("x", pa.int64(), metadata=marks)]))


def write_hostile(folder):
    """Files of every kind that hold pickles and the names of things to run, each with how it is read."""
    made = {}

    def add(name, content, read):
        (folder / name).write_bytes(content)
        made[name] = lambda: read(str(folder / name))

    table = extension_table()
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    made["x.arrow"] = lambda: list(hr.ArrowDataset(str(folder / "x.arrow")))
    pq.write_table(table, folder / "x.parquet")
    made["x.parquet"] = lambda: list(hr.ParquetDataset(str(folder / "x.parquet")))
    with hr.io.TFRecordWriter(folder / "x.tfrecord") as writer:
        writer.write({"x": BOMB})
        writer.write(BOMB)
    made["x.tfrecord"] = lambda: list(
        hr.TFRecordDataset(str(folder / "x.tfrecord")).map(lambda r: hr.io.Example.parse(r)).ignore_errors()
    )
    add("x.csv", b"a,b\n__import__('os').system('true'),1\n", lambda p: list(hr.Dataset.from_csv(p, 1)))
    add("x.jsonl", b'{"__class__": "os.system", "x": "!!python/object/apply:os.system"}\n', _json_lines)
    add("x.txt", BOMB.replace(b"\n", b""), lambda p: list(hr.TextLineDataset(p, encoding=None)))
    npy = b"\x93NUMPY\x01\0" + struct.pack("<H", 60) + b"{'descr': '|O', 'fortran_order': False, 'shape': ()}".ljust(60)
    add("x.bin", npy + BOMB, lambda p: list(hr.FixedLengthRecordDataset(p, 1).take(5)))
    data = Path(folder, "y.tfrecord")
    with hr.io.TFRecordWriter(data, index=True) as writer:
        writer.write_all([b"a", b"b"])
    for sidecar in [path for path in folder.rglob("*") if "y.tfrecord" in path.name and path != data]:
        sidecar.write_bytes(BOMB)
        made["an index"] = lambda: list(hr.TFRecordDataset(str(data)))
    made["states"] = _states
    return made


def _json_lines(path):
    return list(hr.JsonLinesDataset(path))


def _states():
    ds = hr.Dataset.range(9).scan(0, lambda s, x: (s + x, s)).shuffle(3, seed=1)
    it = iter(ds)
    next(it)
    state = it.state()
    chance = random.Random(0)
    for _ in range(300):
        made = pages.changed({k: v for k, v in state.items() if k != "crc"}, chance)
        if isinstance(made, dict):
            from headrace.execute.state import _checksum

            try:
                ds.iterator({**made, "crc": _checksum(made)})
            except hr.StateError:
                continue
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
                continue  # nonsense that is noticed later; here only that nothing of it is run


def main():
    warnings.simplefilter("ignore")
    noticed = []
    with tempfile.TemporaryDirectory() as name:
        hostile = write_hostile(Path(name))
        watching = [False]

        def hook(event, args):
            if watching[0] and event.startswith(FORBIDDEN):
                noticed.append(f"{event} {args!r:.200}")

        for read in hostile.values():  # once to have our own modules there
            _quietly(read)
        pages.run(0, seed=1, least=PAGES)
        sys.addaudithook(hook)
        watching[0] = True
        for read in hostile.values():
            _quietly(read)
        runs, _ = pages.run(0, seed=1, least=PAGES)
        watching[0] = False
    assert not noticed, noticed[:5]
    print(len(hostile), runs)


def _quietly(read):
    with suppress(hr.HeadraceError, OSError, ValueError, TypeError):  # it may be rejected, but not be run
        read()


@pytest.fixture(scope="module")
def said():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.storage.test_untrusted"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=root)


def test_nothing_is_imported_compiled_unpickled_or_started(said):
    assert said.returncode == 0, said.stderr
    files, damaged = map(int, said.stdout.split())
    assert files >= 9 and damaged == PAGES


def test_the_watch_would_notice():
    code = """
import sys, pickle
from tests.storage.test_untrusted import BOMB, FORBIDDEN
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event.startswith(FORBIDDEN) else None)
pickle.loads(BOMB)
print(seen)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert "pickle.find_class" in done.stdout and "os.system" in done.stdout


def test_no_module_that_reads_files_can_unpickle():
    """Pickles travel between our own processes only."""
    source = Path(hr.__file__).parent
    process = {"block_workers.py", "remote_worker.py", "shared_values.py", "unpicklable.py", "worker.py"}
    allowed = {
        "adapters/torch.py",
        "tfds/writing.py",
        "distribute/broadcast.py",
        *(f"execute/processes/{name}" for name in process),
    }
    allowed |= {f"cluster/{name}" for name in ("members.py", "parcels.py", "requests.py", "server.py")}
    by_name = {"trace/symbols.py", "reference/base.py", "sources/sql/database.py"}
    # modules of a list of their own
    by_name |= {"image/codecs.py", "catalogue/installed.py", "cluster/serve.py", "datasets/public/__init__.py"}
    by_name |= {
        "catalogue/prepare.py",
        "__init__.py",
        "core/deferred.py",
        "core/frameworks.py",
        "checkpoint/__init__.py",
        "observe/__init__.py",
        "ops/shared/notebook_bar.py",
        "cli/script.py",  # the script that the user names
        "device/fused_kernels.py",  # kernels of its own operations and numbers
        "plan/datasets.py",
        "formats/shared/kinds.py",
    }
    words = ("pickle", "marshal", "eval(", "exec(", "import_module", "__import__")
    for path in source.rglob("*.py"):
        name = str(path.relative_to(source))
        lines = [line for line in path.read_text().splitlines() if any(word in line for word in words)]
        code = [line for line in lines if "allow_pickle=False" not in line and not line.strip().startswith(("#", '"'))]
        if name.startswith("adapters/"):  # each imports the framework that it is for
            code = [line for line in code if "import_module(" not in line]
        if name in allowed:
            continue
        assert name in by_name or not code, f"{name}: {code}"


@pytest.mark.parametrize("code", ["9" * 5000, "01i4", "(1 2)f4", "i4,f4", "5i4", "", [["x", "<i4"]], None])
def test_what_is_not_the_name_of_one_dtype_is_refused(code):
    with pytest.raises(TypeError):
        dtype_of(code)


if __name__ == "__main__":
    main()
