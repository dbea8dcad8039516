"""Files that come next: opened ahead, many small ones at a time, and never as something that they are not."""

import random
import sys
import threading

import numpy as np
import pytest

import headrace as hr
from headrace.formats.shared.window import Fetched
from headrace.remote import coming
from headrace.remote import objects as remote
from headrace.remote.transport import InFlight, Transport

FILES = 24


@pytest.fixture
def urls(http):
    return [http.put(f"{i}", b"".join(b"%d\n" % (100 * i + j) for j in range(100))) for i in range(FILES)]


def numbers(ds):
    return [int(x) for x in ds]


def test_small_files_are_fetched_many_at_a_time(http, urls):
    together, most, lock = 0, 0, threading.Lock()
    several = threading.Event()

    def before(request):
        nonlocal together, most
        if not request.is_data:
            return
        with lock:
            together += 1
            most = max(most, together)
            if together == 4:
                several.set()
        several.wait(2 if int(request.path.strip("/")) > 1 else 0)  # the first ones go alone
        with lock:
            together -= 1

    http.proxy.before = before
    assert numbers(hr.TextLineDataset(urls).with_options(http.patient())) == list(range(100 * FILES))
    assert most >= 4
    assert sum(request.is_data for request in http.proxy.requests) == FILES


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_files_that_take_turns_are_asked_for_their_first_bytes_together(request, kind):
    store = request.getfixturevalue(kind)
    urls = [store.put(f"{i}", b"".join(b"%d\n" % (100 * i + j) for j in range(100))) for i in range(6)]
    asked, lock, together = set(), threading.Lock(), threading.Event()

    def before(each):
        if not each.is_data:
            return
        with lock:
            asked.add(each.path)
            if len(asked) == 4:
                together.set()
        assert together.wait(300), "none of them is answered before all four were asked"

    store.proxy.before = before
    ds = hr.TextLineDataset(urls, num_parallel_reads=4).with_options(store.patient())
    assert sorted(numbers(ds)) == list(range(600))
    assert sum(each.is_data for each in store.proxy.requests) == 6


def test_files_that_are_read_share_the_ranges_under_way():
    shared = InFlight()
    assert shared.share("a") == 8
    assert shared.share("b") == shared.share("a") == 4
    assert shared.spare("a", 3) == (3, 2)
    assert shared.spare("b", 4) == (7, 4)
    shared.leave("a")
    assert shared.spare("b", 4) == (4, 4)
    assert shared.share("b") == 8


def test_readers_of_one_file_on_several_threads_have_shares_of_their_own():
    shared, wrong, switched = InFlight(), [], sys.getswitchinterval()

    def read(reader):
        try:
            for _ in range(20_000):
                assert 2 <= shared.share(reader) <= 8
                shared.spare(reader, 3)
                shared.leave(reader)
        except BaseException as error:
            wrong.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switched)
    assert wrong == []


def test_the_bytes_of_a_window_are_those_of_the_file(http, monkeypatch):
    """Whatever is used of them at a time, within a range or over several."""
    monkeypatch.setattr(remote, "BLOCK", 1 << 12)
    chance = random.Random(5)
    data = np.frombuffer(chance.randbytes(50_001), np.uint8)
    url, via = http.put("a", data.tobytes()), Transport()
    for _ in range(30):
        at = chance.choice([0, chance.randrange(50_001), 50_001])
        window = Fetched(remote.open_remote(url, via), at, chance.choice([100, 1000, 1 << 12, 1 << 20]))
        while not window.final or len(window.data):
            before = len(window.data)
            if not window.final and (not before or chance.random() < 0.6):
                window.more()
                assert len(window.data) > before or window.final
            assert (window.data == data[window.offset : window.offset + len(window.data)]).all()
            assert window.final == (window.offset + len(window.data) == len(data)) or not window.data.size
            window.use(chance.choice([0, len(window.data) // 2, len(window.data)]))
        assert window.offset == len(data)


def test_a_file_replaced_before_it_is_opened_is_itself_or_an_error(http, urls):
    """Metadata that was requested ahead is of the old one: its rows come, or an error; never some of each."""
    it = iter(hr.TextLineDataset(urls).with_options(http.patient(retries=0)))
    got = [int(next(it)) for _ in range(100)]
    new = [b"%d\n" % (10_000 + j) for j in range(100)]
    for i in range(1, FILES):
        http.put(f"{i}", b"".join(new))
    whole = False
    while not whole:
        try:
            for number in it:
                got.append(int(number))
            whole = True
        except hr.TransportError as error:
            assert "replaced" in str(error)
        except hr.StateError as error:
            assert "has changed" in str(error)
            break
    for i in range(0, len(got), 100):
        part = got[i : i + 100]
        assert part in (list(range(i, i + len(part))), list(range(10_000, 10_000 + len(part))))
    assert len(got) == 100 * FILES or not whole


def test_an_answer_that_is_old_is_asked_for_again(http, urls, monkeypatch):
    monkeypatch.setattr(coming, "VALID_SECONDS", 0.0)
    assert numbers(hr.TextLineDataset(urls).with_options(http.patient())) == list(range(100 * FILES))
    assert http.proxy.asked("HEAD", "GET") > FILES


def test_a_file_that_is_missing_among_them_is_one_error(http, urls):
    wrong = [*urls[:3], f"{http.proxy.url}/none", *urls[3:]]
    with pytest.warns(hr.PipelineWarning, match="/none"):
        got = numbers(hr.TextLineDataset(wrong).with_options(http.patient()).ignore_errors())
    assert got == list(range(100 * FILES))


def test_nothing_stays_under_way_when_a_pass_is_closed(http, urls):
    held = threading.Event()
    http.proxy.before = lambda request: held.wait(300) if request.path != "/0" else None
    with iter(hr.TextLineDataset(urls).with_options(http.patient())) as it:
        assert int(next(it)) == 0
    held.set()
    http.proxy.before = lambda request: None
    assert numbers(hr.TextLineDataset(urls).with_options(http.patient())) == list(range(100 * FILES))


def test_a_pass_may_rely_on_what_was_said(http, urls, tmp_path):
    options = http.patient(remote_cache=str(tmp_path), remote_cache_valid=60)
    ds = hr.TextLineDataset(urls).with_options(options)
    want = numbers(ds)
    before = len(http.proxy.requests)
    assert numbers(ds) == want == list(range(100 * FILES))
    assert len(http.proxy.requests) == before
    http.put("3", b"7\n")
    assert numbers(ds) == want  # as was asked for
    asking = hr.TextLineDataset(urls).with_options(http.patient(remote_cache=str(tmp_path)))
    assert numbers(asking) == [*range(300), 7, *range(400, 100 * FILES)]
    with pytest.raises(ValueError, match="remote_cache_valid"):
        hr.Options(remote_cache_valid=-1)
