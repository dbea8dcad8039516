"""Every parameter of every public function and class is documented in its docstring, in Google style."""

import importlib
import inspect
import re

import pytest

import headrace as hr

MODULES = [
    *("catalogue", "checkpoint", "cluster", "feature_column", "image", "io", "observe", "preprocessing"),
    *("text", "tfds"),
]


def callables():
    """Public functions, classes and methods by the name users know, exceptions and constants left out."""
    for home, module in [
        ("hr", hr),
        *((f"hr.{name}", importlib.import_module(f"headrace.{name}")) for name in MODULES),
    ]:
        for name in module.__all__:
            value = getattr(module, name)
            if value in (hr.Dataset, hr.Iterator) or not callable(value):
                continue
            if inspect.isclass(value) and issubclass(value, (BaseException, str, dict)):
                continue
            yield f"{home}.{name}", value
    for owner in (hr.Dataset, hr.Iterator):
        for name in (name for name in dir(owner) if not name.startswith("_")):
            getattr(owner, name)  # methods of other modules are put in their place when they are first used
            value = inspect.getattr_static(owner, name)
            value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if callable(value):
                yield f"hr.{owner.__name__}.{name}", value


PUBLIC = {name: value for name, value in callables() if value.__module__.startswith("headrace")}


def documented(text):
    """The parameters that the section `Args:` describes, or `Attributes:` of a class."""
    section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n(?=    ))*)", text, re.MULTILINE)
    return (
        set(re.findall(r"^    \*{0,2}(\w+)(?: \([^)]*\))?: \S", section.group(1), re.MULTILINE)) if section else set()
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name):
    value = PUBLIC[name]
    text = inspect.getdoc(value) or ""
    assert text, "no docstring"
    parameters = set(inspect.signature(value).parameters) - {"self", "cls"}
    assert parameters - documented(text) == set()
    assert text.count("\nArgs:\n") <= 1


def test_there_are_many_public_names():
    assert len(PUBLIC) > 250
