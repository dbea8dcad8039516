"""The code of docs/text.md does what the page says."""

import re
from pathlib import Path

import numpy as np

import headrace as hr

PAGE = Path(__file__).parents[2] / "docs/text.md"


def test_the_page_runs(capsys):
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if "tokenizer.json" not in code:
            exec(code, names)
    said = capsys.readouterr().out
    assert "3 elements" in said
    assert "(('ann', 2), ('bob', 1))" in said
    first = next(iter(names["ids"].padded_batch(2)))
    assert (first[0, 0], first[1, -1]) == (1, 0)
    scaled = next(iter(names["scaled"].batch(3)))
    np.testing.assert_allclose(scaled["age"].mean(), 0, atol=1e-6)
    assert next(iter(names["bucketed"].batch(3)))["age"].tolist() == [0, 1, 1]


def test_the_page_names_every_function():
    page = PAGE.read_text()
    assert [name for name in hr.text.__all__ if f"`{name}`" not in page] == []
