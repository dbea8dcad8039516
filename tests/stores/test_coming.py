"""Files that come next: opened ahead, many small ones at a time, and never as something that they are not."""

import threading

import pytest

import headrace as hr
from headrace.records import coming

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


def test_a_file_replaced_before_it_is_opened_is_itself_or_an_error(http, urls):
    """What was asked ahead is of the old one: its rows come, or it is told that they do not; never some of each."""
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
    monkeypatch.setattr(coming, "VALID", 0.0)
    assert numbers(hr.TextLineDataset(urls).with_options(http.patient())) == list(range(100 * FILES))
    assert http.proxy.asked("HEAD", "GET") > FILES


def test_a_file_that_is_missing_among_them_is_one_error(http, urls):
    wrong = [*urls[:3], f"{http.proxy.url}/none", *urls[3:]]
    got = numbers(hr.TextLineDataset(wrong).with_options(http.patient()).ignore_errors())
    assert got == list(range(100 * FILES))


def test_nothing_stays_under_way_when_a_pass_is_closed(http, urls):
    held = threading.Event()
    http.proxy.before = lambda request: held.wait(5) if request.path != "/0" else None
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
