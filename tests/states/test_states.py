"""States that earlier versions took lead to the same elements in this one."""

import numpy as np
import pytest

import headrace as hr
from headrace.testing import outcomes
from tests.states.corpus import LIMIT, digest, load, states_of, unpack
from tests.states.pipelines import PIPELINES, UNORDERED, in_working_directory

FILES, ENTRIES = load()

LOST = {("conformance: rebatch whole batches to sizes", "ed900c2")}
"""Pipelines and versions that lost the last failure, because it was in a dropped remainder: now it is raised."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the corpus; the pipelines add those that they make themselves."""
    path = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        unpack(FILES)
    return path


@pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry['pipeline']} ({entry['commit']})" for entry in ENTRIES])
def test_a_state_of_an_earlier_version_is_restored(entry, folder, monkeypatch):
    monkeypatch.chdir(folder)
    in_working_directory(monkeypatch, entry["pipeline"])
    ds = PIPELINES[entry["pipeline"]]()
    for state, rest in states_of(entry):
        with ds.iterator(state=state) as it:
            got = outcomes(it, LIMIT - state["delivered"])
        if (entry["pipeline"], entry["commit"]) in LOST and not state["over"]:
            assert got.pop()[0] == "error"
        place = f"{state['delivered']} elements into epoch {state['epoch']}"
        assert digest(got, ordered=not entry["pipeline"].startswith(UNORDERED)) == rest, place


def test_every_pipeline_of_the_corpus_is_still_there():
    assert {entry["pipeline"] for entry in ENTRIES} <= PIPELINES.keys()


def test_a_digest_tells_values_types_order_and_failures_apart():
    one, two = ("value", np.int64(1)), ("value", np.int64(2))
    different = [[one, two], [two, one], [one], [one, ("error", "text")], [("value", np.int32(1)), two], []]
    assert len({digest(got, ordered=True) for got in different}) == len(different)
    assert digest([one, two], ordered=False) == digest([two, one], ordered=False) != digest([one], ordered=False)


def test_a_state_of_a_later_pass_knows_the_files_of_that_pass(tmp_path):
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n" * 100)
    ds = hr.TextLineDataset(path).skip(1).batch(2)
    with iter(ds) as it:
        next(it)
        before = it.state()
    with iter(ds) as it:
        next(it)
        assert it.state()["plan"] == before["plan"]
    path.write_text("a\nb\nd\n" * 101)
    with iter(ds) as it:
        next(it)
        now = it.state()
    assert [a == b for a, b in zip(before["plan"], now["plan"], strict=True)] == [True, False, True, True]
