"""Threads that share one source: each thing goes to one of them, the first ones first, and none waits for nothing."""

import threading
from itertools import count

import pytest

from headrace.execute.stages.shared_source import Dealer


class Counted:
    """A source of numbers, up to some number, that notes whether two threads ask at a time."""

    def __init__(self, stop, *, fails_at=None):
        self._numbers = count()
        self._stop = stop
        self._fails_at = fails_at
        self._asked = threading.Lock()

    def fetch(self, wait):
        assert self._asked.acquire(blocking=False), "two threads at a time"
        try:
            number = next(self._numbers)
            if number == self._fails_at:
                raise OSError("gone")
            return number if number < self._stop else None
        finally:
            self._asked.release()


def test_each_number_goes_to_one_thread_until_there_are_no_more():
    source, dealer, taken = Counted(5000), Dealer(), []

    def run():
        while (number := dealer.take(source.fetch)) is not None:
            taken.append(number)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert sorted(taken) == list(range(5000))


@pytest.mark.parametrize(("seconds", "order"), [(-1, ["waits", "fetches"]), (0.001, ["fetches", "waits"])])
def test_the_fetching_thread_keeps_the_last_unless_it_cannot_wait_and_fetches_only_for_itself(seconds, order):
    dealer, asked, go_on, got = Dealer(), threading.Event(), threading.Semaphore(0), {}
    numbers = count()

    def fetch(wait):
        asked.set()
        go_on.acquire()
        return next(numbers)

    def run(name, seconds):
        got[name] = dealer.take(fetch, seconds)

    how = {"fetches": seconds, "waits": -1}
    threads = {item[0]: threading.Thread(target=run, args=item) for item in how.items()}
    threads["fetches"].start()
    assert asked.wait(300)
    threads["waits"].start()
    while dealer._waiting == 0 and threads["waits"].is_alive():
        pass
    for number, name in enumerate(order):
        go_on.release()
        threads[name].join(300)
        assert got == {each: i for i, each in enumerate(order[: number + 1])}


def test_who_may_not_wait_long_goes_away_empty_handed_and_an_error_wakes_the_others():
    dealer, asked, go_on, raised = Dealer(), threading.Event(), threading.Event(), []

    def fetch(wait):
        asked.set()
        assert go_on.wait(300)
        raise OSError("gone")

    def run():
        try:
            dealer.take(fetch)
        except OSError as error:
            raised.append(str(error))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert asked.wait(300)
    assert dealer.take(fetch, 0.001) is None
    go_on.set()
    for thread in threads:
        thread.join(300)
    assert raised == ["gone"] * 3


@pytest.mark.parametrize("fails_at", [0, 7])
def test_an_error_goes_to_the_fetching_thread(fails_at):
    source, dealer = Counted(10, fails_at=fails_at), Dealer()
    assert [dealer.take(source.fetch) for _ in range(fails_at)] == list(range(fails_at))
    with pytest.raises(OSError, match="gone"):
        dealer.take(source.fetch)
    assert dealer.take(source.fetch) == fails_at + 1
