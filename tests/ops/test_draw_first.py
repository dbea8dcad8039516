"""Records that are drawn before they are made: what comes is what a shuffle of rows that one thread made gives."""

import os
import time

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.columns.lazy_block import RecordBlock
from headrace.columns.refs import BackgroundCheck, CorruptRecordsError
from headrace.errors import ElementError, StateError
from headrace.execute.stages.channel import Channel
from headrace.formats.tfrecord.format import TFRecords
from headrace.ops.shuffle import record_refs as pointed_rows
from headrace.ops.shuffle.shuffle import ShuffleStream

FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}
FILES, ROWS, BYTES = 4, 120, 9000
SIZE = BYTES + 60
BUFFER = 100


def parse(record):
    row = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(row["image"], np.uint8)[:4], row["label"]


def write(name, rows, first=0, size=BYTES):
    with hr.io.TFRecordWriter(name) as writer:
        for i in range(rows):
            writer.write({"image": bytes([i % 256]) * size, "label": first + i})


@pytest.fixture
def names(tmp_path):
    made = [str(tmp_path / f"{i}.tfrecord") for i in range(FILES)]
    for number, name in enumerate(made):
        write(name, ROWS, 1000 * number)
    return made


@pytest.fixture
def picked(monkeypatch):
    """How many blocks were picked from files, so that the test does not take the other path; little is read ahead."""
    monkeypatch.setattr(pointed_rows, "READ_BYTES", 4 * SIZE)
    count = []
    plain = RecordBlock.pointed

    def counting(self):
        count.append(self.rows)
        return plain(self)

    monkeypatch.setattr(RecordBlock, "pointed", counting)
    return count


def hurt(name, byte):
    with open(name, "r+b") as file:  # noqa: PTH123
        file.seek(byte)
        old = file.read(1)
        file.seek(byte)
        file.write(bytes([old[0] ^ 1]))


def outcome(it):
    """What comes, errors in their places."""
    found = []
    while True:
        try:
            image, label = next(it)
            found.append((image.tolist(), int(label)))
        except StopIteration:
            return found
        except ElementError as error:
            found.append(str(error).partition("\n  added at")[0])


def drawn(names, calls, reads=None, *, shuffled_first=False, fn=parse, buffer=BUFFER, mode="auto", index=None):
    ds = hr.TFRecordDataset(names, num_parallel_reads=reads, index=index)
    if shuffled_first:
        return ds.shuffle(buffer, 5, reshuffle_each_iteration=False).map(fn, calls, mode=mode)
    return ds.map(fn, calls, mode=mode).shuffle(buffer, 5, reshuffle_each_iteration=False)


def made_in_turn(names, reads=None, **options):
    """The same with each row made by itself, before anything else is done with it."""
    return drawn(names, None, reads, mode="eager", **options)


WHERE = [(0, 40), (1, SIZE * 60), (2, SIZE * (ROWS - 2)), (3, 3)]


@pytest.mark.parametrize("shuffled_first", [False, True])
@pytest.mark.parametrize("reads", [None, 2, 3])
@pytest.mark.parametrize("calls", [None, 1, 2, 5, hr.AUTOTUNE])
@pytest.mark.parametrize("bad", [[], WHERE[:1], WHERE[1:2], WHERE[2:3], WHERE[3:], WHERE])
def test_rows_and_bad_records_come_in_their_places(names, reads, calls, bad, shuffled_first, picked):
    for file, byte in bad:
        hurt(names[file], byte)
    expected = outcome(iter(made_in_turn(names, reads, shuffled_first=shuffled_first)))
    assert sum(isinstance(each, str) for each in expected) == len(bad)
    assert not picked
    assert outcome(iter(drawn(names, calls, reads, shuffled_first=shuffled_first))) == expected
    assert picked or bad or (calls in (None, 1) and not shuffled_first)


@pytest.mark.parametrize("unseen", [0, 1, 1000])
@pytest.mark.parametrize("bad", [WHERE[1:2], WHERE])
def test_however_much_is_in_the_buffer_before_it_was_looked_at(names, unseen, bad, picked, monkeypatch):
    monkeypatch.setattr(pointed_rows, "MAX_UNVERIFIED_READS", unseen)
    for file, byte in bad:
        hurt(names[file], byte)
    expected = outcome(iter(made_in_turn(names, shuffled_first=True)))
    assert outcome(iter(drawn(names, 3, shuffled_first=True))) == expected


