"""Files that are cut short, replaced, written to or removed while, and before, they are read."""

import json
import os
import tarfile
import zlib

import headrace as hr
from headrace.testing import difference, outcomes, reference_outcomes
from tests.chaos.files import Files, number
from tests.chaos.readers import one

HOW = ["cut", "cut to nothing", "replace", "replace by the same", "write over", "touch", "append", "remove"]
REFUSALS = (hr.HeadraceError, OSError, ValueError)
UNPACKED_WHOLE = (EOFError, OSError, zlib.error, tarfile.TarError)
"""What the reference executor raises for compressed data and archives that are not whole: it unpacks a file at once."""


def change(files, i, how, chance):
    path = files.paths[i]
    if how == "cut":
        os.truncate(path, chance.randrange(path.stat().st_size))
    elif how == "cut to nothing":
        os.truncate(path, 0)
    elif how in ("replace", "replace by the same"):
        new = path.with_suffix(".new")
        new.write_bytes(files.content(i, generation=how == "replace"))
        new.replace(path)
    elif how == "write over":
        with path.open("r+b") as file:
            file.write(files.content(i, generation=1))
    elif how == "touch":
        path.touch()
    elif how == "append":
        with path.open("ab") as file:
            file.write(chance.choice([b"\0" * 9, b"x", path.read_bytes()[:30]]))
    else:
        path.unlink()


def rows_of(files, results):
    """The numbers of rows, as far as they have one; None where there is an error."""
    rows = []
    for kind, value in results:
        try:
            rows.append(number(files.kind, value) if kind == "value" else None)
        except (ValueError, IndexError):
            rows.append(repr(value))
    return rows


def changed(chance, folder, kind=None, how=None):
    files = Files(chance, folder, kind)
    known = [v for i in range(len(files.paths)) for v in files.values(i)]
    cut = chance.randint(0, len(known))
    it = iter(files.dataset())
    got = outcomes(it, cut)
    assert rows_of(files, got) == known[:cut]
    state = json.loads(json.dumps(it.state()))
    i, how = chance.randrange(len(files.paths)), how or chance.choice(HOW)
    about = f"{files.kind}, file {i} of {files.counts} after {cut} rows: {how}"
    before = files.paths[i].read_bytes()
    change(files, i, how, chance)
    same = files.paths[i].exists() and files.paths[i].read_bytes() == before
    while (outcome := one(it)) is not None:
        got.append(outcome)
        assert len(got) < 2000, "no end"
    ahead = sum(files.counts[:i])
    begun = ahead < cut < ahead + files.counts[i]
    if same:
        assert rows_of(files, got) == known, f"{about}: {rows_of(files, got)}"
    else:
        check_rows(files, i, got, how, about, begun=begun)
    check_state(files, state, known[cut:], same, about)
    check_new_pass(files, about)


def check_rows(files, i, got, how, about, *, begun):
    """The other files have their rows; the changed one those of before, or, if it was not begun, those of now."""
    ahead, behind = sum(files.counts[:i]), sum(files.counts[i + 1 :])
    rows = rows_of(files, got)
    first, part, last = rows[:ahead], rows[ahead : len(rows) - behind], rows[len(rows) - behind :]
    assert first == [v for k in range(i) for v in files.values(k)], f"{about}: {rows}"
    assert last == [v for k in range(i + 1, len(files.counts)) for v in files.values(k)], f"{about}: {rows}"
    old = iter(files.values(i))
    of_old = all(any(v == each for each in old) for v in part if v is not None)
    if of_old and (None in part or len(part) == files.counts[i]):
        return
    assert not begun or how == "write over", f"{about}: neither its rows nor an error, {part}"
    if not begun:
        alone = read_anew(files, i)
        ahead_of_reader = how == "write over" and mixed(files, i, part)
        assert alone is None or part == rows_of(files, alone) or ahead_of_reader, f"{about}: {part}"


def mixed(files, i, part):
    """Whether each row is one of before or of now: files are read ahead, and this one was while it changed."""
    return {*part} <= {None, *files.values(i), *files.values(i, generation=1)}


def read_anew(files, i):
    """What the reference executor makes of the file as it is now; None where it cannot be opened as a dataset."""
    try:
        return reference_outcomes(files.dataset(only=i))
    except (*REFUSALS, *UNPACKED_WHOLE):
        return None


def check_state(files, state, rest, same, about):
    """A state is good for the same files, and refused for others."""
    try:
        got = rows_of(files, outcomes(files.dataset().iterator(state=state)))
    except REFUSALS as error:
        assert not same, f"{about}: a state is refused though the files are the same: {error}"
        return
    assert same and got == rest, f"{about}: resumed in another file, {got}"


def check_new_pass(files, about):
    """What is there now, both executors read alike."""
    try:
        ds = files.dataset()
    except REFUSALS as error:
        assert str(files.folder) in str(error), f"{about}: which file? {error}"
        return
    got = outcomes(iter(ds), 2000)
    if files.kind == "samples" and "error" in dict(got):
        return  # Python's reader of archives says nothing of a header that is cut short
    try:
        reason = difference(got, reference_outcomes(ds, limit=2000))
    except UNPACKED_WHOLE:
        empty = any(path.exists() and not path.stat().st_size for path in files.paths)  # which has no rows
        whole = files.kind == "samples"  # all content is there, and what is cut short is the padding behind it
        reason = None if empty or whole or "error" in dict(got) else "no error"
    assert reason is None, f"{about}: a new pass, {reason}"
