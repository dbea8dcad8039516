"""The meaning of `WebDataset`, by Python's own reader of archives."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from itertools import groupby

from headrace.formats.webdataset.format import KEY, TarSamples
from headrace.formats.webdataset.tar import key_and_ending
from headrace.reference.records import NaiveRecord, Wrong, read_records


@read_records.register
def _(form: TarSamples, data: bytes, *, go_on: bool) -> Iterator[NaiveRecord]:
    del go_on
    with tarfile.open(fileobj=io.BytesIO(data), ignore_zeros=True) as archive:
        files = [(m, named) for m in archive if m.isreg() and (named := key_and_ending(m.name)) is not None]
        for key, group in groupby(files, lambda file: file[1][0]):
            members = {ending: m for m, (_, ending) in group}
            first = min(m.offset for m in members.values())
            missing = [field for field in form.fields if field not in members]
            if missing:
                yield Wrong(f"sample {key!r} has no {missing[0]!r}"), first, 0
                continue
            contents = {field: archive.extractfile(members[field]).read() for field in form.fields}  # type: ignore[union-attr]
            yield {KEY: key, **contents}, first, 0
