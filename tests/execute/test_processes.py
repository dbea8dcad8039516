"""Functions in worker processes: the same elements and errors, and nothing left behind however they end."""

import collections
import dataclasses
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import headrace as hr
from headrace.execute.processes.remote_worker import Worker
from headrace.execute.processes.shared_values import Shared, from_message, to_message
from headrace.execute.run import Pass
from headrace.plan.prepared import Prepared
from headrace.testing import check_transformation, difference, outcomes

D = hr.Dataset


others = set()
"""Processes that were there before a test, such as a tracker of another library's."""


def children():
    return [child for child in psutil.Process().children(recursive=True) if child.pid not in others]


@pytest.fixture(autouse=True)
def _nothing_stays():
    others.clear()
    others.update(child.pid for child in children())
    fds = psutil.Process().num_fds()
    yield
    gc.collect()
    assert children() == []
    assert psutil.Process().num_fds() <= fds


def process(ds, fn, calls=1, **how):
    return ds.map(fn, calls, mode="process", **how)


def check_alike(ds, fn, calls=1):
    """In processes the function does what it does here."""
    want = outcomes(iter(ds.map(fn)))
    reason = difference(outcomes(iter(process(ds, fn, calls))), want)
    assert reason is None
    return want


def test_a_filter_decides_in_processes_as_it_does_here():
    def few(x):
        if x % 10 == 4:
            raise ValueError(f"no {x}")
        return "yes" if x % 10 == 7 else bool(x % 5 == 2)

    for ds in (D.range(60), streamed(60)):
        here, there = [outcomes(iter(ds.filter(few, num_parallel_calls=2, mode=m))) for m in ("eager", "process")]
        assert difference(there, here) is None
        assert len(here) == 18
    inside = set()
    list(D.range(9).filter(lambda x: inside.add(os.getpid()) is None, mode="process"))
    assert inside == set()


def test_a_filter_in_processes_can_be_saved_anywhere():
    check_transformation(D.range(9).filter(lambda x: bool(x % 3), mode="process"), cuts=2, epochs=1)


def streamed(n):
    return D.from_generator(lambda: iter(range(n)), output_signature=hr.TensorSpec((), np.int64))


Point = collections.namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Sample:
    image: np.ndarray
    label: str


class Odd(Exception):
    """Cannot be made again from its arguments."""

    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


def test_lambdas_and_closures_run_elsewhere_in_order():
    offset, table = 100, np.arange(50) * 3
    rows = list(process(D.range(50), lambda x: (x + offset, table[x], os.getpid()), 2))
    assert [(int(a), int(b)) for a, b, _ in rows] == [(i + 100, i * 3) for i in range(50)]
    assert os.getpid() not in {int(pid) for *_, pid in rows}


KINDS = {
    "number": lambda x: x * 1.5,
    "structure": lambda x: {"a": np.full((3, 2), x, np.float32), "b": (x, None)},
    "ragged": lambda x: np.arange(x % 4),
    "empty": lambda x: np.zeros((0, x % 3)),
    "text": lambda x: ("é" * int(x), b"\x00" * int(x)),
    "list": lambda x: [str(x), "b"],
    "namedtuple": lambda x: Point(x, -x),
    "dataclass": lambda x: Sample(np.ones(3) * x, f"label {x}"),
    "date": lambda x: np.datetime64("2020-01-01") + np.timedelta64(int(x), "D"),
    "record": lambda x: np.array([(x, 1.5)], dtype=[("a", "i4"), ("b", "f8")]),
    "changing dtype": lambda x: x if x % 2 else float(x),
    "object": lambda x: {1, 2, int(x)},
    "strided": lambda x: np.asfortranarray(np.arange(6).reshape(2, 3) + x)[:, ::2],
}


def test_results_of_all_kinds_come_back():
    check_alike(D.range(30), lambda x: {name: fn(x) for name, fn in KINDS.items()})
    check_alike(D.range(9), lambda x: (None,) if x % 2 else (x, x))
    rows = list(process(D.range(3), lambda x: hr.Ragged.from_rows([[x], [], [x, x]])))
    assert [row.to_list() for row in rows] == [[[i], [], [i, i]] for i in range(3)]


