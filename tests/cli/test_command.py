"""The command as people start it: `python -m headrace`, -h, -V, completion, metrics; and stats().scalars()."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import headrace as hr


def run(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-m", "headrace", *arguments], capture_output=True, text=True, timeout=300, check=False, **more
    )


def test_the_module_is_the_command():
    done = run("-V")
    assert done.stdout.startswith(f"headrace {hr.__version__} (Python ")
    shown = run("-h")
    assert shown.returncode == 0
    assert "Usage: headrace" in re.sub(r"\s+", " ", shown.stdout)
    assert run("inspect", "-h").stdout == run("inspect", "--help").stdout


def test_shells_can_complete():
    shown = run("--show-completion", "bash", env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert shown.returncode == 0
    assert "complete -o default" in shown.stdout and "headrace" in shown.stdout


def test_a_free_port_for_metrics_is_printed():
    server = subprocess.Popen(
        [sys.executable, "-m", "headrace", "serve", "--metrics-port", "0", "--token", "t"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        lines = [server.stdout.readline(), server.stdout.readline()]
        url = re.search(r"metrics on (http://127\.0\.0\.1:[1-9]\d*/metrics)", "".join(lines))[1]
        with urllib.request.urlopen(url, timeout=300) as answer:
            assert b"headrace_worker_rows_total" in answer.read()
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(300) == 0
        server.stdout.close()


def test_scalars_are_numbers_by_flat_names():
    it = iter(hr.Dataset.range(10).map(lambda x: x + 1).map(lambda x: x + 1, mode="eager").batch(4))
    list(it)
    scalars = it.stats().scalars()
    assert all(type(value) is float for value in scalars.values())
    assert scalars["headrace/rows"] == 10
    assert scalars["headrace/delivered"] == 3
    assert 0 <= scalars["headrace/starvation/share"] <= 1
    assert any(name.startswith("headrace/map(") and name.endswith("/busy_s") for name in scalars)
    assert {name.partition("/")[0] for name in it.stats().scalars("data/")} == {"data"}
    assert hr.Dataset.range(3).iterator().stats().scalars()["headrace/rows"] == 0
