"""The examples of docs/service.md."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/service.md"


def test_the_examples_of_the_page():
    text = "\n".join(line for line in PAGE.read_text().splitlines() if not line.startswith("```"))
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 10
    assert doctest.DocTestRunner().run(test).failed == 0
