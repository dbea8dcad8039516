"""Store rows as parts: runs of rows with one storage layout, each an Arrow file and a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.columns import Notes
from headrace.columns.block import Block, Failure, Ids, Item, source_ids
from headrace.core.types import JsonObject
from headrace.errors import ElementError, StorageError
from headrace.storage.columns import encoded
from headrace.storage.files import whole_file, write_page
from headrace.storage.parts import DATA, PAGE, StoredPart, checksum
from headrace.storage.structures import Types, plain_structure

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class _Run:
    """Rows with one storage layout, which go into one file; failures go anywhere."""

    schema: pa.Schema | None = None
    structure: object = None
    how: list[Notes] = field(default_factory=list)
    entries: list[tuple[Item, list[pa.Array]]] = field(default_factory=list)

    def takes(self, schema: pa.Schema, structure: object, how: list[Notes]) -> bool:
        """Return whether such rows fit in; the first ones decide."""
        if self.schema is None:
            self.schema, self.structure, self.how = schema, structure, how
        return bool(self.schema.equals(schema)) and (self.structure, self.how) == (structure, how)


def write_parts(
    directory: Path, start: int, items: Iterable[Item], types: Types, *, compression: str | None, notes: object
) -> list[StoredPart]:
    """Write rows from number `start` on: one part, or several if their columns differ in kind.

    `notes`, whatever JSON can hold, go to the page of the last.
    """
    runs = _runs(items)
    made: list[StoredPart] = []
    for run in runs:
        path = directory / f"{start:012}{DATA}"
        _write(path, run, compression, notes if run is runs[-1] else None)
        made.append(StoredPart(path, types))
        start += made[-1].rows
    return made


def _runs(items: Iterable[Item]) -> list[_Run]:
    import pyarrow as pa

    runs = [_Run()]
    for item in items:
        arrays: list[pa.Array] = []
        if isinstance(item, Block):
            try:
                pairs = [encoded(column) for column in item.columns]
            except StorageError as error:
                raise StorageError(f"elements {item.structure} cannot be stored: {error}") from error
            arrays = [array for array, _ in pairs] + _id_arrays(item.ids)
            names = [path or "value" for path in item.structure.paths] + ["headrace ids"]
            schema = pa.schema([pa.field(n, a.type) for n, a in zip(names, arrays, strict=False)])
            kind = (schema, plain_structure(item.structure), [how for _, how in pairs])
            if not runs[-1].takes(*kind):
                runs.append(_Run())
                runs[-1].takes(*kind)
        runs[-1].entries.append((item, arrays))
    return runs


def _write(path: Path, run: _Run, compression: str | None, notes: object) -> None:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    schema = run.schema or pa.schema([])
    options = pa.ipc.IpcWriteOptions(compression=compression)
    items: list[Any] = []
    cuts: list[int] = []
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for item, arrays in run.entries:
            if isinstance(item, Failure):
                items.append(_plain_error(item.error))
                continue
            items.append({"rows": item.rows, "ids": None if len(arrays) > len(item.columns) else _run_of_ids(item.ids)})
            if arrays:  # elements without components are only counted
                cuts.append(sink.tell())
                writer.write_batch(pa.record_batch(arrays, schema=schema))
        cuts.append(sink.tell())
    data = sink.getvalue()
    cuts.append(data.size)
    with whole_file(path) as file:
        file.write(data)
    page = {
        "cuts": cuts,
        "crcs": [checksum(data[a:b]) for a, b in zip([0, *cuts], cuts, strict=False)],
        "structure": run.structure,
        "how": run.how,
        "items": items,
        "notes": notes,
    }
    write_page(path.with_suffix(PAGE), page)


def _run_of_ids(ids: Ids | None) -> list[int] | None:
    """Return the first of ids that count up on one path, None for others."""
    if ids is None or not ids.size:
        return None
    path, first = ids[0].tolist()
    return [path, first] if (ids == source_ids(path, np.arange(first, first + len(ids)))).all() else None


def _id_arrays(ids: Ids | None) -> list[pa.Array]:
    if ids is None or _run_of_ids(ids) is not None:
        return []
    return [encoded(ids)[0]]


def _plain_error(error: ElementError) -> JsonObject:
    return {
        "error": list(map(str, error.args)),
        "operation": error.operation,
        "ordinal": int(error.ordinal),
        "site": error.site,
        "provenance": error.provenance,
    }
