"""from_torch and from_huggingface: rows that another library gives by number."""

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


class Counted:
    """A map-style dataset that notes what it is asked for; row 2 of every 4 fails."""

    def __init__(self, n=12):
        self.n = n
        self.calls = []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        assert type(i) is int
        self.calls.append(i)
        if i % 4 == 2:
            raise IndexError(f"row {i} is lost")
        return np.full(2, i), str(i)


class Together(Counted):
    """The same, several rows at once."""

    def __getitems__(self, numbers):
        self.calls.append(list(numbers))
        if any(i % 4 == 2 for i in numbers):
            raise OSError("one of them is lost")
        return [(np.full(2, i), str(i)) for i in numbers]


def asked(dataset, pipeline):
    """What a pipeline over the dataset asks for."""
    list(pipeline(D.from_torch(dataset)).ignore_errors())
    return dataset.calls


class TestWhatIsAskedFor:
    def test_one_row_at_a_time(self):
        rows = Counted()
        it = iter(D.from_torch(rows))
        assert rows.calls == []
        next(it)
        assert rows.calls == [0]
        next(it)
        assert rows.calls == [0, 1]

    @pytest.mark.parametrize(
        ("pipeline", "calls"),
        [
            (lambda d: d.take(2), [0, 1]),
            (lambda d: d.skip(9), [9, 10, 11]),
            (lambda d: d.shard(5, 3), [3, 8]),
            (lambda d: d[7:10], [7, 8, 9]),
            (lambda d: d.batch(3).take(1), [0, 1, 2]),
        ],
    )
    def test_no_row_that_is_not_given(self, pipeline, calls):
        assert asked(Counted(), pipeline) == calls

    def test_a_shuffle_of_everything_asks_once_for_each(self):
        calls = asked(Counted(), lambda d: d.shuffle(seed=1))
        assert sorted(calls) == list(range(12))
        assert calls != sorted(calls)

    def test_whole_blocks_where_the_dataset_can(self):
        assert asked(Together(), lambda d: d.take(2).batch(2)) == [[0, 1]]

    def test_a_block_that_fails_is_asked_for_row_by_row(self):
        assert asked(Together(), lambda d: d.take(3).batch(3)) == [[0, 1, 2], 0, 1, 2]

    def test_a_resume_asks_for_no_row_again(self):
        rows = Counted()
        it = iter(D.from_torch(rows))
        next(it), next(it)
        state = it.state()
        rows.calls.clear()
        again = D.from_torch(rows).iterator(state=state)
        with pytest.raises(hr.ElementError):
            next(again)
        assert rows.calls == [2]


def test_a_failing_row_is_a_failure_in_its_place():
    for rows in (Counted(4), Together(4)):
        it = iter(D.from_torch(rows).prefetch(2))
        assert [next(it)[1] for _ in range(2)] == ["0", "1"]
        with pytest.raises(hr.ElementError, match="from_torch failed on element 2: IndexError: row 2 is lost"):
            next(it)
        assert next(it)[1] == "3"
        with pytest.raises(StopIteration):
            next(it)
        with pytest.raises(hr.ElementError, match="row 2 is lost"):
            D.from_torch(rows)[2]


def test_rows_are_copies():
    array = np.zeros((3, 2))
    ds = D.from_torch(array)
    for row in ds:
        row[:] = 1
    assert array.sum() == 0


def test_the_spec_is_that_of_the_first_row_or_what_the_user_says():
    assert D.from_torch(Counted()).element_spec == (hr.TensorSpec([None], "int64"), hr.TensorSpec([], str))
    said = (hr.TensorSpec([2], "int64"), hr.TensorSpec([], str))
    rows = Counted()
    assert D.from_torch(rows, output_signature=said).element_spec == said
    assert rows.calls == []


def test_what_has_no_numbers_is_refused():
    with pytest.raises(TypeError, match=r"__len__ and __getitem__, not generator.*from_generator"):
        D.from_torch(i for i in range(3))


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch")

    def test_tensors_are_arrays(self, run, torch):
        data = torch.utils.data.TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
        rows = run(D.from_torch(torch.utils.data.Subset(data, [4, 1])))
        assert [(x.tolist(), int(y)) for x, y in rows] == [([8, 9], 4), ([2, 3], 1)]
        assert rows[0][0].dtype == np.float32
        assert type(rows[0][1]) is np.int64

    def test_tensors_that_remember_gradients(self, run, torch):
        rows = [
            {"x": torch.ones(2, requires_grad=True), "n": [torch.tensor(1), torch.tensor(2)]},
        ]
        (row,) = run(D.from_torch(rows))
        assert row["x"].tolist() == [1, 1]
        assert row["n"].tolist() == [1, 2]

    def test_a_tensor_that_numpy_cannot_hold(self, torch):
        with pytest.raises(hr.ElementError, match=r"no torch.bfloat16, so return tensor.float\(\)"):
            D.from_torch([torch.zeros(2, dtype=torch.bfloat16)])[0]

    def test_what_is_no_map_style_dataset_is_refused(self, torch):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(torch.arange(3))

        with pytest.raises(TypeError, match="IterableDataset: use from_generator"):
            D.from_torch(Stream())
        as_told = D.from_generator(lambda: Stream(), output_signature=hr.TensorSpec([], "int64"))
        assert list(as_told) == [0, 1, 2]
        with pytest.raises(TypeError, match=r"pass loader.dataset"):
            D.from_torch(torch.utils.data.DataLoader([1, 2]))


