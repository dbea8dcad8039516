"""The page of guarantees names a test for every sentence, and these tests exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
PROMISED, _, NOT_PROMISED = PAGE.partition("## Not promised")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", PAGE)))


def names_in(path):
    """Tests of a file: functions, methods, and functions that are made and given a name."""

    def found(body, prefix):
        for each in body:
            if isinstance(each, ast.ClassDef):
                yield from found(each.body, f"{prefix}{each.name}::")
            elif isinstance(each, ast.FunctionDef):
                yield prefix + each.name
            elif isinstance(each, ast.Assign):
                yield from (prefix + target.id for target in each.targets if isinstance(target, ast.Name))

    return set(found(ast.parse(path.read_text()).body, ""))


@pytest.mark.parametrize("name", NAMED)
def test_a_test_that_is_named_exists(name):
    path, _, test = name.partition("::")
    assert (ROOT / path).is_file()
    assert test in names_in(ROOT / path)
    assert test.rpartition("::")[2].startswith("test_")


def test_every_promise_names_its_test():
    sentences = re.split(r"\n(?=- |\n)", PROMISED)
    promises = [each for each in sentences if each.lstrip().startswith("- ")]
    assert len(promises) > 30
    assert [each for each in promises if "::test_" not in each] == []


def test_what_is_not_promised_is_said():
    assert NOT_PROMISED.count("\n- ") > 5


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md"])
def test_the_page_is_found(page):
    assert "(docs/guarantees.md)" in (ROOT / page).read_text()