def sources():
    text = [f"row {i} é" for i in range(40)]
    return {
        "dense": D.from_tensor_slices((np.arange(120.0).reshape(40, 3)[:, ::-1], np.arange(40, dtype=np.uint8))),
        "text": D.from_tensor_slices({"s": text, "b": [t.encode() for t in text]}),
        "slices of text": D.from_tensor_slices(text).skip(7).shard(3, 1),
        "ragged": D.from_tensor_slices(hr.Ragged.from_rows([np.arange(i % 4) for i in range(40)])).skip(3),
        "batches of text": D.from_tensor_slices(text).batch(3),
        "objects": D.range(40).map(lambda x: Sample(np.ones(x % 3), "a") if x % 2 else Point(x, "b")),
        "nothing": D.range(0),
        "batches": D.from_tensor_slices(np.eye(40)).batch(7),
    }


@pytest.mark.parametrize("name", sources())
def test_elements_of_all_kinds_go_there(name):
    check_alike(sources()[name], lambda *args: args if len(args) > 1 else args[0])


def test_large_arrays_go_through_memory_of_their_own_size():
    size = 40 << 20
    big = D.range(3).map(lambda x: np.full(size, x, np.uint8))
    for i, (array, total) in enumerate(process(big, lambda a: (a + 1, int(a[::4096].sum())))):
        assert array.nbytes == size
        assert (array[0], array[-1], total) == (i + 1, i + 1, i * (size // 4096))


def test_rows_of_text_travel_without_their_neighbours():
    lines = D.from_tensor_slices(["x" * 1000 for _ in range(20_000)])._node
    run, memory = Pass(), Shared.create()
    run.open(run.context(Prepared.of(lines)))
    run.root.skip(500)
    (row,) = from_message(to_message([run.pull(2)], memory), memory)
    assert list(row.elements()) == ["x" * 1000] * 2
    assert os.fstat(memory.fd).st_size <= 1 << 20
    memory.close()


def test_arrays_are_private_and_may_be_kept():
    kept = []

    def keep(row):
        row += 1
        kept.append(row)
        return np.stack(kept).sum(axis=0)

    rows = np.arange(12).reshape(6, 2)
    got = list(process(D.from_tensor_slices(rows), keep))
    assert np.array_equal(got, np.cumsum(rows + 1, axis=0))
    assert kept == []
    assert got[0].flags.writeable


def test_every_promise_is_kept_with_failures_too():
    def picky(x):
        if x % 3 == 1:
            raise ValueError(f"bad {x}")
        return x * 2

    check_transformation(process(D.range(4), picky), cuts=2, epochs=1)


def test_any_order_stays_exact():
    ds = process(D.range(40), lambda x: x, 2, deterministic=False)
    with iter(ds) as it:
        got = [int(next(it)) for _ in range(11)]
        state = json.loads(json.dumps(it.state()))
    got += [int(x) for x in process(D.range(40), lambda x: x, 2).iterator(state)]
    assert sorted(got) == list(range(40))


def test_exceptions_come_back_to_their_places_with_the_users_traceback():
    def explode(x):
        if x == 2:
            raise KeyError("missing")
        if x == 4:
            raise Odd("salt", "pepper")
        return x

    it = iter(process(D.range(6), explode, 2))
    got = []
    for _ in range(6):
        try:
            got.append(int(next(it)))
        except hr.ElementError as error:
            got.append(error)
    it.close()
    missing, odd = got[2], got[4]
    assert [got[i] for i in (0, 1, 3, 5)] == [0, 1, 3, 5]
    assert isinstance(missing.__cause__, KeyError)
    assert "map failed on element 2: KeyError: 'missing'" in str(missing)
    assert 'raise KeyError("missing")' in missing.__cause__.__notes__[0]
    assert "map failed on element 4: Odd: salt and pepper" in str(odd)
    assert "in explode" in odd.__cause__.__notes__[0]


def test_what_cannot_be_sent_is_an_error_that_says_so():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="the function cannot be sent to another process: cannot pickle"):
        list(process(D.range(3), lambda x: lock.locked()))
    with pytest.raises(hr.ElementError, match="element 1: TypeError: the result cannot be sent"):
        list(process(D.range(3), lambda x: threading.Lock() if x == 1 else x))
    some = process(D.range(9), lambda x: threading.Lock() if x % 4 == 1 else x).ignore_errors()
    assert [int(x) for x in some] == [0, 2, 3, 4, 6, 7, 8]
    locks = D.range(3).map(lambda x: threading.Lock() if x == 1 else x)
    with pytest.raises(hr.ElementError, match="element 1: TypeError: the element cannot be sent"):
        list(process(locks, lambda x: 1))


def test_a_function_that_cannot_be_loaded_is_an_error_and_no_hang():
    class Stubborn:
        def __reduce__(self):
            return eval, ("1 / 0",)

    stubborn = Stubborn()
    with pytest.raises(hr.WorkerError, match="cannot use what it was sent: ZeroDivisionError"):
        list(process(D.range(3), lambda x: stubborn))


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os._exit(7), "ended with exit code 7 while"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), r"ended with exit code -9 \(SIGKILL\) while"),
        (lambda: os.abort(), r"ended with exit code -6 \(SIGABRT\) while"),
    ],
)
def test_a_worker_that_dies_is_an_error_of_its_element(end, words):
    def deadly(x):
        if x == 20:
            end()
        return x

    with iter(process(D.range(40), deadly, 2)) as it:
        got = [int(next(it)) for _ in range(20)]
        with pytest.raises(hr.ElementError, match=f"element 20: WorkerError: the worker process {words}") as caught:
            next(it)
        assert isinstance(caught.value.__cause__, hr.WorkerError)
        got += [int(x) for x in it]
    assert got == [*range(20), *range(21, 40)]


