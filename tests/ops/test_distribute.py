"""distribute: every process as many steps as every other, one order for all, and resumes among more or fewer."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.ops.shared.rest import Rest
from headrace.testing import check_transformation

D = hr.Dataset


def shares(make, world, batch, uneven="drop"):
    """What each process gets."""
    return [list(make().distribute(rank, world, batch, uneven)) for rank in range(world)]


def in_order(steps):
    """Elements in the order in which steps are made, those of process 0 first."""
    rows = [part for step in zip_longest(*steps, fillvalue=()) for part in step]
    return [int(x) for part in rows for x in np.atleast_1d(part)]


def streamed(n=40):
    return D.from_generator(lambda: iter(range(n)), output_signature=hr.TensorSpec((), "int64"))


SOURCES = {
    "by number": lambda: D.range(40).shuffle(seed=1),
    "a filter": lambda: D.range(60).filter(lambda x: x % 3 > 0),
    "a shuffled stream": lambda: streamed().shuffle(7, seed=2),
    "epochs": lambda: D.range(13).shuffle(seed=3).repeat(3).enumerate().map(lambda i, x: 100 * x + i),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_steps_are_equal_and_elements_disjoint(source, world, batch):
    make = SOURCES[source]
    want = [int(x) for x in make()]
    got = shares(make, world, batch)
    steps = len(want) // (world * (batch or 1))
    assert {len(share) for share in got} == {steps}
    assert in_order(got) == want[: steps * world * (batch or 1)]


@pytest.mark.parametrize("source", SOURCES)
def test_wrapping_is_complete_and_goes_on_from_the_front(source):
    make = SOURCES[source]
    want = [int(x) for x in make()]
    got = shares(make, 3, 3, "wrap")
    assert len({len(share) for share in got}) == 1
    assert in_order(got) == want + want[: -len(want) % 9]


@pytest.mark.parametrize("source", SOURCES)
def test_padding_is_complete_and_every_element_counts_once(source):
    make = SOURCES[source]
    want = [int(x) for x in make()]
    got = shares(make, 4, 7, "pad")
    assert len({len(share) for share in got}) == 1
    assert in_order([[rows[mask] for rows, mask in share] for share in got]) == want
    assert all(rows.shape == mask.shape == (7,) for share in got for rows, mask in share)


def test_fewer_elements_than_processes():
    assert shares(lambda: D.range(2), 4, 1) == [[], [], [], []]
    assert in_order(shares(lambda: D.range(2), 4, 1, "wrap")) == [0, 1, 0, 1]
    assert [share[0][1].tolist() for share in shares(lambda: D.range(2), 4, 1, "pad")] == [
        [True],
        [True],
        [False],
        [False],
    ]
    assert shares(lambda: D.range(0), 2, 3, "pad") == shares(lambda: D.range(0), 2, 3, "wrap") == [[], []]


@pytest.mark.parametrize("uneven", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("source", ["by number", "a filter", "failures", "failures in turn", "dicts"])
def test_every_promise_is_kept(source, batch, uneven):
    def picky(x):
        if x % 7 == 3:
            raise ValueError(f"bad {x}")
        return x * 2

    more = {
        "failures": lambda: D.range(20).map(picky),
        "failures in turn": lambda: streamed(23).map(picky),
        "dicts": lambda: D.from_tensor_slices({"x": np.arange(30).reshape(10, 3), "s": [str(i) for i in range(10)]}),
    }
    check_transformation({**SOURCES, **more}[source]().distribute(1, 3, batch, uneven), cuts=6)


def test_a_process_reads_its_own_elements_alone_where_they_have_numbers():
    class Counting:
        read = 0

        def __len__(self):
            return 1000

        def __getitem__(self, i):
            Counting.read += 1
            return i

    list(D.from_torch(Counting()).distribute(1, 4, 10))
    assert Counting.read == 250


def test_explain_says_where_every_process_reads_everything():
    assert "every process reads all" in str(D.range(9).filter(lambda x: x > 2).distribute(0, 2, 2).explain())
    assert "every process" not in str(D.range(9).distribute(0, 2, 2).explain())


def test_seeds_must_be_the_same_in_all_processes():
    with pytest.raises(ValueError, match="shuffle needs a seed"):
        D.range(9).shuffle().distribute(0, 2, 2)
    D.range(9).shuffle().distribute(0, 1, 2)


def test_bad_arguments_are_named():
    for wrong, said in [
        ({"rank": 2, "world_size": 2}, "rank must be between 0 and 1"),
        ({"rank": 0}, "both rank and world_size"),
        ({"uneven": "cut"}, "uneven must be one of"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=said):
            D.range(9).distribute(**wrong)
    with pytest.raises(hr.NotIndexableError, match="index before it"):
        D.range(9).distribute(0, 1)[0]


def test_the_environment_says_which_process_it_is(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(D.range(4).distribute()) == [1, 3]
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match="RANK='1' and WORLD_SIZE='two'"):
        D.range(4).distribute()


def test_a_process_without_rank_and_group_is_told_that_it_gets_everything(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.warns(hr.PipelineWarning, match=r"all elements.*rank=0, world_size=1"):
        assert len(list(D.range(4).distribute())) == 4
    assert len(list(D.range(4).distribute(0, 1))) == 4


def taken(it, steps):
    return [step for _, step in zip(range(steps), it, strict=False)]


def resumed(make, cut, world, batch, states, uneven="drop"):
    """What `world` processes give from a state on, and that all give as many."""
    its = [make().distribute(rank, world, batch, uneven).iterator(state=states) for rank in range(world)]
    rest = [list(it) for it in its]
    assert len({len(share) for share in rest}) == 1
    return in_order(rest)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 8), (3, 5), (1, 16)])
@settings(max_examples=12)
@given(cut=st.integers(0, 12), sizes=st.tuples(*[st.sampled_from([None, 1, 2, 3])] * 2), teller=st.integers(0, 3))
def test_a_run_goes_on_among_more_or_fewer_processes(source, before, after, cut, sizes, teller):
    make = SOURCES[source]
    want = [int(x) for x in make()]
    its = [make().distribute(rank, before, sizes[0]).iterator() for rank in range(before)]
    first = in_order([taken(it, cut) for it in its])
    state = json.loads(json.dumps(its[teller % before].state()))
    for it in its:
        it.close()
    assert first == want[: len(first)]
    rest = [] if state["over"] else resumed(make, cut, after, sizes[1], state)
    assert rest == want[len(first) : len(first) + len(rest)]
    assert state["over"] or len(want) - len(first) - len(rest) < after * (sizes[1] or 1)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("before", "after"), [(4, 2), (4, 8), (3, 5), (2, 1)])
@settings(max_examples=12)
@given(steps=st.lists(st.integers(0, 9), min_size=8, max_size=8), sizes=st.tuples(*[st.sampled_from([1, 2, 3])] * 2))
def test_processes_at_different_steps_lose_and_repeat_nothing(source, before, after, steps, sizes):
    make = SOURCES[source]
    want = [int(x) for x in make()]
    its = [make().distribute(rank, before, sizes[0]).iterator() for rank in range(before)]
    first = in_order([taken(it, count) for it, count in zip(its, steps, strict=False)])
    state = json.loads(json.dumps(hr.merge_states([it.state() for it in its])))
    # … and from there once more, with the processes apart again.
    its = [make().distribute(rank, after, sizes[1]).iterator(state=state) for rank in range(after)]
    second = in_order([taken(it, count) for it, count in zip(its, steps[::-1], strict=False)])
    state = hr.merge_states([it.state() for it in its])
    third = [] if state["over"] else resumed(make, 0, 1, None, state)
    left = list(want)
    for x in first + second:
        left.remove(x)
    if not state["over"]:
        assert third == left


def test_a_state_of_a_repeat_behind_it_goes_on_among_others():
    def make(rank, world):
        return D.range(12).shuffle(seed=5).distribute(rank, world, 2).map(lambda x: x + 0).repeat(2)

    its = [make(rank, 2).iterator() for rank in range(2)]
    parts = [taken(it, 4) for it in its]
    whole = list(make(0, 1))
    assert in_order(parts) == in_order([whole])[:16]
    state = its[1].state()
    rest = list(make(0, 1).iterator(state=state))
    assert in_order([rest]) == in_order([whole])[16:]


def test_a_state_may_stand_before_the_first_step():
    check_transformation(hr.Dataset.range(7).distribute(0, 1, 2).pack(3, "first_fit", separator=9), cuts=4)


def test_what_counts_in_old_steps_is_refused():
    ds = D.range(40).distribute(0, 2, 2).batch(2)
    it = iter(ds)
    next(it)
    list(ds.iterator(state=it.state()))
    with pytest.raises(hr.StateError, match=r"behind batch.*before distribute"):
        D.range(40).distribute(0, 4, 2).batch(2).iterator(state=it.state())


def test_states_that_do_not_belong_together_are_refused():
    def state(rank, world, batch=2, n=40, steps=1):
        it = D.range(n).distribute(rank, world, batch).iterator()
        taken(it, steps)
        return it.state()

    assert hr.merge_states([state(0, 2), state(1, 2)]) == state(0, 2)
    for wrong, said in [
        ([state(1, 2), state(0, 2)], "order of ranks; these are of 1 of 2 with 2 a step, 0 of 2"),
        ([state(0, 2)], "of all processes"),
        ([state(0, 2), state(1, 2, batch=3)], "1 of 2 with 3 a step"),
        ([state(0, 2), state(1, 2, n=41)], "another pipeline"),
        ([{**state(0, 2), "epoch": 4}], "checksum"),
        ([iter(D.range(3)).state()], "a distribute"),
    ]:
        with pytest.raises(hr.StateError, match=said):
            hr.merge_states(wrong)
    with pytest.raises(ValueError, match="not none"):
        hr.merge_states([])
    ds = D.range(40).distribute(1, 2, 2)
    taken(ds, 1)
    second = iter(ds)
    next(second)
    with pytest.raises(hr.StateError, match="different epochs"):
        hr.merge_states([state(0, 2), second.state()])
    apart = [D.range(40).distribute(rank, 2, 2).iterator(state=hr.merge_states([state(0, 1)])) for rank in range(2)]
    taken(apart[1], 1)
    with pytest.raises(hr.StateError, match=r"process 1 stands at element 6.* at element 8.*several runs"):
        hr.merge_states([state(0, 2), {**apart[1].state()}])


@given(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=5), st.integers(0, 20))
def test_what_is_left_is_counted_as_one_would_by_hand(start, pieces, count):
    done = [(a, a + length) for a, length in pieces]
    left = [n for n in range(start, 100) if not any(a <= n < b for a, b in done)]
    rest = Rest(start, done)
    assert rest.numbers(np.arange(30)).tolist() == left[:30]
    assert [n for a, b in rest.ranges(3, 3 + count) for n in range(a, b)] == left[3 : 3 + count]
    assert rest.after(count).numbers(np.arange(10)).tolist() == left[count : count + 10]
    assert rest.count(50) == sum(n < 50 for n in left)


RUN = Path(__file__).with_name("distributed_run.py")


def start(folder, rank, world, *more):
    env = {**os.environ, "RANK": "", "WORLD_SIZE": ""}
    command = [sys.executable, str(RUN), str(folder), str(rank), str(world), *map(str, more)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def given_by(folder, name):
    """What a process gave, step by step; a last line that it did not finish counts as not given."""
    lines = (folder / name).read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_two_real_processes_are_killed_and_one_goes_on(tmp_path):
    """torch.distributed with gloo: equal steps, disjoint data; killed in the middle, resumed by a single process."""
    pytest.importorskip("torch")
    both = [start(tmp_path, rank, 2) for rank in range(2)]
    for process in both:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
    whole = [given_by(tmp_path, f"given-{rank}-of-2") for rank in range(2)]
    assert len(whole[0]) == len(whole[1]) == 25
    everything = [x for step in zip(*whole, strict=True) for rows, _ in step for x in rows]
    assert sorted(everything) == list(range(200))

    folder = tmp_path / "killed"
    folder.mkdir()
    stop = int(np.random.default_rng().integers(3, 22))
    both = [start(folder, rank, 2, stop) for rank in range(2)]
    for process in both:
        process.communicate(timeout=600)
        assert process.returncode == -signal.SIGKILL
    halves = [given_by(folder, f"given-{rank}-of-2") for rank in range(2)]
    assert abs(len(halves[0]) - len(halves[1])) <= 1
    alone = start(folder, 0, 1)
    _, said = alone.communicate(timeout=600)
    assert alone.returncode == 0, said
    rest = [x for rows, _ in given_by(folder, "given-0-of-1") for x in rows]
    seen = [x for share in halves for rows, _ in share for x in rows]
    assert sorted(seen + rest) == list(range(200))
    assert rest == [x for x in everything if x not in set(seen)]


def test_what_one_process_stored_is_not_served_to_another(tmp_path):
    first = D.range(8).distribute(0, 2, 2)
    assert [x.tolist() for x in first.cache(tmp_path / "cache")] == [[0, 1], [4, 5]]
    for other in (D.range(8).distribute(1, 2, 2), D.range(8).distribute(0, 2, 1), D.range(8).distribute(0, 1, 2)):
        with pytest.raises(hr.StorageError, match="distribute"):
            list(other.cache(tmp_path / "cache"))
    shares = [list(D.range(8).distribute(rank, 2, 2).snapshot(tmp_path / "snapshot")) for rank in range(2)]
    assert in_order(shares) == list(range(8))


def test_a_step_whose_rows_do_not_fit_together_is_one_error():
    ds = D.from_tensor_slices(hr.Ragged.from_rows([np.arange(n) for n in (1, 1, 2, 3, 2, 2)]))
    check_transformation(ds.distribute(0, 1, 2))
    check_transformation(ds.distribute(0, 1, 1))
    it = iter(ds.distribute(0, 1, 2))
    assert next(it).shape == (2, 1)
    with pytest.raises(hr.ElementError, match="element 1"):
        next(it)
    assert next(it).shape == (2, 2)


def _written(folder, sizes, *, index):
    """TFRecord files with these numbers of records, which are numbers that identify their file."""
    names = [str(folder / f"{i}.tfrecord") for i in range(len(sizes))]
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        with hr.io.TFRecordWriter(name) as writer:
            for j in range(size):
                writer.write(b"%d" % (100 * i + j))
        if index:
            hr.io.build_index(name)
    return names


@pytest.mark.parametrize("uneven", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("reads", [None, 2])
def test_processes_open_files_of_their_own(tmp_path, uneven, batch, reads):
    names = _written(tmp_path, [5, 3, 4, 6, 2], index=True)
    ds = hr.TFRecordDataset(names, num_parallel_reads=reads).map(lambda x: hr.text.to_number(x, np.int64)).shuffle(4)
    shares = [list(ds.distribute(rank, 2, batch, uneven, shard_files=True)) for rank in (0, 1)]
    assert len({len(share) for share in shares}) == 1
    seen = []
    for rank, share in enumerate(shares):
        mask = [np.ravel(m) for _, m in share] if uneven == "pad" else None
        rows = np.concatenate([np.ravel(x[0] if uneven == "pad" else x) for x in share])
        assert {int(x) // 100 % 2 for x in rows} == {rank}
        seen += rows[np.concatenate(mask)].tolist() if mask else rows.tolist()
    everything = sorted(100 * i + j for i, size in enumerate([5, 3, 4, 6, 2]) for j in range(size))
    assert sorted(set(seen)) == everything if uneven != "drop" else set(seen) <= set(everything)
    assert uneven == "wrap" or len(set(seen)) == len(seen)
    for rank in (0, 1):
        check_transformation(ds.distribute(rank, 2, batch, uneven, shard_files="auto"), cuts=3)


def test_a_process_opens_no_other_files(tmp_path):
    names = _written(tmp_path, [3, 3, 3, 3], index=True)
    ds = hr.TFRecordDataset(names)
    share = ds.distribute(1, 2, shard_files="auto")
    for other in names[::2]:
        Path(other).unlink()
    assert [int(x) for x in share] == [100, 101, 102, 300, 301, 302]


def test_where_files_cannot_be_shared_out_elements_are(tmp_path):
    folders = [tmp_path / "plain", tmp_path / "indexed"]
    for folder in folders:
        folder.mkdir()
    plain, names = [_written(folder, [3, 3], index=folder is folders[1]) for folder in folders]
    cases = {
        "run `headrace index`": hr.TFRecordDataset(plain),
        "2 files for 3 processes": hr.TFRecordDataset(names),
        "take .* goes by the rows of all files": hr.TFRecordDataset(names).take(3),
        "enumerate .* goes by the rows": hr.TFRecordDataset(names).enumerate(),
        "filter .* goes by the rows": hr.TFRecordDataset(names, num_parallel_reads=2).filter(lambda x: x != b"1"),
        "repeat .* goes by the rows": hr.TFRecordDataset(names, num_parallel_reads=2).repeat(2),
        "range .* reads no files": hr.Dataset.range(6),
    }
    for reason, ds in cases.items():
        with pytest.raises(ValueError, match=reason):
            ds.distribute(0, 3, shard_files=True)
        dealt = ds.distribute(0, 3, shard_files="auto")
        assert len(list(dealt)) == len(list(ds.distribute(0, 3)))
        assert re.search(f"elements are dealt out, not files: .*{reason}", " ".join(str(dealt.explain()).split()))
