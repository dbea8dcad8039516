"""Files in a store whose answers break off, come short, too long, late or not at all."""

import json
import time

import headrace as hr
from headrace.testing import outcomes, reference_outcomes
from tests.chaos.files import KINDS
from tests.chaos.pipelines import check, with_steps
from tests.chaos.readers import one
from tests.stores.faults import running

FAULTS = ["503", "429", "500", "reset", "truncated", "short", "long", "reset", "truncated", "stall"]


def failing(chance, folder):
    try:
        import aiohttp  # noqa: F401
    except ImportError:
        return
    with running() as proxy:
        ds = pipeline(chance, proxy)
        want = reference_outcomes(ds)
        stalls = chance.choice([0, 0, 2])
        often = chance.choice([2, 5, 20])

        def fault(request):
            nonlocal stalls
            if chance.randrange(often):
                return None
            kind = chance.choice(FAULTS)
            if kind in ("short", "long") and not request.is_data:
                return None  # what a store says of a file is true, if it says anything
            if kind == "stall":
                stalls -= 1
                return "stall" if stalls >= 0 else None
            return kind

        proxy.fault = fault
        if chance.random() < 0.3:  # an answer may take its time
            proxy.before = lambda request: proxy.closed.wait(chance.uniform(0, 0.02)) and None
        try:
            got = read(ds, chance)
        finally:
            proxy.fault = lambda request: None
        check(got, want, True, f"{proxy.faults} faults")
        check(outcomes(iter(ds)), reference_outcomes(ds, 1), True, "the next epoch")


def pipeline(chance, proxy):
    kind = chance.choice([k for k in KINDS if "indexed" not in k])
    make, reader = KINDS[kind]
    urls = []
    for i in range(chance.randint(1, 3)):
        values = [i * 1000 + row for row in range(chance.randint(1, 40))]
        urls.append(proxy.put(f"{i}", make(values)))
    ds = with_steps(reader(urls, num_parallel_reads=chance.choice([None, 2])), chance, 2)
    return ds.with_options(hr.Options(retries=chance.choice([0, 1]), timeout=2.0))


def read(ds, chance):
    """A pass; its position is kept if the store fails, and a state continues there as well."""
    got, it, raised, slow = [], None, 0, chance.random() < 0.2
    state, place = None, 0
    while True:
        try:
            if it is None:
                it = ds.iterator(state=state) if state is not None else again(ds, place)
                del got[place:]
            outcome = one(it)
            if outcome is None:
                break
            got.append(outcome)
            if slow:
                time.sleep(0.005)  # a trainer that takes its time: what was asked for ahead waits
            if chance.random() < 0.1:
                state, place = json.loads(json.dumps(it.state())), len(got)
            if chance.random() < 0.03:
                it.close()
                it = None
        except hr.TransportError:
            raised += 1
            assert raised < 2000, "it never gets on"
    it.close()
    return got


def again(ds, place):
    """A pass from the start, of the same epoch."""
    ds._epochs.next = 0
    return iter(ds)
