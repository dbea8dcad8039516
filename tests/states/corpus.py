"""The corpus of states: how it is kept, and the command that adds to it.

`python -m tests.states.corpus` takes states of every pipeline that has none yet and appends them to `corpus.json`, with
the last commit that changed `src`. The corpus is only ever appended to: states that users have saved cannot be taken
again either. Remove an entry only if a release says that its states are refused.
"""

import base64
import contextlib
import hashlib
import json
import subprocess
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.iterator import Epochs, Iterator
from headrace.plan.structure import flatten
from headrace.testing import outcomes
from tests.states.pipelines import CONFORMANCE, EMBEDDED, PIPELINES, UNORDERED, in_working_directory

CORPUS = Path(__file__).parent / "corpus.json"
LIMIT = 1000
"""Outcomes of a pass that are looked at."""


def load():
    """The files and the entries of the corpus; none if there is no corpus."""
    if not CORPUS.exists():
        return {}, []
    files, *entries = json.loads(CORPUS.read_text())
    return files, entries


def store(files, entries):
    """Write the corpus, an entry a line."""
    lines = [json.dumps(part, separators=(",", ":"), sort_keys=True) for part in (files, *entries)]
    CORPUS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def unpack(files):
    """Write the corpus's files into the working directory."""
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(zlib.decompress(base64.b85decode(content)))


def pack():
    """Those files of the working directory that the corpus keeps."""
    found = {path for pattern in EMBEDDED for path in Path().glob(pattern)}
    every = {inner for path in found for inner in ([path] if path.is_file() else path.rglob("*")) if inner.is_file()}
    return {str(path): base64.b85encode(zlib.compress(path.read_bytes(), 9)).decode() for path in sorted(every)}


VARYING = ("epoch", "delivered", "over", "marks", "crc")
"""The parts that each state has for itself, in the order of the corpus; the rest is in a dict after them."""


def states_of(entry):
    """The states of an entry as they were taken, each with the digest of what comes after it."""
    for rest, *varying, others in entry["states"]:
        yield {**entry["common"], **dict(zip(VARYING, varying, strict=True)), **others}, rest


def compact(taken):
    """An entry of pairs of a state and a digest: what all states share is kept once."""
    first = taken[0][0]
    same = {key for key in first if key not in VARYING and all(state.get(key) == first[key] for state, _ in taken)}
    states = []
    for state, rest in taken:
        others = {key: part for key, part in state.items() if key not in same and key not in VARYING}
        states.append([rest, *(state[key] for key in VARYING), others])
    return {"common": {key: first[key] for key in same}, "states": states}


def digest(got, *, ordered):
    """A digest of outcomes: values with their types and bits, errors by their place alone."""
    each = [hashlib.blake2b(repr(_shown(outcome)).encode(), digest_size=8).digest() for outcome in got]
    return hashlib.blake2b(b"".join(each if ordered else sorted(each)), digest_size=6).hexdigest()


def _shown(outcome):
    kind, value = outcome
    if kind == "error":
        return "error"
    return type(value).__name__, [_leaf(leaf) for leaf in flatten(value)[1]]


def _leaf(leaf):
    if isinstance(leaf, hr.Ragged):
        return "ragged", _leaf(leaf.values), _leaf(leaf.offsets)
    if isinstance(leaf, np.ndarray | np.generic):
        array = np.asarray(leaf)
        shown = array.tolist() if array.dtype.hasobject else array.tobytes()
        return type(leaf).__name__, array.dtype.str, array.shape, shown
    return type(leaf).__name__, leaf


def cuts(got, *, every):
    """Where states are taken: in the middle, at the end, after the first failure; with `every` before these, too."""
    failed = next((i for i, (kind, _) in enumerate(got) if kind == "error"), len(got))
    places = {1, len(got) // 2, len(got) - 1, failed + 1} | ({0, failed, len(got)} if every else set())
    return sorted(places & set(range(len(got) + 1)))


def take(name, build):
    """Take states of a pipeline in its first two epochs, and check that they lead to what an unbroken pass gives."""
    ds = build()
    ordered = not name.startswith(UNORDERED)
    taken = []
    for epoch in range(2):
        with Iterator(ds._node, Epochs(next=epoch)) as it:
            got = outcomes(it, LIMIT)
        for cut in cuts(got, every=name.startswith(CONFORMANCE)) if epoch == 0 else [len(got) // 2]:
            with Iterator(ds._node, Epochs(next=epoch)) as it:
                outcomes(it, cut)
                state = json.loads(json.dumps(it.state()))
            with ds.iterator(state=state) as it:
                rest = digest(outcomes(it, LIMIT - cut), ordered=ordered)
            assert not ordered or rest == digest(got[cut:], ordered=True), f"{name} is not resumed exactly at {cut}"
            taken.append((state, rest))
        if epoch == 0 and len(got) < LIMIT:
            with Iterator(ds._node, Epochs(next=epoch)) as it:
                outcomes(it)
                taken.append((json.loads(json.dumps(it.state())), digest([], ordered=True)))
    return compact(taken)


def append():
    """Take states of all pipelines that have none, and add them and their files to the corpus."""
    files, entries = load()
    known = {entry["pipeline"] for entry in entries}
    command = ["git", "log", "-1", "--format=%h", "--", "src"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        unpack(files)
        for name, build in PIPELINES.items():
            if name in known:
                continue
            with pytest.MonkeyPatch.context() as own:
                in_working_directory(own, name)
                try:
                    entry = take(name, build)
                except (TypeError, pytest.skip.Exception) as reason:
                    print(f"{name}: left out, {reason}")
                    continue
            entries.append({"pipeline": name, "commit": commit, **entry})
        files = pack() | files
    store(files, entries)


if __name__ == "__main__":
    append()