@pytest.mark.parametrize("missing", [0, 148])
def test_nothing_comes_before_all_is_looked_at_that_went_into_the_buffer(names, missing, picked, monkeypatch):
    """The thread that makes rows waits for that, however long it takes; failures that are drawn wait as well."""
    looked_at, wait = set(), BackgroundCheck.wait

    def slow(self):
        time.sleep(0.005)
        wait(self)
        looked_at.update(self._refs.table[:, 3].tolist())

    monkeypatch.setattr(BackgroundCheck, "wait", slow)
    names = [names[0], *(f"{name}-{i}" for name in names for i in range(missing // FILES)), *names[1:]]
    failures = set(range(ROWS, ROWS + missing))
    it = iter(drawn(names, 3, shuffled_first=True))
    for number in range(FILES * ROWS + len(failures)):
        try:
            next(it)
        except ElementError as error:
            assert "No such file" in str(error)
        assert set(range(number + BUFFER)) & set(range(FILES * ROWS)) - failures <= looked_at
    assert picked and len(looked_at) == FILES * ROWS


def test_no_thread_asks_a_shuffle_that_broke_off_in_another_one(names, monkeypatch):
    hurt(names[1], SIZE * 60)
    broken, asked_again = set(), []
    pull, fail = ShuffleStream.pull, Channel.fail

    def watched(self, want):
        asked_again.extend([want] * (self in broken))
        try:
            return pull(self, want)
        except CorruptRecordsError:
            broken.add(self)
            raise

    def slow(self, error):
        time.sleep(0.02)
        fail(self, error)

    expected = outcome(iter(made_in_turn(names, 3)))
    monkeypatch.setattr(pointed_rows, "MAX_UNVERIFIED_READS", 0)  # it waits for what it reads to be looked at itself
    monkeypatch.setattr(ShuffleStream, "pull", watched)
    monkeypatch.setattr(Channel, "fail", slow)
    assert outcome(iter(drawn(names, 5, 3))) == expected
    assert broken
    assert not asked_again


@pytest.mark.parametrize("shuffled_first", [False, True])
@pytest.mark.parametrize("hurt_at", [None, SIZE * 75])
@pytest.mark.parametrize("cut", [0, 1, 60, 199, 200, 350, FILES * ROWS - 1])
def test_states_go_on_exactly_however_rows_are_made(names, cut, hurt_at, shuffled_first, picked):
    if hurt_at is not None:
        hurt(names[2], hurt_at)
    plain = made_in_turn(names, 2, shuffled_first=shuffled_first)
    here, late = (drawn(names, calls, 2, shuffled_first=shuffled_first) for calls in (None, 3))
    whole = outcome(iter(plain))
    for saved, restored in [(late, late), (late, plain), (plain, late), (here, late), (late, here), (here, here)]:
        with iter(saved) as it:
            for _ in range(cut):
                try:
                    next(it)
                except ElementError:
                    continue
                except StopIteration:
                    break
            state = it.state()
        with restored.iterator(state=state) as it:
            assert outcome(it) == whole[cut:]
    assert picked


@pytest.mark.parametrize("shuffled_first", [False, True])
def test_rows_whose_function_fails_say_which_they_are(names, shuffled_first, picked):
    def fails(record):
        image, label = parse(record)
        return image, label // (label % 50 - 7)  # a warning, which is an error here

    expected = outcome(iter(made_in_turn(names, 2, shuffled_first=shuffled_first, fn=fails)))
    assert sum(isinstance(each, str) for each in expected) == 3 * FILES
    for calls in (None, 4):
        assert outcome(iter(drawn(names, calls, 2, shuffled_first=shuffled_first, fn=fails))) == expected
    assert picked


def missing(record):
    row = hr.io.parse_single_example(record, FEATURES | {"other": hr.io.FixedLenFeature([], np.int64)})
    return row["image"], row["other"]


def test_a_record_without_a_feature_is_an_error_with_its_number(names, picked):
    with hr.io.TFRecordWriter(names[1]) as writer:
        for i in range(ROWS):
            writer.write({"image": bytes(BYTES), "label": i} | ({} if i == 17 else {"other": i}))
    only = names[1:2]
    plain, late = (iter(drawn(only, calls, fn=missing, buffer=30)) for calls in (None, 3))
    found = []
    for it in (plain, late):
        said = []
        while True:
            try:
                said.append(next(it))
            except StopIteration:
                break
            except ElementError as error:
                said.append(str(error))
        found.append(said)
    assert found[0] == found[1]
    assert sum(isinstance(each, str) for each in found[0]) == 1
    assert picked
    skipped = [list(drawn(only, calls, fn=missing, buffer=30).ignore_errors()) for calls in (None, 3)]
    assert skipped[0] == skipped[1] and len(skipped[0]) == ROWS - 1


def test_files_that_are_done_with_are_let_go_of(tmp_path, picked, monkeypatch):
    monkeypatch.setattr(pointed_rows, "MAX_UNCHECKED_FILES", 4)
    monkeypatch.setattr(pointed_rows, "MAX_READS_AHEAD", 2)  # on however many processors
    names = [str(tmp_path / f"{i}") for i in range(60)]
    for number, name in enumerate(names):
        write(name, 5, 1000 * number, size=300_000)
    sizes = []
    plain = pointed_rows.ReferenceInput._forget

    def forget(self, slots):
        plain(self, slots)
        sizes.append(len(self._files))

    looked_at = []
    look = pointed_rows._native.Verification

    def begin(files, places):
        looked_at.append((places, places.copy()))
        return look(files, places)

    monkeypatch.setattr(pointed_rows._native, "Verification", begin)
    monkeypatch.setattr(pointed_rows.ReferenceInput, "_forget", forget)
    expected = outcome(iter(made_in_turn(names, 2, buffer=10)))
    assert outcome(iter(drawn(names, 3, 2, buffer=10))) == expected
    assert picked and sizes and max(sizes) < 30
    assert looked_at and all(np.array_equal(*both) for both in looked_at), "threads may be reading them"


def test_small_files_among_large_ones(tmp_path):
    names = [str(tmp_path / f"{i}") for i in range(12)]
    for number, name in enumerate(names):
        write(name, 40, 1000 * number, size=20_000 if number % 5 == 3 else 10)
    for reads in (None, 3):
        for first in (False, True):
            for some in (names, names[3:]):
                expected = outcome(iter(made_in_turn(some, reads, shuffled_first=first)))
                for calls in (None, 3):
                    assert outcome(iter(drawn(some, calls, reads, shuffled_first=first))) == expected


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("change", ["shrink", "overwrite"])
def test_a_file_that_changes_while_its_rows_wait_is_an_error_behind_right_rows(names, change, calls, picked):
    whole = [label for _, label in outcome(iter(made_in_turn(names[:1], shuffled_first=True)))]
    found, said = [], ""
    with iter(drawn(names[:1], calls, shuffled_first=True).prefetch(1)) as it:
        found.append(next(it))
        if change == "shrink":
            os.truncate(names[0], SIZE * 40)
        else:
            for i in range(ROWS):
                hurt(names[0], SIZE * i + 200)
        while not said:
            try:
                found.append(next(it))
            except StopIteration:
                break
            except (ElementError, StateError) as error:
                said = str(error)
    labels = [int(label) for _, label in found]
    assert labels == whole[: len(labels)]
    assert all((image == label % 256).all() for image, label in found)
    assert picked and (names[0] in said or len(labels) == len(whole))


def test_rows_are_known_by_the_same_numbers(names):
    def noisy(image, label, rng):
        return image, label + rng.integers(0, 1000)

    plain = made_in_turn(names, 2).random_map(noisy, 3)
    late = drawn(names, 3, 2).random_map(noisy, 3)
    assert outcome(iter(plain)) == outcome(iter(late))
    shuffled = hr.TFRecordDataset(names).shuffle(BUFFER, seed=1)
    plain, *others = [
        shuffled.map(parse, calls, mode=mode).repeat(2)
        for calls, mode in [(None, "eager"), (None, "auto"), (2, "auto")]
    ]
    expected = outcome(iter(plain))
    assert all(outcome(iter(other)) == expected for other in others)


def test_a_plan_in_another_process_draws_first_too(names):
    late = drawn(names, 2, 2).batch(16).prefetch(2, mode="process")
    plain = drawn(names, None, 2).batch(16)
    assert [labels.tolist() for _, labels in late] == [labels.tolist() for _, labels in plain]


def test_explain_says_so(names):
    text = str(drawn(names, 2).explain())
    assert "draw_first at shuffle" in text
    assert "draw_first at" not in str(drawn(names, None).explain())
    assert "draw_first at" not in str(drawn(names, 2, buffer=hr.AUTOTUNE).explain())


@pytest.mark.parametrize("place", [(1, 0, 16, 0), (-1, 0, 16, 0), (0, -1, 16, 0), (0, 16, 8, 0), (0, 0, 1 << 40, 0)])
def test_places_beyond_a_file_are_refused(names, place):
    with open(names[0], "rb") as file:  # noqa: PTH123
        mapped = _native.MappedFile(file.fileno(), os.stat(names[0]).st_size)  # noqa: PTH116
    places = np.array([place], np.int64)
    for look in (_native.Verification, _native.unframe_places):
        with pytest.raises(ValueError, match=r"no such file|out of range"):
            look([mapped], places)
    good = np.array([(0, 0, 8, 0)], np.int64)  # too short to be a record
    assert not _native.Verification([mapped], good).good()
    assert _native.unframe_places([mapped], good) is None


def test_a_bad_record_below_a_thread_that_only_reads_ahead(names):
    hurt(names[1], SIZE * 60)
    files = hr.Dataset.from_tensor_slices(names)

    def plan(calls, mode):
        turns = files.interleave(
            lambda name: hr.TFRecordDataset([name]).shuffle(20, 5, reshuffle_each_iteration=False),
            cycle_length=2,
            num_parallel_calls=calls,
        )
        return turns.map(parse, calls, mode=mode)

    expected = outcome(iter(plan(None, "eager")))
    assert sum(isinstance(each, str) for each in expected) == 1
    assert outcome(iter(plan(2, "auto"))) == expected


@pytest.mark.parametrize("bad", [False, True])
def test_a_cache_of_rows_that_were_drawn_first(names, tmp_path, bad):
    if bad:
        hurt(names[1], SIZE * 60)
    for store in ("", str(tmp_path / "kept")):
        ds = drawn(names, 3, 2).cache(store)
        expected = outcome(iter(made_in_turn(names, 2)))
        assert outcome(iter(ds)) == expected
        assert outcome(iter(ds)) == expected
    if not bad:
        for name in names:
            os.remove(name)  # noqa: PTH107
        assert outcome(iter(drawn(names, None, 2).cache(store))) == expected  # however it is run


@pytest.mark.parametrize("change", [os.remove, os.utime])
def test_a_function_that_fails_needs_no_file_again(names, change):
    def fails(record):
        image, label = parse(record)
        return image, label // (label % 50 - 7)

    expected = outcome(iter(made_in_turn(names[:1], fn=fails)))
    with iter(drawn(names[:1], 2, fn=fails)) as it:
        first = next(it)
        change(names[0])
        rest = outcome(it)
    assert [(first[0].tolist(), int(first[1])), *rest] == expected


def test_rows_of_many_turns_are_made_as_they_are_used(tmp_path):
    names = [str(tmp_path / f"{i}") for i in range(2)]
    for number, name in enumerate(names):
        write(name, 300, 1000 * number, size=50_000)
    made = []
    plain = RecordBlock.pointed

    def counting(self):
        made.append(self.nbytes)
        return plain(self)

    turns = hr.Dataset.from_tensor_slices(names).interleave(
        lambda name: hr.TFRecordDataset([name]).shuffle(50, 5), cycle_length=2, num_parallel_calls=2
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordBlock, "pointed", counting)
        assert len(list(turns.map(parse, 2))) == 600
    assert made and max(made) < 16 << 20


# Of files that have an index rows are found by number, and a state is a number


@pytest.mark.parametrize("shuffled_first", [False, True])
@pytest.mark.parametrize("calls", [None, 1, 3, hr.AUTOTUNE])
@pytest.mark.parametrize("buffer", [1, 7, BUFFER, 5000])
def test_rows_of_files_with_an_index(names, calls, buffer, shuffled_first, picked):
    how = {"shuffled_first": shuffled_first, "buffer": buffer}
    expected = outcome(iter(made_in_turn(names, index=True, **how)))
    assert outcome(iter(made_in_turn(names, index=False, **how))) == expected
    assert not picked
    ds = drawn(names, calls, index=True, **how)
    assert outcome(iter(ds)) == expected
    assert picked or (calls in (None, 1) and not shuffled_first)
    assert outcome(iter(ds.skip(150).shard(3, 1))) == expected[150:][1::3]
    image, label = ds[77]
    assert (image.tolist(), int(label)) == expected[77]


@pytest.mark.parametrize("shuffled_first", [False, True])
@pytest.mark.parametrize("cut", [0, 1, 60, 199, 200, 350, FILES * ROWS - BUFFER, FILES * ROWS - 1, FILES * ROWS])
def test_states_of_files_with_an_index(names, cut, shuffled_first, picked):
    how = {"shuffled_first": shuffled_first, "index": True}
    plain, here, late = made_in_turn(names, **how), drawn(names, None, **how), drawn(names, 3, **how)
    whole = outcome(iter(plain))
    for saved, restored in [(late, late), (late, plain), (plain, late), (here, late), (late, here)]:
        with iter(saved) as it:
            for _ in range(cut):
                next(it)
            state = it.state()
        with restored.iterator(state=state) as it:
            assert outcome(it) == whole[cut:]
    assert picked


def test_a_state_has_only_those_rows_read_again_that_the_buffer_held(names, picked, monkeypatch):
    late = drawn(names, 3, index=True)
    expected = outcome(iter(late))
    with iter(late) as it:
        for _ in range(400):
            next(it)
        state = it.state()
    read, scan = [], TFRecords.scan

    def counting(self, data, hints):
        found = scan(self, data, hints)
        read.append(found.rows)
        return found

    monkeypatch.setattr(TFRecords, "scan", counting)
    monkeypatch.setattr(ShuffleStream, "_refill_from_stream", None)
    with late.iterator(state=state) as it:
        assert outcome(it) == expected[400:]
    assert sum(read) <= FILES * ROWS - 400


@pytest.mark.parametrize("cut", [0, 130, 300])
@pytest.mark.parametrize("shuffled_first", [False, True])
def test_a_record_that_went_bad_since_its_index_was_made(names, cut, shuffled_first):
    how = {"shuffled_first": shuffled_first, "index": True}
    plain, late = made_in_turn(names, **how), drawn(names, 3, **how)
    whole = outcome(iter(plain))
    with iter(late) as it:
        for _ in range(cut):
            next(it)
        state = it.state()
    was = os.stat(names[2])  # noqa: PTH116
    hurt(names[2], SIZE * 75)
    os.utime(names[2], ns=(was.st_atime_ns, was.st_mtime_ns))
    with late.iterator(state=state) as it:
        found = outcome(it)
    assert all(each in whole if isinstance(each, tuple) else names[2] in each for each in found)
    if cut == 0:  # else it is unknown which rows a file would have given that was bad from the start
        with plain.iterator(state=state) as it:
            assert outcome(it) == found


def test_random_functions_see_the_same_rows_of_files_with_an_index(names, picked):
    def noisy(image, label, rng):
        return image, label + rng.integers(0, 1000)

    expected = outcome(iter(made_in_turn(names, index=True).random_map(noisy, 3)))
    late = drawn(names, 3, index=True).random_map(noisy, 3)
    with iter(late) as it:
        for _ in range(333):
            next(it)
        state = it.state()
        assert outcome(it) == expected[333:]
    with late.iterator(state=state) as it:
        assert outcome(it) == expected[333:]
    assert picked


def test_rows_that_are_skipped_are_not_made(names, picked):
    ds = drawn(names, 3, index=True)
    expected = outcome(iter(ds))
    picked.clear()
    assert outcome(iter(ds.skip(400))) == expected[400:]
    assert sum(picked) <= 2 * (FILES * ROWS - 400)  # those that the buffer held are looked up, and made when drawn


def test_an_error_of_a_row_that_is_fetched_has_the_number_it_has_as_written(names):
    def fails(record):
        image, label = parse(record)
        return image, label // (label % 50 - 7)

    plain, late = (
        drawn(names, calls, fn=fails, mode=mode, index=True).shuffle(seed=4)
        for calls, mode in [(None, "eager"), (3, "auto")]
    )
    expected = outcome(iter(plain))
    assert sum(isinstance(each, str) for each in expected) == 3 * FILES
    assert outcome(iter(late)) == expected


def test_a_state_of_two_shuffles_of_files_with_an_index(names, picked, monkeypatch):
    def twice(mode, calls):
        ds = hr.TFRecordDataset(names, index=True).shuffle(30, 1, reshuffle_each_iteration=False)
        return ds.shuffle(BUFFER, 2, reshuffle_each_iteration=False).map(parse, calls, mode=mode)

    plain, late = twice("eager", None), twice("auto", 3)
    expected = outcome(iter(plain))
    assert outcome(iter(late)) == expected
    with iter(late) as it:
        for _ in range(300):
            next(it)
        state = it.state()
    monkeypatch.setattr(ShuffleStream, "_refill_from_stream", None)
    for ds in (plain, late):
        with ds.iterator(state=state) as it:
            assert outcome(it) == expected[300:]
    assert picked


@pytest.mark.parametrize("index", [True, False])
def test_pages_are_let_go_of_at_the_end(names, index, monkeypatch):
    released, release = [], _native.release_files

    def counting(files):
        released.append(len(files))
        release(files)

    monkeypatch.setattr(pointed_rows._native, "release_files", counting)
    assert len(list(drawn(names, 3, index=index))) == FILES * ROWS
    assert released[-1] == FILES
    for files in ([None], [names[0]]):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            release(files)
