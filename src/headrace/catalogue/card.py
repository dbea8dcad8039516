"""A page that shows a dataset: rows, pictures, numbers, splits and features."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.core.types import Array, Component, Nested
from headrace.image.encode import encode_png
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.feature import ClassLabel, FeatureConnector, FeaturesDict, Image, SequenceFeature

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike

SHOWN_ROWS, COUNTED_ROWS, SHOWN_VALUES = 8, 2_000, 12
"""How many rows are shown, how many are counted, and how many values of each feature."""
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{border:1px solid #ccc;padding:.3rem .6rem;text-align:left;
vertical-align:top}th{background:#f4f4f4}img{image-rendering:pixelated;min-width:56px;max-width:160px}
code,pre{font-family:ui-monospace,monospace;white-space:pre-wrap}h2{margin-top:2rem}
"""


def card_page(builder: ReadOnlyBuilder) -> str:
    """Return the page, as HTML that needs nothing beside it."""
    info = builder.info
    split = next((name for name, s in info.splits.items() if s.num_examples), None)
    ds = builder.as_dataset(split).take(COUNTED_ROWS) if split else None
    facts = {
        "version": info.version, "config": info.config_name, "homepage": info.homepage, "license": info.license,
        "files": info.file_format, "input and label": info.supervised_keys,
    }  # fmt: skip
    parts = [
        f"<h1>{_text(info.name)}</h1>",
        f"<p>{_text(info.description)}</p>",
        _table(["", ""], [[name, str(value)] for name, value in facts.items() if value]),
        "<h2>Splits</h2>",
        _table(["split", "rows", "files"], [[n, f"{s.num_examples:,}", s.num_shards] for n, s in info.splits.items()]),
        "<h2>Features</h2>",
        _table(["feature", "what it is", ""], [list(row) for row in _features(info.features)]),
    ]
    if ds is not None:
        names = [name for name, _, _ in _features(info.features)]
        shown = [
            [_value(_at(row, name), _feature_at(info.features, name)) for name in names] for row in ds.take(SHOWN_ROWS)
        ]
        statistics = ds.statistics(most_frequent=SHOWN_VALUES, progress=False)
        classes = _classes(statistics, info.features)
        parts += [
            f"<h2>The first rows of {_text(str(split))}</h2>",
            _table(names, shown, raw=True),
            f"<h2>Statistics of the first {statistics.rows:,} rows of {_text(str(split))}</h2>",
            statistics._repr_html_(),
            _table(["feature", "classes"], classes) if classes else "",
        ]
    if info.release_notes:
        parts += ["<h2>Releases</h2>", _table(["version", ""], [[v, n] for v, n in sorted(info.release_notes.items())])]
    if info.citation:
        parts += ["<h2>Citation</h2>", f"<pre>{_text(info.citation)}</pre>"]
    title = _text(info.full_name)
    body = "\n".join(parts)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>{body}</html>\n"
    )


def _classes(statistics: Any, features: FeatureConnector) -> list[list[str]]:
    """Return how often each class comes, by feature."""
    made = []
    for name, found in statistics.items():
        feature = _feature_at(features, name)
        if isinstance(feature, ClassLabel):
            counts = sorted(found.most_frequent, key=lambda each: (-each[1], each[0]))
            known = range(feature.num_classes or 0)
            made.append([name, ", ".join(f"{feature.int2str(n) if n in known else 'none'}: {c:,}" for n, c in counts)])
    return made


def _features(feature: FeatureConnector, path: str = "") -> list[tuple[str, str, str]]:
    if isinstance(feature, FeaturesDict):
        return [row for name, child in sorted(feature.items()) for row in _features(child, f"{path}/{name}".strip("/"))]
    return [(path, repr(feature), feature.description)]


def _feature_at(feature: FeatureLike, path: str) -> FeatureConnector:
    for part in path.split("/"):
        feature = feature[part]
    return feature  # type: ignore[no-any-return]


def _at(row: Nested, path: str) -> Component:
    for part in path.split("/"):
        row = row[part]
    return row


def _value(value: Component, feature: FeatureConnector) -> str:
    """Return a value as a cell of a table."""
    inner = feature.feature if isinstance(feature, SequenceFeature) else feature
    if isinstance(inner, Image) and isinstance(value, np.ndarray) and value.dtype == np.uint8:
        pictures = [value] if value.ndim == 3 else list(value[:4])
        return " ".join(_picture(picture) for picture in pictures)
    if isinstance(feature, ClassLabel):
        number = int(value)
        return _text(f"{number} ({feature.int2str(number)})" if number >= 0 else "none")
    if hasattr(value, "_node"):
        return _text(f"{value!r}")
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return _text(text if len(text) <= 200 else text[:200] + "…")


def _picture(picture: Array) -> str:
    data = base64.b64encode(encode_png(picture)).decode()
    return f'<img alt="{picture.shape[1]} × {picture.shape[0]}" src="data:image/png;base64,{data}">'


def _text(value: object) -> str:
    return html.escape(str(value))


def _table(heads: list[str], rows: list[list[Any]], *, raw: bool = False) -> str:
    top = "".join(f"<th>{_text(head)}</th>" for head in heads) if any(heads) else ""
    cells = ["".join(f"<td>{cell if raw else _text(cell)}</td>" for cell in row) for row in rows]
    lines = "".join(f"<tr>{line}</tr>" for line in cells)
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{lines}</table>"
