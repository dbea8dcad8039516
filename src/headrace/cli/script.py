"""Datasets that a user's script defines, named on the command line as `train.py:ds`."""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.adapters.feed import Feed
from headrace.cli.output import warn
from headrace.core.types import JsonObject
from headrace.dataset import Dataset
from headrace.errors import HeadraceError, what_there_is
from headrace.execute.state import check_form, first_unseeded

Target = Annotated[
    str,
    typer.Argument(
        help="The dataset: SCRIPT.py:NAME or MODULE:NAME. NAME may be a function that returns it. The script is loaded "
        "as a module: code under `if __name__ == '__main__'` does not run.",
        show_default=False,
    ),
]
StepOption = Annotated[int | None, typer.Option(help="The number of the element in its epoch, counted from 0.")]
EpochOption = Annotated[int, typer.Option(help="Which pass over the dataset, counted from 0.")]
StateOption = Annotated[
    Path | None,
    typer.Option(help="A state as JSON: it says the epoch, the seeds and the last step.", exists=True, dir_okay=False),
]
RUN_NAME = "headrace_script"


@dataclass(frozen=True)
class Script:
    """What a script defines, the dataset of it that is meant, and the feed if it is one."""

    where: str
    values: JsonObject
    dataset: Dataset
    observed: Dataset | Feed

    def function(self, name: str) -> Callable[[Any], Any]:
        """A function of the script, by its name."""
        found = self.values.get(name)
        if not callable(found):
            functions = [key for key, value in self.values.items() if callable(value) and not key.startswith("_")]
            raise HeadraceError(f"{self.where} defines no function {name!r}; {what_there_is(name, functions)}")
        made: Callable[[Any], Any] = found
        return made


def load_script(target: str) -> Script:
    """The script and the dataset that `SCRIPT.py:NAME` names; the only dataset of `SCRIPT.py`."""
    where, colon, name = target.rpartition(":")
    if not colon:
        where, name = target, ""
    values = _values(where)
    datasets = [key for key, value in values.items() if isinstance(value, Dataset | Feed)]
    if not name:
        if len(datasets) != 1:
            raise HeadraceError(
                f"{where} defines {len(datasets)} datasets; write {where}:NAME; {what_there_is('', datasets)}"
            )
        (name,) = datasets
    if name not in values:
        raise HeadraceError(f"{where} defines no {name!r}; {what_there_is(name, datasets)}")
    dataset = _as_dataset(values[name], target)
    return Script(where, values, dataset, values[name] if isinstance(values[name], Feed) else dataset)


def load_dataset(target: str, *, seeded: bool = True) -> Dataset:
    """The dataset that `SCRIPT.py:NAME` names; a warning if its order is another in each process and not `seeded`."""
    ds = load_script(target).dataset
    drawn = None if seeded else first_unseeded(ds._node)
    if drawn:
        warn(
            f"{drawn} has no seed, so every process has another order; a state of the run holds the seeds that it drew"
        )
    return ds


def _values(where: str) -> JsonObject:
    if not where.endswith(".py"):
        try:
            return vars(importlib.import_module(where))
        except ModuleNotFoundError as error:
            if error.name is None or not f"{where}.".startswith(f"{error.name}."):
                raise  # of a module that this one imports
            raise HeadraceError(f"there is no module {where!r}; write SCRIPT.py:NAME or MODULE:NAME") from None
    path = Path(where)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {where}")
    sys.path.insert(0, str(path.resolve().parent))
    return runpy.run_path(str(path), run_name=RUN_NAME)


def _as_dataset(value: object, target: str) -> Dataset:
    if isinstance(value, Dataset):
        return value
    if isinstance(value, Feed):
        return Dataset(value._node)
    if callable(value):
        return _as_dataset(value(), target)
    raise HeadraceError(f"{target} is no hr.Dataset but a {type(value).__name__}")


def load_state(path: Path | None) -> JsonObject | None:
    """The state in a JSON file."""
    if path is None:
        return None
    state: JsonObject = json.loads(path.read_text())
    check_form(state)
    return state
