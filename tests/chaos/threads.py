"""Ctrl-C, forks and several threads in the middle of a pass."""

import json
import os
import signal
import threading

from headrace.testing import outcomes, reference_outcomes
from tests.chaos.pipelines import any_pipeline, check
from tests.chaos.readers import one


def interrupted(chance, folder):
    """Ctrl-C may hit any statement: a resume from the last state has every row once."""
    ds, ordered = any_pipeline(chance, folder)
    want = reference_outcomes(ds)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    got, state, it, times = [], None, None, chance.randint(1, 8)
    ds._epochs.next = 0
    while True:
        kept = len(got)
        try:
            if it is None:
                it = ds.iterator(state=state) if state is not None else iter(ds)
            if times:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.02))
            outcome = one(it)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if outcome is None:
                break
            got.append(outcome)
            state = json.loads(json.dumps(it.state()))
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            times = max(0, times - 1)
            del got[kept:]
            if it is not None and (state is None or chance.random() < 0.7):
                ds._epochs.next = 0
                it.close()
                it = None
            elif it is not None:
                it.restore(state)
    it.close()
    check(got, want, ordered, "after interrupts")


def forked(chance, folder):
    """A forked pass continues in both processes."""
    ds, ordered = any_pipeline(chance, folder)
    want = reference_outcomes(ds)
    it = iter(ds)
    got = outcomes(it, chance.randint(0, len(want)))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            check(got + outcomes(it), want, ordered, "in the child")
            it.close()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    here = got + outcomes(it, chance.randint(0, len(want)))
    state = json.loads(json.dumps(it.state()))
    it.close()
    check(here + outcomes(ds.iterator(state=state)), want, ordered, "in the parent")
    assert os.waitpid(pid, 0)[1] == 0, "the child failed"


def shared(chance, folder):
    """Several threads take rows of one iterator, and one of them states."""
    ds, ordered = any_pipeline(chance, folder)
    want = reference_outcomes(ds)
    it = iter(ds)
    got, states, wrong = [], [], []
    stop = chance.randint(0, len(want)) if chance.random() < 0.3 else None

    def take():
        try:
            while stop is None or len(got) < stop:
                outcome = one(it)
                if outcome is None:
                    return
                got.append(outcome)
        except BaseException as error:
            wrong.append(error)

    takers = [threading.Thread(target=take) for _ in range(chance.randint(2, 4))]
    for taker in takers:
        taker.start()
    while any(taker.is_alive() for taker in takers) and len(states) < 5:
        states.append(json.loads(json.dumps(it.state())))
    for taker in takers:
        taker.join()
    assert not wrong, wrong
    states.append(json.loads(json.dumps(it.state())))
    rest = outcomes(it) if stop is not None and chance.random() < 0.5 else []
    if stop is None or rest:
        check(got + rest, want, False, "by several threads")
    it.close()
    check(got + outcomes(ds.iterator(state=states[-1])), want, False, "resumed at the end")
    for state in states[:-1] if ordered else []:
        check(outcomes(ds.iterator(state=state)), want[state["delivered"] :], True, f"resumed at {state['delivered']}")
