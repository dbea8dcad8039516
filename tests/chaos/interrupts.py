"""Ctrl-C at every moment: an interrupted pass continues where it was, and no row is lost or comes twice.

`python -m tests.chaos.interrupts` injects KeyboardInterrupt at moments of headrace's code that are
chosen at random, and sends real signals, over all the pipelines of the conformance tests. It prints how many interrupts
there were and how many of them lost or repeated a row. `--only places` interrupts every writer at each place of the
modules that write, when it first comes there and when it last does.
"""

import _weakrefset
import argparse
import dis
import functools
import gc
import json
import logging
import random
import signal
import sys
import tempfile
import weakref
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np

import headrace
from headrace import Dataset
from headrace.adapters.feed import Feed, PlainTarget
from headrace.errors import ElementError
from headrace.plan.structure import flatten
from headrace.storage import rows
from headrace.testing import difference
from tests.leaks import Held
from tests.storage import kills
from tests.test_conformance import PIPELINES, UNORDERED

PACKAGE = str(Path(headrace.__file__).parent)
LIMIT = 60
"""So many elements of a pipeline are looked at."""


def one_outcome(it):
    """The next element, or the error in its place; None at the end."""
    try:
        return "value", next(it)
    except StopIteration:
        return None
    except ElementError as error:
        return "error", error.args[0]


CHECKING = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"}
"""The instructions that look for signals once they are done; no other does."""


@functools.cache
def _checks(code):
    """Return where the interpreter looks for signals: the instruction that does so, and that which comes next.

    A trace function raises at the next instruction, a signal at the one before. If these have different handlers (the
    first may be the last one of a `try`), a trace function cannot do what Ctrl-C does.
    """
    handlers = dis._parse_exception_table(code)

    def handler(offset):
        return next(((h.target, h.depth) for h in handlers if h.start <= offset < h.end), None)

    steps = list(dis.get_instructions(code))
    targets = {step.offset: handler(step.offset) for step in steps}
    return {step.offset: targets[step.offset] for step in steps if step.opname in CHECKING}, targets


COLLECTOR = (weakref.__file__, _weakrefset.__file__)
"""Files of functions that the collector calls."""


def _in_finalizer(frame):
    """Whether the collector called this, from which no exception reaches the caller of `next()`."""
    callbacks = [getattr(each, "__code__", None) for each in gc.callbacks]
    while frame is not None and frame.f_code.co_filename != __file__:
        if frame.f_code in callbacks or frame.f_code.co_name == "__del__" or frame.f_code.co_filename in COLLECTOR:
            return True
        frame = frame.f_back
    return False


class Interruption:
    """Raises KeyboardInterrupt at the `at`-th moment, of those at a `place`; without a number it counts them.

    A moment is an instruction of the package, or only of one of its modules, after which the interpreter looks for
    signals: those at which Ctrl-C arrives, and no others.
    """

    def __init__(self, at=None, module="", place=None):
        self.at = at
        self._place = place
        self._files = str(Path(PACKAGE, module))
        self.moments = 0
        self.places = Counter()
        self.struck = None

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *error):
        sys.settrace(None)

    def _call(self, frame, event, _):
        caller = frame.f_back
        if caller is not None and isinstance(caller.f_trace, _Moments):
            caller.f_trace.called(frame)
        if not frame.f_code.co_filename.startswith(self._files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return _Moments(self, frame)

    def pass_moment(self, frame):
        """Count a moment, and strike if it is the one."""
        place = (frame.f_code.co_filename, frame.f_code.co_qualname, frame.f_lasti)
        self.places[place] += 1
        if self._place not in (None, place):
            return
        self.moments += 1
        due = self.struck is None and self.at is not None and self.moments > self.at
        if due and not _in_finalizer(frame):
            self.struck = f"{Path(frame.f_code.co_filename).relative_to(PACKAGE)}:{frame.f_lineno}"
            sys.settrace(None)
            raise KeyboardInterrupt


class _Moments:
    """Follows one frame from instruction to instruction."""

    def __init__(self, interruption, frame):
        self._interruption = interruption
        self._checks, self._targets = _checks(frame.f_code)
        self._before = frame.f_lasti
        """The offset of the instruction that has just been done, if signals were looked for then."""

    def called(self, frame):
        """A function of Python returns into the instruction behind its call; the interpreter looks for no signals.

        It does after a constructor, which the machinery of types calls.
        """
        constructs = frame.f_code.co_name in ("__init__", "__new__")
        if not constructs or frame.f_back.f_code.co_name == frame.f_code.co_name:
            self._before = -1

    def __call__(self, frame, event, _):
        if event == "opcode":
            before, self._before = self._before, frame.f_lasti
            if before in self._checks and self._checks[before] == self._targets[frame.f_lasti]:
                self._interruption.pass_moment(frame)
        else:  # an exception, or the end of the frame
            self._before = -1
        return self


def traced_pass(it, interruption, limit=LIMIT):
    """The outcomes of a pass in which each call of `next()` may be interrupted, and the call is made again."""
    got = []
    while len(got) < limit:
        try:
            with interruption:
                outcome = one_outcome(it)
        except KeyboardInterrupt:
            delivered = it.state()["delivered"]
            assert delivered == len(got), f"{delivered} rows are counted as delivered, and {len(got)} were"
            continue
        if outcome is None:
            break
        got.append(outcome)
    return got


def signalled_pass(it, chance, gap, limit=LIMIT):
    """The outcomes of a pass that a timer interrupts by real signals, and how many of these there were.

    A signal that comes once `next()` has returned is the caller's, which is this file: there it is passed over. So is
    one in a finalizer, whose exceptions Python prints. The gap between signals grows while no element comes: a machine
    that is busy with other things makes one all the same.
    """
    hits = missed = 0
    listening = True

    def strike(number, frame):
        nonlocal hits
        if listening and frame.f_code.co_filename != __file__ and not _in_finalizer(frame):
            hits += 1
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, strike)
    got = []
    try:
        while len(got) < limit:
            try:  # the timer of the call before may still go off
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0, gap * (1 + missed / 10)))
                outcome = one_outcome(it)
            except KeyboardInterrupt:
                missed += 1
                continue
            missed = 0
            if outcome is None:
                break
            got.append(outcome)
    finally:
        listening = False  # the last one may arrive in signal.signal(), which is written in Python
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return got, hits


