"""The HTML report in a real browser: no console error, all controls work."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr
from headrace.observe.report import load_record, page
from headrace.remote.counters import StoreCounters

D = hr.Dataset
CHROMIUM = shutil.which("chromium")
HEADRACE = str(Path(sys.executable).with_name("headrace"))


def recorded(path, threads=None):
    """A finished pass with a timeline of made-up times: tests do not depend on how long it took."""
    it = iter(D.range(200).map(lambda x: len(str(x)), threads, mode="eager").shuffle(20, seed=1).batch(8))
    it.record(3600.0, calls=True)
    list(it)
    it.report(path)
    it.close()
    made = load_record(path)
    stages = [[s["rows"], s["bytes"], s["busy_s"], s["waiting_s"]] for s in made["stages"]]
    made["samples"] = [
        {
            "time": 1000.0 + i,
            "clock": float(i),
            "delivered": i,
            "waited_s": i / 4,
            "computed_s": i / 2,
            "memory": 1000 * i,
            "stages": [
                [r, b, i * 0.3 * (k + 1) / len(stages), 0.0, 0.0, i % 5] for k, (r, b, _, _) in enumerate(stages)
            ],
        }
        for i in range(600)
    ]
    ranks = {"text": "the straggler is rank 1", "straggler": 1, "names": ["rank 0", "rank 1"], "steps": 600}
    made["ranks"] = {**ranks, "waiting": [[0.1] * 60, [0.7] * 60]}
    counters = StoreCounters()
    for milliseconds in (3, 5, 40, 300):
        counters.add(milliseconds * 1_000_000, 1000)
    counters.cached(3, 1)
    counters.retried()
    made["store"] = counters.report()
    path.write_text(json.dumps(made))
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    first, second = recorded(folder / "a.json"), recorded(folder / "b.json", 2)
    for names in (["a"], ["a", "b"]):
        files = [folder / f"{name}.json" for name in names]
        result = subprocess.run(
            [HEADRACE, "report", *files, "-o", folder / f"{''.join(names)}.html"], capture_output=True, check=False
        )
        assert result.returncode == 0, result.stderr
    assert first.exists() and second.exists()
    return folder


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: make servers")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(browser, request):
    def open_page(path, **about):
        context = browser.new_context(**about)
        request.addfinalizer(context.close)
        tab = context.new_page()
        tab.errors = []
        tab.requests = []
        tab.on("console", lambda message: message.type == "error" and tab.errors.append(message.text))
        tab.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.on("request", lambda asked: tab.requests.append(asked.url))
        tab.goto(path.as_uri())
        return tab

    return open_page


def test_ten_minutes_take_less_than_two_megabytes(pages):
    assert (pages / "a.html").stat().st_size < 2_000_000
    assert "{{DATA}}" not in (pages / "a.html").read_text()


def test_text_of_a_pipeline_cannot_end_the_script(tmp_path):
    made = load_record(recorded(tmp_path / "x.json"))
    made["plan"] = "</script><script>alert(1)</script>"
    assert "</script><script>alert" not in page([made])


def test_the_controls_work(pages, opened):
    tab = opened(pages / "a.html")
    nodes = tab.locator(".node")
    assert nodes.count() == tab.locator("#stages tr[data-stage]").count() >= 4
    nodes.nth(1).click()
    assert "rows in" in tab.locator("#details").inner_text()
    assert tab.locator("#stages tr.selected").count() == 1
    nodes.nth(0).hover()
    assert tab.locator("#tip").is_visible() and "busy" in tab.locator("#tip").inner_text()
    everything = tab.locator("#range").inner_text()
    assert everything == "0.00 to 599.00 s"
    tab.locator("#zoom-in").click()
    assert tab.locator("#range").inner_text() == "149.75 to 449.25 s"
    tab.locator("#zoom-out").click()
    assert tab.locator("#range").inner_text() == everything
    tab.locator("#chart").hover()
    tab.mouse.wheel(0, -100)
    tab.wait_for_function("document.getElementById('range').textContent !== '0.00 to 599.00 s'")
    tab.locator("#zoom-all").click()
    assert tab.locator("#range").inner_text() == everything
    tab.locator("#chart").hover(position={"x": 300, "y": 5})
    assert re.fullmatch(r"consumer waits, \d+\.\d\d s: 25 % of the time", tab.locator("#tip").inner_text())
    assert tab.errors == [] and tab.requests == [(pages / "a.html").as_uri()]


def test_the_parts_of_the_first_wait_and_the_slowest_calls_are_shown(pages, opened):
    tab = opened(pages / "a.html")
    tab.locator("#first .parts div").last.hover()
    assert re.fullmatch(r"fill: \d\.\d+ s of \d\.\d+ s", tab.locator("#tip").inner_text())
    assert tab.locator("#slowest tr").count() == 11
    assert "p95 ms" in tab.locator("#stages").inner_text()
    assert tab.errors == []


def test_queues_and_steps_are_lanes_of_the_timeline(pages, opened):
    tab = opened(pages / "ab.html")
    text = tab.locator("#chart").inner_html()
    assert "steps" in text and "<path" not in text  # the first run has no threads
    made = load_record(pages / "b.json")
    made["explanation"] = "threads"
    for sample in made["samples"]:
        sample["memory"] = 0
    (pages / "b.html").write_text(page([made]))
    tab = opened(pages / "b.html")
    assert "memory" in tab.locator("#chart").inner_html()
    assert "1e-9" not in tab.locator("#chart").inner_html()  # if nothing was in use, there is no peak
    lanes = ["waits", "steps", *(stage["operation"] for stage in made["stages"])]
    assert tab.locator("#chart path").count() == sum(stage["threaded"] for stage in made["stages"]) > 0
    tab.locator("#chart").hover(position={"x": 300, "y": lanes.index("map") * 36 + 20})
    assert re.fullmatch(r"map\(.*\), \d+\.\d\d s: .*, \d ready", tab.locator("#tip").inner_text())
    tab.locator("#chart").hover(position={"x": 300, "y": 36 + 20})
    assert "elements/s" in tab.locator("#tip").inner_text()
    assert tab.errors == []


def test_answers_of_stores_are_a_histogram(pages, opened):
    tab = opened(pages / "a.html")
    assert "4 answers with 4.0 kB, 0 failed, 1 asked again" in tab.locator("#store").inner_text()
    assert "had 3 of 4 ranges" in tab.locator("#store").inner_text()
    assert tab.locator("#store .bars > div").count() == 8  # from 4 ms to 512 ms
    tab.locator("#store .bars > div").last.hover()
    assert tab.locator("#tip").inner_text() == "1 answers in 256.00 to 512.00 ms"
    assert tab.errors == []


def test_ranks_are_a_heat_map(pages, opened):
    tab = opened(pages / "a.html")
    assert tab.locator("#heat rect").count() == 120
    tab.locator("#heat").hover(position={"x": 500, "y": 30})
    assert re.fullmatch(r"rank 1, step \d+: 70 % waiting", tab.locator("#tip").inner_text())
    assert "step 600" in tab.locator("#heat").inner_html()
    assert tab.errors == []


def test_two_runs_are_compared(pages, opened):
    tab = opened(pages / "ab.html")
    shown = tab.locator("#compared").inner_text()
    assert "elements a second" in shown and "×" in shown
    assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_on_a_phone(pages, opened, scheme):
    tab = opened(pages / "ab.html", viewport={"width": 390, "height": 844}, color_scheme=scheme)
    wide = tab.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390 and tab.errors == []
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 21, 28)"}[scheme]


@pytest.mark.parametrize("name", ["run.html", "run.json", "run.trace.json"])
def test_a_pass_that_has_not_begun_has_a_report(tmp_path, name):
    hr.Dataset.range(2).iterator().report(tmp_path / name)
    assert (tmp_path / name).stat().st_size


def test_notebooks_show_a_small_view():
    it = iter(D.range(10).batch(2))
    list(it)
    assert "batch(batch_size=2)" in it._repr_html_() and "<meter" in it._repr_html_()
    feed = iter(D.range(10).batch(2).to_torch())
    next(feed)
    assert "waited" in feed._repr_html_()
