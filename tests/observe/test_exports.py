"""Exports: scalars, Prometheus, OpenTelemetry, Chrome traces, and the socket of headrace top."""

import json
import os
import subprocess
import sys
import time
import types
from pathlib import Path
from urllib.request import urlopen

import pytest

import headrace as hr
from headrace.observe.local_socket import ask_process, socket_path
from headrace.observe.recorder import MAX_SAMPLES, Recorder

D = hr.Dataset
HEADRACE = str(Path(sys.executable).with_name("headrace"))


def read_through():
    it = iter(D.range(40).map(lambda x: len(str(x)), mode="eager").batch(4))
    assert len(list(it)) == 10
    return it


def test_scalars_are_flat_numbers():
    found = hr.observe.scalars(read_through(), prefix="data/")
    assert found["data/delivered"] == 10
    assert found["data/stage/1_map/rows"] == 40
    assert all(isinstance(value, float) and name.startswith("data/") for name, value in found.items())


def test_scalars_go_into_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", types.ModuleType("notf"))  # do not load TensorFlow
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        for name, value in hr.observe.scalars(read_through()).items():
            writer.add_scalar(name, value, 7)
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    (event,) = events.Scalars("headrace/delivered")
    assert (event.step, event.value) == (7, 10.0)


def test_prometheus_reads_local_passes():
    it = read_through()
    with hr.observe.serve_metrics() as server:
        text = urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    assert f'headrace_delivered_total{{pass="{it._serial}"}} 10\n' in text
    assert f'headrace_stage_rows_total{{pass="{it._serial}",stage="1_map"}} 40\n' in text
    kinds = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))


def test_opentelemetry_reads_local_passes():
    pytest.importorskip("opentelemetry.metrics")
    made = {}

    class Meter:
        """What the API asks of a meter, kept to be called here."""

        def create_observable_counter(self, name, callbacks, description):
            made[name] = callbacks[0]

        create_observable_gauge = create_observable_counter

    it = read_through()
    hr.observe.export_to_opentelemetry(Meter())
    values = {o.attributes["pass"]: o.value for o in made["headrace.delivered"](None)}
    assert values[str(it._serial)] == 10


def test_the_socket_of_top_is_private_and_goes_away():
    it = read_through()
    with hr.observe.serve_top() as server:
        assert server.path.stat().st_mode & 0o777 == 0o600
        assert server.path.parent.stat().st_mode & 0o077 == 0
        found = ask_process(os.getpid())
        assert next(each for each in found if each["pass"] == it._serial)["delivered"] == 10
    assert not server.path.exists()
    with pytest.raises(hr.HeadraceError, match=r"serve_top\(\)"):
        ask_process(os.getpid())


def test_top_shows_a_running_process():
    with hr.observe.serve_top():
        it = read_through()
        result = subprocess.run(
            [HEADRACE, "top", str(os.getpid()), "--count", "1"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "160"},
        )
        assert result.returncode == 0, result.stderr
        assert "batch(batch_size=4)" in result.stdout and "starved" in result.stdout
        del it
    assert not socket_path(os.getpid()).exists()


def test_a_trace_counts_time_as_torch_profiler_does(tmp_path):
    it = iter(D.range(40).batch(4))
    it.record(60)
    list(it)
    it.report(tmp_path / "plain.trace.json")
    base = 1_700_000_000_000_000_000
    (tmp_path / "torch.json").write_text(json.dumps({"baseTimeNanoseconds": base, "traceEvents": []}))
    it.report(tmp_path / "aligned.trace.json", align_with=tmp_path / "torch.json")
    plain, aligned = (json.loads((tmp_path / f"{n}.trace.json").read_text()) for n in ("plain", "aligned"))
    starts = [[e["ts"] for e in made["traceEvents"] if e["ph"] == "X"] for made in (plain, aligned)]
    assert starts[0] and abs(starts[0][0] / 1e6 - time.time()) < 600
    assert starts[0][0] - starts[1][0] == pytest.approx(base / 1e3)
    assert aligned["baseTimeNanoseconds"] == base
    threads = [e["args"]["name"] for e in plain["traceEvents"] if e["name"] == "thread_name"]
    assert threads[:3] == ["consumer", "range(start=0, stop=40)", "batch(batch_size=4)"]
    it.close()


def test_a_timeline_has_a_fixed_size():
    it = iter(D.range(4))
    recorder = Recorder(it, 3600.0)
    for _ in range(3 * MAX_SAMPLES):
        recorder.take(it)
    assert MAX_SAMPLES // 4 < len(recorder.samples()) < MAX_SAMPLES
    recorder.close()


def test_a_recorder_ends_with_its_iterator():
    it = iter(D.range(4))
    it.record(3600.0)
    thread = it._recorder._thread
    del it
    thread.join(300)
    assert not thread.is_alive()


def test_reports_have_known_endings(tmp_path):
    with pytest.raises(ValueError, match=r"\.html, \.json or \.trace\.json, not run\.txt"):
        read_through().report(tmp_path / "run.txt")
    (tmp_path / "other.json").write_text("{}")
    result = subprocess.run([HEADRACE, "report", tmp_path / "other.json"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "no record" in result.stderr
