"""The file that `headrace dataset new` writes."""

from __future__ import annotations

TEMPLATE = '''"""The dataset {name}: build it with `headrace dataset build {name}.py`."""

import csv

import headrace as hr


@hr.dataset(
    "{name}",
    version="1.0.0",
    release_notes={{"1.0.0": "The first one."}},
    features={{
        "text": hr.tfds.features.Text(),
        "label": hr.tfds.features.ClassLabel(names=["no", "yes"]),
    }},
    supervised_keys=("text", "label"),
    sources={{"rows": hr.catalogue.SourceFile("{name}.csv", note="two columns, text and label, with a header")}},
    splits={{"train": 0, "test": 1}},
)
def {name}(part, sources):
    """What it is, in a sentence: every fifth row is for tests."""
    with open(sources["rows"], newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            if (number % 5 == 4) == bool(part):
                yield number, {{"text": row["text"], "label": row["label"]}}
'''