FRESH = ("cache", "snapshot")
"""Pipelines of these names keep rows from one pass for the next: each pass gets its own."""


class Subject:
    """A pipeline whose passes, all of one epoch with the same seeds, are interrupted."""

    def __init__(self, name, build, feed=None, *, ordered=True):
        self.name = name
        self.ordered = ordered
        self._build = build
        self._feed = feed
        self.plain = feed is None
        self._dataset = build()
        with iter(self._dataset) as it:
            self._start = it.state()
        counting = Interruption()
        with self.begin() as it:
            self.want = traced_pass(it, counting)
        self.moments = counting.moments

    def begin(self):
        """A pass from the start."""
        ds = self._build() if any(word in self.name for word in FRESH) else self._dataset
        if self._feed is None:
            return ds.iterator(state=self._start)
        feed = self._feed(ds)
        feed.load_state_dict(self._start)
        return iter(feed)

    def check(self, got, about):
        """Raise if rows were lost, repeated or changed."""
        want = self.want
        if self._feed is not None:  # of a framework's own arrays
            got, want = ([(kind, repr(value)) for kind, value in rows] for rows in (got, want))
        if not self.ordered:
            got, want = sorted(got, key=repr), sorted(want, key=repr)
        wrong = difference(got, want)
        assert wrong is None, f"{self.name}, interrupted at {about}: {wrong}"


def interrupt_next(subject, at):
    """Whether an interrupt came upon `next()`; raises if it did harm."""
    interruption = Interruption(at)
    with subject.begin() as it:
        subject.check(traced_pass(it, interruption), interruption.struck)
    return interruption.struck is not None


def interrupt_calls(subject, at):
    """Whether an interrupt came upon `state()`, `restore()` or `close()`; raises if it did harm."""
    interruption = Interruption(at)

    def call(work):
        try:
            with interruption:
                return work()
        except KeyboardInterrupt:
            place = it.state()["delivered"]
            assert place in places, f"{subject.name}, {interruption.struck}: at {place}, not at {places}"
            return work()

    it = subject.begin()
    cut = len(subject.want) // 2
    places = {0}
    got = [one_outcome(it) for _ in range(cut)]
    places = {cut}
    state = json.loads(json.dumps(call(it.state)))
    assert state["delivered"] == cut, f"{subject.name}, {interruption.struck}: a state of {state['delivered']}"
    more = [one_outcome(it) for _ in range(min(2, len(subject.want) - cut))]
    places = {cut, cut + len(more)}
    call(lambda: it.restore(state))
    assert it.state()["delivered"] == cut
    rest = []
    while len(rest) < len(more) + 1 and (outcome := one_outcome(it)) is not None:
        rest.append(outcome)
    places = {cut + len(rest)}
    run = it._run if hasattr(it, "_run") else None
    call(it.close)
    assert run is None or not run.open_streams, f"{subject.name}, {interruption.struck}: streams are open"
    wrong = difference(got + rest, subject.want[: cut + len(rest)])
    assert wrong is None, f"{subject.name}, interrupted at {interruption.struck}: {wrong}"
    return interruption.struck is not None


def interrupt_writer(writer, folder, at, place=None):
    """Return whether an interrupt hit a writer; raise if it left anything half done."""
    writer.prepare()
    before = Held.now(folder)
    interruption = Interruption(at, place=place)
    try:
        with interruption:
            writer.work()
    except KeyboardInterrupt:
        assert interruption.struck, "an interrupt from elsewhere"
    left = Held.now(folder).since(before)
    left.pop("temporary", None)  # files that count may wait for a reader to have them in their places
    assert not left, f"interrupted at {interruption.struck}: {left}"
    writer.check()
    left = Held.now(folder).since(before)
    assert not left, f"interrupted at {interruption.struck}: {left}"
    return interruption.struck is not None