def test_a_worker_that_dies_once_loses_nothing(tmp_path):
    flag = tmp_path / "died"

    def unlucky(x):
        if x == 5 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    assert [int(x) for x in process(D.range(12), unlucky, 2)] == list(range(12))


def test_a_worker_killed_from_outside_is_replaced():
    with iter(process(D.range(30), lambda x: (x, os.getpid()))) as it:
        _, pid = next(it)
        os.kill(int(pid), signal.SIGKILL)
        rows = list(it)
    assert [int(x) for x, _ in rows] == list(range(1, 30))


def test_system_exit_reaches_the_consumer():
    def leave(x):
        raise SystemExit(7)

    it = iter(process(D.range(3), leave))
    with pytest.raises(SystemExit) as caught:
        next(it)
    assert caught.value.code == 7
    it.close()


def test_workers_start_with_the_first_element_and_no_more_than_asked():
    it = iter(process(D.range(100), lambda x: x, 2))
    assert children() == []
    next(it)
    assert 1 <= len(children()) <= 2
    it.close()


def pids(ds):
    return {int(row[1]) for row in ds}


def with_pid(x):
    return x, os.getpid()


def test_workers_stay_for_the_next_pass_and_go_with_the_dataset():
    ds = process(D.range(200), with_pid, 1)  # of several, one that has not answered yet when a pass ends is replaced
    first = pids(ds)
    assert {child.pid for child in children()} == first
    assert pids(ds) == first
    batches = ds.batch(10)
    assert {int(pid) for _, some in batches for pid in some} == first  # another pipeline over the same operation
    assert {child.pid for child in children()} == first
    del ds, batches
    gc.collect()
    assert children() == []


def test_no_more_workers_stay_than_were_asked_for():
    ds = process(D.range(200), with_pid, 2)
    for _ in range(3):
        pids(ds)
        assert len(children()) <= 2


