"""What explain() prints is what runs."""

import re

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import ElementError
from headrace.execute.context import Context
from headrace.execute.pool import TINY_CUTS
from headrace.iterator import Epochs, Iterator, Settings
from headrace.testing import outcomes
from tests.test_conformance import PIPELINES, UNORDERED, files

D = hr.Dataset
ROWS = 200
"""So many elements of each pipeline are made: all of most."""
PROCESSORS = hr.Options(cpu_budget=TINY_CUTS.min_threads)


class Printed:
    """An operator of the physical plan as explain() printed it, with the operators below it.

    `title` is that of a line that announces plans which are opened while the plan runs.
    """

    def __init__(self, line):
        label = re.split(r"  → |   ", line)[0]
        self.operation = label.partition("(")[0]
        self.title = label if label.endswith(":") else None
        self.threads = bool(re.search(r"threads|num_parallel_(calls|reads)|cycle_length|^prefetch", line))
        self.below = []

    @property
    def passes_on(self):
        """Whether it may not run: it only makes its rows ahead, or announces what may be opened."""
        return self.title is not None or self.operation in ("parallel_scan", "prefetch")

    def find(self, operation):
        """The operator of this name below, if it was printed."""
        for each in self.below:
            if each.operation == operation:
                return each
            found = each.find(operation) if each.passes_on else None
            if found is not None:
                return found
        return None

    def is_announced(self, slot):
        """Whether a plan in this slot depends on the rows. Inputs have their own slots."""
        titles = [each.title for each in self.below if each.title is not None and not each.below]
        return any(slot or title.startswith("the rows of its files") for title in titles)

    def operations(self):
        return {self.operation}.union(*(each.operations() for each in self.below))


def physical_plan(text):
    """The tree that explain() printed after `runs as:`."""
    root = Printed("pass()")
    open_at = [root]
    for line in text.partition("runs as:\n")[2].partition("\nbecause:")[0].splitlines():
        shown = line.strip()
        depth = (len(line) - len(line.lstrip())) // 2
        if shown.startswith("·") or depth > len(open_at):  # a remark, or the rest of one
            continue
        del open_at[depth:]
        node = Printed(shown)
        open_at[-1].below.append(node)
        open_at.append(node)
    return root


def unexplained(stage, printed):
    """The stages that ran below one, but were not printed below it, or without their threads."""
    for (slot, operation), below in stage.inputs.items():
        found = printed.find(operation)
        if found is not None:
            if below.threaded and not found.threads:
                yield f"threads of {operation}"
            yield from unexplained(below, found)
        elif not printed.is_announced(slot):
            yield f"{operation} below {printed.operation}"


@pytest.fixture
def fetched(monkeypatch):
    """The operations whose rows were fetched by number."""
    seen = set()

    def note(name):
        original = getattr(Context, name)

        def noting(self, node, indices):
            seen.add(node.operation)
            return original(self, node, indices)

        monkeypatch.setattr(Context, name, noting)

    note("fetch")
    note("fetch_items")
    return seen


@pytest.mark.parametrize("tiny_cuts", [False, True], ids=["serial", "cuts"])
@pytest.mark.parametrize("name", [*PIPELINES, *(f"unordered {name}" for name in UNORDERED)])
def test_every_stage_that_runs_is_explained(name, tiny_cuts, fetched):
    make = PIPELINES[name] if name in PIPELINES else UNORDERED[name.removeprefix("unordered ")]
    ds = make().with_options(PROCESSORS)
    epochs = Epochs()
    for _ in range(2):  # the second pass reads what the first one kept
        text = str(ds.explain())
        printed = physical_plan(text)
        it = Iterator(ds._node, epochs, Settings(tiny_cuts=tiny_cuts))
        it._open()
        stage = it._run.stage
        fetched.clear()
        outcomes(it, ROWS)
        it.close()
        assert stage.inputs, "something runs"
        assert list(unexplained(stage, printed)) == [], text
        if not re.search(r"for each (row|window|file),", text):
            assert fetched <= printed.operations(), text


