"""Write a page of documentation for each public dataset: `python -m headrace.datasets.pages docs/datasets`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.catalogue.prepare import full_name, sizes_text
from headrace.datasets.declare import PublicDataset
from headrace.datasets.public import public_configs, public_names
from headrace.plan.display import bytes_text
from headrace.tfds.feature import labels_in
from headrace.tfds.features import Image

MAX_NAMES_SHOWN = 20


def dataset_pages() -> dict[str, str]:
    """Return the pages by file name, and an index of them."""
    pages = {f"{name}.md": "\n".join(_page(name)) + "\n" for name in public_names()}
    lines = ["# Public datasets", "", "| name | rows | download | what it is |", "| --- | --: | --: | --- |"]
    for name in public_names():
        dataset = next(iter(public_configs(name).values()))
        rows, size = sum(dataset.row_counts.values()), bytes_text(dataset.download_bytes)
        lines.append(f"| [{name}]({name}.md) | {rows:,} | {size} | {dataset.description} |")
    return {"README.md": "\n".join(lines) + "\n", **pages}


def image_of(dataset: PublicDataset) -> str | None:
    """Return the name of the feature that holds pictures, if there is one."""
    return next((name for name, each in dataset.feature.children().items() if isinstance(each, Image)), None)


def _page(name: str) -> Iterator[str]:
    configs = list(public_configs(name).values())
    first = configs[0]
    yield from (f"# {name}", "", first.description, "")
    yield from ("```python", f'ds = hr.load("{full_name(first)}", split="{next(iter(first.row_counts))}")', "```", "")
    yield f"- homepage: {first.homepage}"
    yield f"- version: {', '.join(map(str, first.versions))}"
    yield f"- licence: {first.license or 'not stated; see the homepage'}"
    if image_of(first) is not None:
        yield from ("", f"![Eight pictures of {name} and their classes](samples/{name}.png)", "")
        yield "*Made up, in the sizes, channels and classes of the dataset, by `tools/dataset_samples.py`.*"
    for dataset in configs:
        yield from _config(dataset)
    yield from ("", "```bibtex", first.citation, "```")


def _config(dataset: PublicDataset) -> Iterator[str]:
    if dataset.config is not None:
        said = f": {dataset.config_description}" if dataset.config_description else ""
        yield from ("", f"## {full_name(dataset)}{said}")
    rows = ", ".join(f"{split} {count:,}" for split, count in dataset.row_counts.items())
    yield from ("", f"{rows} rows; {sizes_text(dataset)}.", "", "| feature | |", "| --- | --- |")
    for name, feature in sorted(dataset.feature.children().items()):
        yield f"| `{name}` | `{feature!r}` |"
    if dataset.supervised_keys is not None:
        yield from ("", f"`as_supervised=True` gives `{dataset.supervised_keys}`.")
    for path, labels in labels_in(dataset.feature):
        if labels.named:
            more = ", …" if len(labels.names) > MAX_NAMES_SHOWN else ""
            yield from ("", f"Classes of `{'/'.join(path)}`: {', '.join(labels.names[:MAX_NAMES_SHOWN])}{more}")
    yield from ("", "| file | size | SHA-256 |", "| --- | --: | --- |")
    for source in dataset.source_files().values():
        yield f"| <{source.url}> | {bytes_text(source.size or 0)} | `{source.sha256}` |"


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for page, text in dataset_pages().items():
        (folder / page).write_text(text)