def test_a_pass_that_ends_early_leaves_its_workers_too():
    ds = process(D.counter(), with_pid, 2)
    with iter(ds) as it:
        next(it)
        before = {child.pid for child in children()}
    with iter(ds) as it:
        assert int(next(it)[1]) in before


def test_a_function_that_holds_something_else_by_now_is_sent_anew():
    settings, table = {"factor": 2}, np.arange(5)

    def scaled(x):
        return x * settings["factor"] + table[x]

    ds = process(D.range(5), scaled, 2)
    assert [int(x) for x in ds] == [0, 3, 6, 9, 12]
    settings["factor"] = 3
    assert [int(x) for x in ds] == [0, 4, 8, 12, 16]
    table[:] = 1
    assert [int(x) for x in ds] == [1, 4, 7, 10, 13]


def test_a_function_keeps_in_its_worker_what_it_kept_there_before():
    seen = []

    def count(x):
        seen.append(x)
        return len(seen)

    ds = process(D.range(5), count)
    assert [int(x) for x in ds] == [1, 2, 3, 4, 5]
    assert [int(x) for x in ds] == [6, 7, 8, 9, 10]
    assert seen == []


def test_a_worker_that_died_between_passes_is_replaced():
    ds = process(D.range(5), with_pid)
    (pid,) = pids(ds)
    os.kill(pid, signal.SIGKILL)
    assert pids(ds).isdisjoint({pid})
    (pid,) = pids(ds)
    psutil.Process(pid).suspend()  # it lives, and answers nothing yet
    with iter(ds) as it:
        threading.Timer(0.2, psutil.Process(pid).resume).start()
        assert int(next(it)[1]) == pid


def test_workers_start_in_the_folder_and_with_the_variables_of_the_pass(tmp_path, monkeypatch):
    ds = process(D.range(1), lambda x: (os.getcwd(), os.environ.get("HEADRACE_TEST", "none")))  # noqa: PTH109
    here = os.getcwd()  # noqa: PTH109
    assert list(ds) == [(here, "none")]
    monkeypatch.chdir(tmp_path)
    assert list(ds) == [(str(tmp_path), "none")]
    monkeypatch.setenv("HEADRACE_TEST", "some")
    assert list(ds) == [(str(tmp_path), "some")]


def test_much_that_is_pickled_goes_both_ways_at_once():
    rows = [{f"key {i} {j}": "x" * 5000 for j in range(100)} for i in range(60)]
    got = list(process(D.range(60), lambda i: (i, {f"{i} {'x' * 500_000}"}), 2))
    assert [text for _, text in got] == [{f"{i} {'x' * 500_000}"} for i in range(60)]
    memory = Shared.create()
    message = to_message([rows], memory)
    assert len(message) < 1000
    assert from_message(message, memory) == [rows]
    memory.close()


def test_rows_behind_one_that_kills_its_worker_are_not_blamed():
    def deadly(x):
        if x % 50 == 20:
            os._exit(3)
        return x

    got = outcomes(iter(process(D.range(200), deadly, 2)))
    failed = [i for i, outcome in enumerate(got) if isinstance(outcome, Exception) or "WorkerError" in str(outcome)]
    assert failed == [20, 70, 120, 170]


