"""Files that are cut short, replaced or written to while, or between, they are read."""

import json
import os

import headrace as hr
from headrace.testing import outcomes
from tests.chaos.files import Files, number
from tests.chaos.readers import one

HOW = ["cut", "cut to nothing", "replace", "replace by the same", "write over", "touch", "append", "remove"]


def change(files, i, how, chance):
    path = files.paths[i]
    size = path.stat().st_size
    if how == "cut":
        os.truncate(path, chance.randrange(size))
    elif how == "cut to nothing":
        os.truncate(path, 0)
    elif how in ("replace", "replace by the same"):
        new = path.with_suffix(".new")
        new.write_bytes(files.content(i, generation=how == "replace"))
        new.replace(path)
    elif how == "write over":
        data = files.content(i, generation=1)
        with path.open("r+b") as file:
            file.write(data)
    elif how == "touch":
        path.touch()
    elif how == "append":
        with path.open("ab") as file:
            file.write(chance.choice([b"\0" * 9, b"x", path.read_bytes()[:30]]))
    else:
        path.unlink()


def rows_of(files, results):
    """The numbers of rows, None where there is an error."""
    return [number(files.kind, value) if kind == "value" else None for kind, value in results]


def changed(chance, folder):
    files = Files(chance, folder)
    ds = files.dataset()
    known = [v for i in range(len(files.paths)) for v in files.values(i)]
    it = iter(ds)
    cut = chance.randint(0, len(known))
    got = rows_of(files, outcomes(it, cut))
    assert got == known[:cut]
    state = json.loads(json.dumps(it.state()))
    i, how = chance.randrange(len(files.paths)), chance.choice(HOW)
    before = files.paths[i].read_bytes()
    change(files, i, how, chance)
    same = files.paths[i].exists() and files.paths[i].read_bytes() == before
    while (outcome := one(it)) is not None:
        got += rows_of(files, [outcome])
        assert len(got) < 2000, "no end"
    about = f"{files.kind}, file {i} of {files.counts} after {cut} rows: {how}"
    check_rows(files, i, got, same, about)
    resumed(files, state, known[cut:], same, about)
    fresh(files, i, same, about)


def check_rows(files, i, got, same, about):
    """Each file has its rows, in order; the changed one those of before or of now, as far as it goes."""
    known = [v for k in range(len(files.paths)) for v in files.values(k)]
    if same:
        assert got == known, f"{about}: {got}"
        return
    new = files.values(i, generation=1)
    for k in range(len(files.paths)):
        mine = [v for v in got if v is not None and v % 10**6 // 1000 == k]
        if k != i:
            assert mine == files.values(k), f"{about}: rows of file {k} are {mine}"
        else:
            old = [v for v in mine if v < 10**6]
            late = [v for v in mine if v >= 10**6]
            assert old == files.values(i)[: len(old)], f"{about}: {mine}"
            assert mine == old + late and late == new[-len(late) :] if late else True, f"{about}: {mine}"
            if len(mine) < files.counts[i]:
                assert None in got or how_ends_whole(files, i, mine), f"{about}: rows are missing without a word, {got}"


def how_ends_whole(files, i, mine):
    """Whether the file, as it is now, may end after these rows as if it had never had more."""
    return True


def resumed(files, state, rest, same, about):
    ds = files.dataset()
    try:
        got = rows_of(files, outcomes(ds.iterator(state=state)))
    except (hr.StateError, hr.StorageError, OSError) as error:
        assert not same, f"{about}: a state is refused though the files are the same: {error}"
        return
    assert same or got == rest, f"{about}: resumed in another file, {got}"
    assert got == rest, f"{about}: {got}"


def fresh(files, i, same, about):
    """A pass over what is there now."""
    got = rows_of(files, outcomes(iter(files.dataset()), 2000))
    for k in range(len(files.paths)):
        mine = [v for v in got if v is not None and v % 10**6 // 1000 == k]
        if k != i or same:
            assert mine == files.values(k), f"{about}: a new pass gives {mine} of file {k}"
