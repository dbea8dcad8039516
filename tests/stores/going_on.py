"""Continue after faults, by `next()` or by a state."""

import contextlib
import json

import headrace as hr


def read_on(it, resume=None, most=2000, each=lambda: None):
    """The rest of an iterator, and how many faults were raised; after some it continues as `resume(it, raised)`.

    `each()` is called before each row.
    """
    got, raised = [], 0
    while True:
        try:
            each()
            got.append(next(it))
        except StopIteration:
            it.close()
            return got, raised
        except hr.TransportError:
            raised += 1
            assert raised < most, "it never gets on"
            if resume is not None:
                it = resume(it, raised)


def resumed(ds, it):
    """Another iterator, from the state of this one; both ask what the files are, which may fail as well."""
    state = json.loads(json.dumps(asked_again(it.state)))
    it.close()
    return asked_again(lambda: ds.iterator(state=state))


def asked_again(work):
    """What `work` gives, once the store answers."""
    while True:
        with contextlib.suppress(hr.TransportError):
            return work()