def count_moments(writer):
    """Return the moments and places at which a writer can be interrupted."""
    writer.prepare()
    with Interruption() as counting:
        writer.work()
    writer.check()
    return counting


FEEDS = {
    "to_torch": lambda ds: ds.to_torch(),
    "to_torch ahead": lambda ds: ds.to_torch(prefetch=2),
    "to_jax": lambda ds: ds.to_jax(),
    "as lists": lambda ds: Lists(ds),
}


class Lists(Feed):
    """A feed that does its work on the consumer's thread."""

    def make_target(self):
        return ListTarget()


class ListTarget(PlainTarget):
    def deliver(self, element):
        structure, leaves = flatten(element)
        return structure.pack([np.asarray(leaf).tolist() for leaf in leaves])


def subject_of(name):
    """A pipeline of the conformance tests, or one on its way to a trainer."""
    if name in FEEDS:
        return Subject(name, lambda: Dataset.range(40).shuffle(9, seed=1).batch(3), FEEDS[name])
    if name in PIPELINES:
        return Subject(name, PIPELINES[name])
    return Subject(name, UNORDERED[name.removeprefix("unordered ")], ordered=False)


NAMES = [*PIPELINES, *(f"unordered {name}" for name in UNORDERED), *FEEDS]


def run_many(what, rounds, wanted, work):
    """Call `work` for each of the rounds until there were this many interrupts; return how many did harm."""
    hits = harm = 0
    started = perf_counter()
    while hits < wanted:
        before = hits
        for each in rounds:
            try:
                hits += work(each)
            except Exception as error:
                hits += 1
                harm += 1
                print(f"{type(error).__name__}: {error}", flush=True)
        assert hits > before, "nothing was interrupted"
    print(f"{what}: {harm} of {hits:,} did harm ({perf_counter() - started:.0f} s)", flush=True)
    return harm


@functools.cache
def _subjects():
    return [subject_of(name) for name in NAMES]


def _signals(options, chance):
    def signalled(subject):
        with subject.begin() as it:
            got, hits = signalled_pass(it, chance, gap=0.002)
        subject.check(got, "a signal")
        return hits

    return run_many("signals in next()", _subjects(), options.signals, signalled)


def _moments_of_next(options, chance):
    return run_many(
        "moments of next()", _subjects(), options.moments, lambda s: interrupt_next(s, chance.randrange(s.moments))
    )


def _moments_of_calls(options, chance):
    return run_many(
        "moments of state(), restore() and close()",
        [subject for subject in _subjects() if subject.ordered and subject.plain],
        max(1, options.moments // 10),
        lambda s: interrupt_calls(s, chance.randrange(200)),
    )


@contextmanager
def _writers(count, size, records):
    """All kinds of writers, each with its folder, that write so much."""
    kills.ROWS, kills.SIZE, kills.RECORDS = count, size, records
    rows.PART_BYTES = count // 3 * size * 8
    with tempfile.TemporaryDirectory() as name:
        made = []
        for kind, make in kills.KINDS.items():
            folder = Path(name, kind)
            folder.mkdir()
            made.append((make(folder), folder))
        yield made


def _moments_of_writers(options, chance):
    with _writers(60, 40, 300) as writers:
        counted = [(writer, folder, count_moments(writer).moments) for writer, folder in writers]
        return run_many(
            "moments of writers",
            counted,
            max(1, options.moments // 50),
            lambda w: interrupt_writer(w[0], w[1], chance.randrange(w[2])),
        )


WRITING = ("storage/", "sinks/", "core/", "formats/shared/sidecar", "io/")
"""Modules that open, write, rename and remove files."""


def _places_of_writers(options, chance):
    harm = 0
    with _writers(6, 10, 20) as writers:
        for writer, folder in writers:
            counted = [count_moments(writer).places for _ in range(3)]
            least = {place: min(found[place] for found in counted) for place in counted[0]}
            jobs = [
                (place, at)
                for place, number in least.items()
                if number and Path(place[0]).relative_to(PACKAGE).as_posix().startswith(WRITING)
                for at in {0, number - 1}
            ]
            harm += run_many(
                f"places of {type(writer).__name__}",
                jobs,
                1,
                lambda job, writer=writer, folder=folder: interrupt_writer(writer, folder, job[1], job[0]),
            )
    return harm


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=10_000, help="how many interrupts to inject")
    parser.add_argument("--signals", type=int, default=1_000, help="how many real signals to send")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", choices=("signals", "next", "calls", "writers", "places"), help="run one part")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # of the files that some pipelines skip
    seed = random.randrange(10**6) if options.seed is None else options.seed
    chance = random.Random(seed)
    print(f"seed {seed}")
    parts = {
        "signals": _signals,
        "next": _moments_of_next,
        "calls": _moments_of_calls,
        "writers": _moments_of_writers,
        "places": _places_of_writers,
    }
    harm = sum(part(options, chance) for name, part in parts.items() if options.only in (None, name))
    return 1 if harm else 0


if __name__ == "__main__":
    sys.exit(main())
