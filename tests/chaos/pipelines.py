"""Random pipelines out of a seed."""

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.storage.files import TEMPORARY
from headrace.storage.swaps import SWAP
from headrace.testing import difference, outcomes, reference_outcomes
from tests.chaos.files import Files
from tests.pipelines import Sometimes, sources, steps, unordered

MAX_ELEMENTS = 80


def draw(strategy, chance):
    """An example of a strategy; the same for the same `chance`."""
    drawn = []

    @seed(chance.getrandbits(64))
    @settings(
        max_examples=12,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value):
        drawn.append(value)

    collect()
    return drawn[chance.randrange(len(drawn) // 2, len(drawn))]


def with_steps(ds, chance, most=4):
    for step in draw(st.lists(steps(sources), max_size=most), chance):
        ds = step(ds)
    return ds.take(MAX_ELEMENTS)


def over_files(chance, folder, most=4):
    """A pipeline that reads files of some kind."""
    files = Files(chance, folder)
    how = {}
    if "indexed" not in files.kind:
        how["num_parallel_reads"] = chance.choice([None, None, 2, hr.AUTOTUNE])
        how["on_error"] = chance.choice(["raise", "skip"])
    return with_steps(files.dataset(**how), chance, most)


def in_processes(ds, chance):
    """The same with a worker process or two in it."""
    if chance.random() < 0.5:
        ds = ds.map(Sometimes(7), num_parallel_calls=chance.choice([1, 2]), mode="process")
    try:
        return ds.prefetch(chance.choice([1, 4]), mode="process") if chance.random() < 0.6 else ds
    except ValueError:  # a cache would be lost with the process
        return ds


def any_pipeline(chance, folder):
    """A pipeline, and whether its order is fixed."""
    how = chance.random()
    if how < 0.5:
        ds = over_files(chance, folder)
    elif how < 0.8:
        ds = with_steps(draw(sources, chance), chance)
    else:
        ds = draw(unordered, chance)
    if how < 0.8 and chance.random() < 0.1:
        ds = in_processes(ds, chance)
    return ds, how < 0.8


def check(got, want, ordered, what):
    if not ordered:
        got, want = sorted(got, key=repr), sorted(want, key=repr)
    reason = difference(got, want)
    assert reason is None, f"{what}: {reason}"


def check_next_epoch(ds, ordered, number):
    check(outcomes(iter(ds)), reference_outcomes(ds, number), ordered, f"epoch {number}")


def check_nothing_left(folder, endings=(TEMPORARY, SWAP)):
    left = [path for path in folder.rglob("*") if path.name.endswith(endings)]
    assert not left, f"left behind: {left}"