def test_a_stage_that_is_not_printed_is_found():
    ds = D.range(5).batch(2)
    printed = physical_plan(str(ds.explain()).replace("range(start=0, stop=5)", "other()"))
    it = iter(ds)
    next(it)
    assert list(unexplained(it._run.stage, printed)) == ["range below batch"]
    it.close()


def test_rows_that_go_one_by_one_are_marked():
    def branching(x):
        return x if x > 1 else 0.5

    def marks(ds):
        return re.findall(r"row by row[^\]]*", str(ds.explain()).partition("runs as:")[2])

    eager = marks(D.range(9).map(branching))
    assert re.match(r"row by row: branches on data at .*test_explain\.py", eager[0])
    assert eager[1].startswith(
        "row by row at the end: map may have side effects, so an element is computed when it is requested"
    )
    assert marks(D.range(9).map(lambda x: x, mode="eager"))[0] == "row by row: as asked for"
    assert marks(D.range(9).map(abs, mode="process"))[0] == "row by row: in worker processes, as asked for"
    generator = D.from_generator(lambda: iter(range(3)), output_signature=hr.TensorSpec((), "int64"))
    assert marks(generator.batch(2))[0] == "row by row: a generator gives one element at a time"
    assert marks(D.range(9).scan(0, lambda n, x: (n + 1, x)))[0] == "row by row: each state depends on the one before"
    assert marks(D.range(9).map(lambda x: x + 1).batch(2)) == []


def test_the_logical_plan_alone():
    ds = D.from_tensor_slices(np.arange(9)).shuffle(3).batch(2)
    text = str(ds.explain(physical=False))
    assert text.startswith("plan:\n  batch(")
    assert "runs as" not in text
    assert "gather" not in text


@pytest.mark.parametrize(
    ("processors", "calls", "expected"),
    [
        (1, lambda ds: ds, "serial scan at TextLineDataset: one processor"),
        (8, lambda ds: ds, "parallel_scan at TextLineDataset: reads cuts of the source on up to 8 threads"),
        (8, lambda ds: ds.map(hr.text.upper), "reads cuts of the source and what follows it on up to 8 threads"),
    ],
)
def test_the_reason_for_a_scan_is_printed(processors, calls, expected):
    ds = calls(hr.TextLineDataset(files("explained", b"a\nb\n" * 9, b"c\n")))
    text = " ".join(str(ds.with_options(hr.Options(cpu_budget=processors)).explain()).split())
    assert expected in text


@pytest.mark.parametrize("shuffled", [lambda ds: ds.shuffle(3), lambda ds: ds.shuffle(), lambda ds: ds[2:9:2]])
def test_rows_that_are_fetched_by_number_are_not_said_to_be_scanned(shuffled):
    ds = D.from_tensor_slices(np.arange(40)).map(lambda x: x + 1)
    scanned = re.compile(r"parallel_scan\(.*\n *map\(")
    assert scanned.search(str(ds.with_options(PROCESSORS).explain()))
    assert not scanned.search(str(shuffled(ds).with_options(PROCESSORS).explain()))


def test_the_parts_of_a_source_are_explained():
    class Source(hr.BatchSource):
        schema = pa.schema({"x": pa.int64()})
        parts = 2

        def open(self, part, mark):
            for x in range(mark, 3):
                yield pa.record_batch({"x": [3 * part + x]})

    ds = D.from_batches(Source())
    printed = physical_plan(str(ds.explain()))
    it = iter(ds)
    next(it)
    assert list(unexplained(it._run.stage, printed)) == []
    it.close()


def test_explaining_makes_no_rows():
    def failing():
        raise AssertionError("the generator ran")
        yield

    ds = D.from_generator(failing, output_signature=hr.TensorSpec((), "int64")).map(lambda x: x + 1)
    assert "from_generator" in str(ds.explain())
    with pytest.raises(ElementError):
        next(iter(ds))
