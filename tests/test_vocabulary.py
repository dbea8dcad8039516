"""Comments, docstrings and documentation use the field's vocabulary, not private words."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# What to write instead is in the message of a failure.
PRIVATE_WORDS = {
    r"\b(whoever|nobody|somebody|anybody)\b": "the caller, the consumer, a worker thread; or: it is unobservable",
    r"\bso many\b": "this many, or the parameter's name",
    r"\bPython's lock\b": "the GIL",
    r"\bunsound\b": "corrupt",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\b(lie|lies|lay) (in|where|at|beside|behind|ready|there)\b": "is stored, is ready, is at",
    r"\bwho (asks|waits|reads|makes|takes|comes|wants|pulls)\b": "the caller, the consumer, the reader",
    r"\b(is|are) told\b": "gets, is notified, is reported",
    r"\bgo(es)? on behind\b": "continues after",
    r"\bas many again\b": "twice as many",
    r"\b(not|can) (to )?be had\b": "unavailable, available",
    r"\bin the making\b": "pending",
    r"\bby the look of\b": "judging by",
}
ANY_PRIVATE_WORD = re.compile("|".join(PRIVATE_WORDS), re.IGNORECASE)  # parsing only files that match takes a second
MARKDOWN = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = sorted((ROOT / "src").rglob("*.py"))
NATIVE = sorted(path for path in (ROOT / "src" / "native").iterdir() if path.suffix in {".cc", ".h"})


def comments_and_docstrings(source):
    """Yield the line and the text of every comment and of every string that is a statement."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def native_comments(source):
    """Yield the line and the text of every `//` comment."""
    for number, line in enumerate(source.splitlines(), start=1):
        if found := re.search(r'(?<![:"])//.*', line):
            yield number, found[0]


def private_words(texts):
    """Return each private word with its line and what to write instead."""
    return [
        f"line {line}: {found[0]!r}: write {instead!r}"
        for line, text in texts
        for pattern, instead in PRIVATE_WORDS.items()
        for found in re.finditer(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    ("paths", "texts"),
    [
        (PYTHON, comments_and_docstrings),
        (NATIVE, native_comments),
        (MARKDOWN, lambda source: enumerate(source.splitlines(), start=1)),
    ],
    ids=["Python", "C++", "Markdown"],
)
def test_no_private_word_is_used(paths, texts):
    assert paths
    sources = {path: path.read_text("utf-8") for path in paths}
    suspects = {path: source for path, source in sources.items() if ANY_PRIVATE_WORD.search(source)}
    found = {str(path.relative_to(ROOT)): private_words(texts(source)) for path, source in suspects.items()}
    assert {path: words for path, words in found.items() if words} == {}


def test_a_private_word_is_found_wherever_it_is():
    source = 'X = "nobody"  # nobody\n"""Whoever comes."""\n\n\ndef f():\n    """So many."""\n'
    assert [text.split(":")[1] for text in private_words(comments_and_docstrings(source))] == [
        " 'nobody'",
        " 'Whoever'",
        " 'So many'",
    ]
    assert private_words(native_comments("int a;  // in the making\n")) == ["line 1: 'in the making': write 'pending'"]