def test_asking_for_the_spec_starts_none(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    ds = process(D.range(3), lambda x: np.ones(3) * x).map(lambda x: (x, len(x)))
    assert ds.element_spec == (hr.TensorSpec((None,), "float64"), hr.TensorSpec((), "int64"))


def test_without_a_number_there_is_a_worker_for_each_cpu():
    ds = process(D.range(400), lambda x: (x, os.getpid()), None)
    cpus = len(os.sched_getaffinity(0))
    assert len({int(pid) for _, pid in ds}) <= cpus
    assert len({int(pid) for _, pid in ds.with_options(hr.Options(cpu_budget=1))}) == 1


@pytest.mark.parametrize("ending", ["close", "drop", "leave", "restore"])
def test_however_a_pass_ends_its_workers_are_gone_even_in_the_midst_of_a_call(ending, tmp_path):
    begun = tmp_path / "begun"

    def hang(x):
        if x == 3:
            begun.touch()
            time.sleep(1000)
        return x

    it = iter(process(D.range(10), hang, 2))
    state = it.state()
    next(it)
    while not begun.exists():
        time.sleep(0.01)
    started = time.monotonic()
    if ending == "close":
        it.close()
    elif ending == "leave":
        with it:
            pass
    elif ending == "restore":
        it.restore(state)
        assert len(children()) <= 1  # one may wait for the next pass; the one that sleeps is gone
        it.close()
    del it
    gc.collect()
    assert children() == []
    assert time.monotonic() - started < 500  # not when the call has slept its fill


def test_mode_is_checked_and_no_part_of_a_state():
    with pytest.raises(ValueError, match="mode must be one of"):
        D.range(3).map(lambda x: x, mode="fork")
    with pytest.raises(ValueError, match="synchronous"):
        D.range(3).map(lambda x: x, mode="process", synchronous=True)
    with iter(process(D.range(5), lambda x: x + 1)) as it:
        next(it)
        state = it.state()
    assert [int(x) for x in D.range(5).map(lambda x: x + 1).iterator(state)] == [2, 3, 4, 5]
    assert "mode=process" in process(D.range(5), lambda x: x).explain()


def script(tmp_path, source):
    path = tmp_path / "users_script.py"
    path.write_text(textwrap.dedent(source))
    return [sys.executable, str(path)]


def test_a_script_without_a_main_guard_works_and_is_not_run_again(tmp_path):
    done = subprocess.run(
        script(
            tmp_path,
            """
            import collections, dataclasses, os
            import headrace as hr
            print("started", flush=True)
            SCALE = 3
            Pair = collections.namedtuple("Pair", "a b")
            class Refused(Exception):
                pass
            @dataclasses.dataclass
            class Row:
                n: int
            def helper(x):
                return x * SCALE
            def work(x):
                print("hello from a worker") if x == 1 else None
                if x == 4:
                    raise Refused("four")
                return Pair(Row(helper(x)), str(x))
            it = iter(hr.Dataset.range(5).map(work, num_parallel_calls=2, mode="process"))
            rows = [next(it) for _ in range(4)]
            assert all(type(r) is Pair and type(r.a) is Row for r in rows), rows
            print([int(r.a.n) for r in rows])
            try:
                next(it)
            except hr.ElementError as error:
                assert type(error.__cause__) is Refused, error.__cause__
            """,
        ),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["[0, 3, 6, 9]", "hello from a worker", "started"]


ENDLESS = """
    import os, signal, time
    import headrace as hr
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs lack
    def work(x):
        if x >= 20:
            time.sleep(1000)
        return x, os.getpid()
    it = iter(hr.Dataset.range(100).map(work, num_parallel_calls=2, mode="process"))
    print(*{int(next(it)[1]) for _ in range(6)}, flush=True)
"""


def gone(pids, seconds=300):
    _, alive = psutil.wait_procs([psutil.Process(p) for p in pids if psutil.pid_exists(p)], timeout=seconds)
    return [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_parent_is_killed_nothing_is_left(tmp_path, number):
    parent = subprocess.Popen(
        script(tmp_path, ENDLESS + "    list(it)\n"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        workers = [int(p) for p in parent.stdout.readline().split()]
        everyone = [parent.pid, *(p.pid for p in psutil.Process(parent.pid).children(recursive=True))]
        assert set(workers) < set(everyone)
        assert not any("/dev/shm" in Path(f"/proc/{pid}/maps").read_text() for pid in everyone), "memory with a name"
        if number == signal.SIGINT:  # as the terminal does on Ctrl-C
            os.killpg(parent.pid, number)
        else:
            os.kill(parent.pid, number)
        _, errors = parent.communicate(timeout=600)
    finally:
        parent.kill()
        parent.communicate()
    assert gone(everyone)
    if number == signal.SIGINT:
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.parametrize("ending", ["", "del it", "it.close()", "raise SystemExit(0)", "os._exit(0)"])
def test_the_interpreter_exits_with_workers_under_way(tmp_path, ending):
    source = ENDLESS + f"    {ending}\n"
    done = subprocess.run(script(tmp_path, source), capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert gone([int(p) for p in done.stdout.split()])


class Counter:
    """Something that holds a lock."""

    def __init__(self):
        self.lock = threading.Lock()

    def count(self, x):
        with self.lock:
            return x


def unsendable():
    lock, counter, folder = threading.Lock(), Counter(), {"open": [threading.Lock()]}

    def locked(x):
        with lock:
            return x

    def calls_another(x):
        return locked(x)

    def with_default(x, guard=lock):
        return x

    return {
        "a variable": (locked, "locked uses lock, a lock"),
        "a function's variable": (calls_another, "calls_another uses locked, a function; locked uses lock, a lock"),
        "a default": (with_default, "with_default uses guard, a lock"),
        "an object's attribute": (lambda x: counter.count(x), "uses counter, a Counter; Counter holds .lock, a lock"),
        "a method": (counter.count, "Counter holds .lock, a lock"),
        "a thing in a list in a dict": (
            lambda x: len(folder) + x,
            "dict holds ['open'], a list; list holds [0], a lock",
        ),
        "an argument": (functools.partial(max, key=lock), "partial uses key, a lock"),
    }


@pytest.mark.parametrize("case", unsendable())
@pytest.mark.parametrize("where", ["map", "prefetch"])
def test_what_cannot_be_sent_is_named(case, where):
    fn, said = unsendable()[case]
    ds = D.range(5).map(fn, mode="process") if where == "map" else D.range(5).map(fn).prefetch(2, mode="process")
    with pytest.raises(TypeError, match="cannot be sent to another process: cannot pickle") as caught:
        list(ds)
    assert said in str(caught.value)
    assert where == "map" or "(map (" in str(caught.value)
    assert "Make it inside the function" in str(caught.value)


def test_a_worker_has_the_whole_package_once_it_needs_it():
    def loaded(x):
        before = "headrace.dataset" in sys.modules
        parsed = hr.io.decode_raw(b"\x01\x02", np.uint8)  # a module of the package
        still = "headrace.dataset" in sys.modules
        total = int(sum(hr.Dataset.range(4)))  # a name of it
        from headrace import AUTOTUNE, TensorSpec

        return before, still, parsed, total, AUTOTUNE, hr.__version__, hasattr(hr, "nonsense"), TensorSpec is not None

    ((before, still, parsed, *rest),) = process(D.range(1), loaded)
    assert (bool(before), bool(still), parsed.tolist()) == (False, False, [1, 2])
    assert [each.item() if hasattr(each, "item") else each for each in rest] == [
        6, hr.AUTOTUNE, hr.__version__, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["headrace.ops.shared.calls", "headrace.ops.filter", "headrace.ops.random_map", "headrace.io"]
)
def test_modules_can_be_imported_alone(name):
    program = (
        "import importlib; importlib.import_module(sys.argv[1]); "
        "import headrace; headrace.Dataset.range(3).batch(2); print(list(headrace.Dataset.range(2)) == [0, 1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}", name],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_class_of_a_script_may_be_abstract():
    """Modules of the interpreter, such as abc, can be imported by any process: they are not sent."""
    from abc import ABC, abstractmethod

    class Doubling(ABC):
        @abstractmethod
        def __call__(self, x): ...

    class Twice(Doubling):
        def __call__(self, x):
            return x * 2

    assert list(D.range(3).map(Twice(), mode="process")) == [0, 2, 4]


def test_a_worker_that_was_freed_does_not_rest():
    worker = Worker()
    worker.begin(Asleep())
    worker.send(1000)
    worker._keeper.free()  # as at the interpreter's exit, beside a thread that closes a pass
    assert not worker.comes_to_rest(time.monotonic() + 300)
    worker.close()


class Asleep:
    def __call__(self, seconds):
        time.sleep(seconds)
        return []
