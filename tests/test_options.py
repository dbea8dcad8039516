"""hr.Options: set by name or by assignment, under tf.data's names too; a dataset's own cannot be changed."""

import copy
import pickle

import pytest

import headrace as hr

D = hr.Dataset


def test_options_are_set_by_assignment():
    options = hr.Options()
    options.deterministic = False
    options.cpu_budget = 2
    assert options == hr.Options(deterministic=False, cpu_budget=2)


def test_a_dataset_takes_options_as_they_are_at_that_moment():
    options = hr.Options(cpu_budget=1)
    ds = D.range(3).with_options(options)
    options.cpu_budget = 2
    assert ds.options().cpu_budget == 1
    assert D.range(3).with_options(options).options().cpu_budget == 2


@pytest.mark.parametrize(
    "ds", [D.range(3), D.range(3).with_options(hr.Options(ram_budget=1)).batch(2), D.zip(D.range(1), D.range(2))]
)
def test_the_options_of_a_dataset_cannot_be_changed(ds):
    found = ds.options()
    with pytest.raises(ValueError, match=r"with_options\(hr\.Options\(deterministic=False\)\)"):
        found.deterministic = False
    with pytest.raises(ValueError, match="with_options"):
        found.autotune.cpu_budget = 3
    assert found.deterministic is None
    for same in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert same == found


def test_names_of_tf_data_that_mean_the_same_work():
    options = hr.Options()
    options.experimental_deterministic = False
    options.autotune.cpu_budget = 2
    options.autotune.ram_budget = 1 << 20
    options.experimental_optimization.inject_prefetch = False
    assert options == hr.Options(deterministic=False, cpu_budget=2, ram_budget=1 << 20, inject_prefetch=False)
    assert (options.autotune.cpu_budget, options.experimental_deterministic) == (2, False)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("autotune.enabled", "where it says AUTOTUNE"),
        ("threading.private_threadpool_size", "num_parallel_calls"),
        ("threading.max_intra_op_parallelism", "OMP_NUM_THREADS"),
        ("experimental_optimization.map_fusion", "leave it out"),
        ("experimental_distribute.auto_shard_policy", "ds.shard"),
        ("experimental_slack", "leave it out"),
        ("determinstic", "did you mean deterministic?"),
        ("anything", "there are deterministic, cpu_budget"),
    ],
)
def test_names_that_are_not_here_say_where_the_thing_is(path, where):
    home, name = hr.Options(), path
    if "." in path:
        group, _, name = path.partition(".")
        home = getattr(home, group)
    for use in (lambda: getattr(home, name), lambda: setattr(home, name, True)):
        with pytest.raises(AttributeError, match=r"hr\.Options has no") as caught:
            use()
        assert where in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("deterministic", "no", TypeError),
        ("cpu_budget", 0, ValueError),
        ("cpu_budget", 1.5, TypeError),
        ("ram_budget", True, TypeError),
        ("on_error", "ignore", ValueError),
    ],
)
def test_values_are_checked_however_they_are_set(name, value, error):
    with pytest.raises(error, match=name):
        hr.Options(**{name: value})
    options = hr.Options()
    with pytest.raises(error, match=name):
        setattr(options, name, value)
    setattr(options, name, None)