class TestHuggingFace:
    @pytest.fixture
    def datasets(self):
        found = pytest.importorskip("datasets")
        found.disable_progress_bars()
        return found

    @pytest.fixture
    def split(self, datasets):
        n = 150
        columns = {"n": range(n), "x": [i / 2 for i in range(n)], "s": [str(i) for i in range(n)]}
        return datasets.Dataset.from_dict({**columns, "l": [list(range(i % 4)) for i in range(n)]})

    def same(self, rows, split):
        assert [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in row.items()} for row in rows] == [
            {k: v.tolist() if hasattr(v, "tolist") else v for k, v in split[i].items()} for i in range(len(split))
        ]

    @pytest.mark.parametrize(
        "changed",
        [
            lambda d: d,
            lambda d: d.shuffle(seed=3),
            lambda d: d.select([5, 3, 3, 149]),
            lambda d: d.filter(lambda row: row["n"] % 3 == 0).select(range(2, 20)),
            lambda d: d.select_columns(["s", "n"]),
            lambda d: d.with_format(None, columns=["l"]),
            lambda d: d.with_format("numpy"),
            lambda d: d.with_format("numpy", columns=["x"], output_all_columns=True),
            lambda d: d.with_transform(lambda rows: {"twice": [2 * n for n in rows["n"]]}),
        ],
        ids=[
            "plain",
            "shuffled",
            "selected",
            "filtered",
            "columns",
            "formatted columns",
            "numpy",
            "mixed",
            "transform",
        ],
    )
    def test_rows_are_those_of_the_split(self, run, split, changed):
        wanted = changed(split)
        ds = D.from_huggingface(wanted)
        self.same(run(ds), wanted)
        assert len(ds) == len(wanted)
        self.same([ds[2]], wanted.select([2]))

    def test_columns_are_read_where_they_lie(self, split):
        table = split.data.table
        (batch,) = D.from_huggingface(split.select_columns(["n", "s"])).batch(150)
        assert np.shares_memory(batch["n"], table["n"].chunk(0).to_numpy())

    def test_a_split_on_disk(self, run, split, datasets, tmp_path):
        split.save_to_disk(tmp_path)
        kept = datasets.load_from_disk(tmp_path)
        self.same(run(D.from_huggingface(datasets.concatenate_datasets([kept, kept]))), [*split, *split])

    def test_nulls(self, run, datasets):
        split = datasets.Dataset.from_dict({"s": ["a", None, "c"], "x": [1.5, None, 2.5], "l": [[1], [], [2, 3]]})
        ds = D.from_huggingface(split)
        rows = run(ds)
        assert [r["s"] for r in rows] == ["a", None, "c"]
        assert np.isnan(rows[1]["x"])
        assert [r["l"].dtype for r in rows] == [np.int64] * 3
        assert ds.element_spec == hr.TensorSpec(None, None)

    def test_images_are_arrays_and_decoded_once_asked_for(self, run, datasets):
        image = pytest.importorskip("PIL.Image")
        pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
        features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
        split = datasets.Dataset.from_dict({"image": [image.fromarray(pixels)] * 3, "label": [0, 1, 1]}, features)
        rows = run(D.from_huggingface(split).shuffle(2))
        assert np.array_equal(rows[0]["image"], pixels)
        assert sorted(int(r["label"]) for r in rows) == [0, 1, 1]

    def test_other_features(self, run, datasets):
        features = datasets.Features(
            {
                "grid": datasets.Array2D((2, 2), "float32"),
                "boxes": [{"a": datasets.Value("int32")}],
                "nested": {"u": datasets.Value("int8")},
                "holes": datasets.List(datasets.Value("int64")),
            }
        )
        columns = {"grid": [np.eye(2)] * 2, "boxes": [[{"a": 1}], []], "nested": [{"u": 1}, {"u": 2}]}
        split = datasets.Dataset.from_dict({**columns, "holes": [[1, None], [2]]}, features)
        first, second = run(D.from_huggingface(split))
        assert first["grid"].dtype == np.float32
        assert first["grid"].tolist() == [[1, 0], [0, 1]]
        assert (first["boxes"].tolist(), second["boxes"].tolist()) == ([{"a": 1}], [])
        assert second["nested"] == {"u": 2}
        assert (first["holes"].tolist(), second["holes"].tolist()) == ([1, None], [2])

    def test_what_is_no_split_is_refused(self, split, datasets):
        with pytest.raises(TypeError, match="one split, not a DatasetDict of 'train', 'test'"):
            D.from_huggingface(datasets.DatasetDict(train=split, test=split))
        with pytest.raises(TypeError, match="not IterableDataset; use from_generator"):
            D.from_huggingface(split.to_iterable_dataset())
        with pytest.raises(TypeError, match=r"takes a datasets.Dataset, not int"):
            D.from_huggingface(5)
