"""Make the pages of the API reference and of the command line from the package; MkDocs calls this by a hook."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

READERS = [
    "ArrowDataset", "BatchSource", "BigQueryDataset", "CsvDataset", "FixedLengthRecordDataset", "JsonLinesDataset",
    "ParquetDataset", "Quarantine", "SqlDataset", "TFRecordDataset", "TextLineDataset", "WebDataset",
    "image_dataset_from_directory", "load", "make_csv_dataset", "text_dataset_from_directory",
    "timeseries_dataset_from_array",
]  # fmt: skip
MODULES = [
    "io", "image", "text", "feature_column", "preprocessing", "tfds", "catalogue", "cluster", "observe", "checkpoint",
]  # fmt: skip
CHECKPOINT = ["to_array", "from_array", "orbax.FeedSave", "orbax.FeedRestore"]


def home(value: Any) -> str:
    """Return the path under which mkdocstrings finds a function or class."""
    return f"{value.__module__}.{value.__qualname__}"


def entry(shown: str, value: Any) -> str:
    """Return the lines that document one name."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return f"## `{shown}` {{ #{shown} }}\n\nThe constant `{value!r}`.\n"
    return entry_of_path(shown, home(value))


def entry_of_path(shown: str, path: str) -> str:
    """Return the lines that document the function or class with an import path."""
    options = [f'heading: "{shown}"', f'toc_label: "{shown}"', "show_root_heading: true", "heading_level: 2"]
    return "\n".join([f"::: {path}", "    options:", *(f"      {option}" for option in options), ""])


def dataset_methods() -> list[tuple[str, Any]]:
    """Return the public methods and properties of Dataset, sorted by name."""
    import headrace as hr

    found = []
    for name in sorted(name for name in dir(hr.Dataset) if not name.startswith("_")):
        getattr(hr.Dataset, name)  # imports methods that are imported on first use
        value = inspect.getattr_static(hr.Dataset, name)
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        found.append((name, value.fget if isinstance(value, property) else value))
    return found


def pages() -> dict[str, str]:
    """Return the text of each generated page by its path in the documentation."""
    import headrace as hr

    made = {}
    intro = "Operations are methods: `hr.Dataset.range(10).batch(2)`. Sources are called on the class.\n\n"
    body = "\n".join(entry(f"hr.Dataset.{name}", value) for name, value in dataset_methods())
    made["reference/dataset.md"] = f"# Dataset\n\n{intro}{body}"
    readers = "\n".join(entry(f"hr.{name}", getattr(hr, name)) for name in READERS)
    made["reference/readers.md"] = f"# Readers\n\n{readers}"
    others = [name for name in hr.__all__ if name not in (*READERS, *MODULES, "Dataset")]
    rest = "\n".join(entry(f"hr.{name}", getattr(hr, name)) for name in others)
    made["reference/core.md"] = f"# Iterators, options and errors\n\n{rest}"
    for name in MODULES:
        module = importlib.import_module(f"headrace.{name}")
        summary = (module.__doc__ or "").strip().split("\n\n")[0]
        if name == "checkpoint":  # its Orbax part cannot be imported without Orbax
            shown = {f"hr.checkpoint.{each}": f"headrace.checkpoint.{each}" for each in CHECKPOINT}
            body = "\n".join(entry_of_path(*each) for each in shown.items())
        else:
            body = "\n".join(entry(f"hr.{name}.{each}", getattr(module, each)) for each in module.__all__)
        made[f"reference/{name}.md"] = f"# hr.{name}\n\n{summary}\n\n{body}"
    testing = importlib.import_module("headrace.testing")
    kit = [entry(f"headrace.testing.{name}", getattr(testing, name)) for name in ("check_transformation", "check_feed")]
    made["reference/testing.md"] = "# headrace.testing\n\n" + "\n".join(kit)
    made["cli.md"] = command_line()
    return made


def command_line() -> str:
    """Return the page of the command line, from the help texts of the commands."""
    import typer.main

    from headrace.cli.main import app

    group: Any = typer.main.get_command(app)
    lines = ["# Command line", "", "```", "pip install headrace", "headrace COMMAND [OPTIONS]", "```", ""]
    lines += [(group.help or "").strip(), "", "`headrace --version` prints the version.", ""]
    for name, command in sorted(group.commands.items()):
        children = getattr(command, "commands", None)
        if children is None:
            lines += _command(f"headrace {name}", command)
        else:
            for child, inner in sorted(children.items()):
                lines += _command(f"headrace {name} {child}", inner)
    lines += ["## Exit codes", "", "| code | meaning |", "| --- | --- |", "| 0 | success |"]
    lines += ["| 1 | bad records were found, or a check failed |", "| 2 | the command could not be run |"]
    return "\n".join([*lines, "| 130 | interrupted |", ""])


def _command(path: str, command: Any) -> list[str]:
    import inspect as inspection

    text = inspection.cleandoc(command.help or "").replace("\f", "")
    prose, _, example = text.partition("\n\nExample")
    lines = [f"## `{path}`", "", prose, ""]
    if example:
        commands = [line.strip() for line in example.splitlines() if line.strip().startswith(("headrace", "HEADRACE"))]
        lines += ["```", *commands, "```", ""]
    rows = []
    for parameter in command.params:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.name.upper()}`"
        explained = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
        rows.append(f"| {names} | {explained} |")
    if rows:
        lines += ["| argument | meaning |", "| --- | --- |", *rows, ""]
    return lines
