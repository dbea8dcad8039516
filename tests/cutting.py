"""Files read whole and in pieces, and whether both give the same."""

import gzip
import io
import tarfile
import zlib
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.formats.csv.columns import CsvColumn
from headrace.formats.csv.format import Csv
from headrace.formats.fixed.format import FixedLength
from headrace.formats.jsonl.format import JsonLines
from headrace.formats.shared.reader import START, GoodRows, Reader, RecordAt
from headrace.formats.shared.strand import Strand, strand_pieces
from headrace.formats.text.format import Lines
from headrace.formats.tfrecord.format import TFRecords
from headrace.formats.webdataset.format import TarSamples

COLUMNS = (CsvColumn("int32"), CsvColumn("bytes", b""))


def csv_form(**options):
    return Csv(columns=COLUMNS, arranged=("a", "b"), **options)


FORMS = {
    "text": Lines(),
    "bytes": Lines(encoding=None),
    "json": JsonLines(schema=pa.schema({"x": pa.int64(), "s": pa.string()})),
    "csv": csv_form(),
    "csv-header": csv_form(header=True),
    "csv-heading": csv_form(header=True, heading=("a", "b")),
    "csv-unquoted": csv_form(quotes=False, delimiter=";"),
    "csv-quote-delimiter": csv_form(delimiter='"'),
    "tfrecord": TFRecords(),
    "fixed": FixedLength(record_bytes=3),
    "fixed-around": FixedLength(record_bytes=5, header_bytes=7, footer_bytes=4),
    "tar": TarSamples(fields=("x",)),
}


def tar(members, form=tarfile.GNU_FORMAT):
    """The bytes of an archive: names and contents, of a folder None."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            archive.addfile(info, None if content is None else io.BytesIO(content))
    return buffer.getvalue()


def cuts(data, form, target, window):
    """Where the pieces of a file begin, found in windows of about this many bytes."""
    raw = np.frombuffer(data, np.uint8)
    found, size = [START], window
    while True:
        at = found[-1]
        final = at.offset + size >= len(raw)
        seen = raw[at.offset : at.offset + size].copy()
        points = form.cut(seen, target, first=at.offset == 0, final=final)
        assert points.offsets.dtype == points.rows.dtype == points.lines.dtype == np.int64
        before = 0
        for offset, rows, lines in zip(*(array.tolist() for array in points), strict=True):
            assert offset - before >= target
            assert offset < len(seen)
            before = offset
            found.append(RecordAt(at.offset + offset, at.number + rows, at.line + lines))
        if final:
            return found
        size = window if found[-1] != at else 2 * size


class Reading:
    """The output of a reader: rows and bad records by number, and the position of each item."""

    def __init__(self, path, form, **options):
        self.rows, self.bad, self.places, self.order = {}, {}, {}, []
        self._path, self._form, self._options = path, form, options

    def read(self, at=START, stop=None, **held):
        """Add a piece; returns where its reader was at the end, None where a bad record ended the file."""
        reader = Reader(self._path, self._form, at, stop=stop, **held, **self._options)
        while found := reader.read():
            for item in found:
                self._add(item)
        return None if reader.ended_early else reader.at

    def _add(self, item):
        self.places[item.at.number] = item.at
        self.order += range(item.at.number, item.at.number + item.rows)
        if isinstance(item, GoodRows):
            columns = [c.to_pylist() if isinstance(c, pa.Array) else list(c) for c in item.columns]
            for i, row in enumerate(zip(*columns, strict=True)):
                self.rows[item.at.number + i] = repr(row)
        else:
            self.bad[item.at.number] = (item.reason, item.at, b"".join(item.pieces))


def check(path, data, form, target, window, chunk=None, go_on=False):
    """Read a file whole and in pieces; returns how many pieces there are."""
    path.write_bytes(data)
    options = {"go_on": go_on, "chunk": chunk}
    whole = Reading(str(path), form, **options)
    whole.read()
    rowwise = Reading(str(path), form, go_on=go_on, chunk=1)  # each row is an item
    rowwise.read()
    pieces = Reading(str(path), form, **options)
    starts = cuts(data, form, target, window)
    for i, at in enumerate(starts):
        last = i + 1 == len(starts)
        assert last or at.offset < starts[i + 1].offset <= len(data)
        assert last or at.number < starts[i + 1].number, "each piece holds a record"
        assert at.number not in rowwise.places or i == 0 or at == rowwise.places[at.number]
        end = pieces.read(at, None if last else starts[i + 1].offset)
        if end is None:
            break
        assert last or end == starts[i + 1]
    _compare(whole, pieces, rowwise)
    return len(starts)


def _compare(whole, pieces, rowwise):
    assert pieces.order == whole.order == sorted(whole.order)
    assert pieces.rows == whole.rows
    assert pieces.bad == whole.bad
    for found in (whole, pieces):
        assert {n: at for n, at in found.places.items() if rowwise.places.get(n, at) != at} == {}


def zstd(data):
    """The data, compressed."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress, "ZSTD": zstd}


def check_strand(path, packed, form, codec, target, chunk=None, go_on=False, limit=1 << 20, twice=False):
    """Read a file that may be compressed whole, and in pieces that hold their bytes; returns how many there are.

    With `twice` each piece is read two times, as after a failure. `limit` is how many bytes may be held without a cut.
    """
    path.write_bytes(packed)
    form = replace(form, compression=codec)
    options = {"go_on": go_on, "chunk": chunk}
    whole = Reading(str(path), form, **options)
    whole.read()
    rowwise = Reading(str(path), form, go_on=go_on, chunk=1)
    rowwise.read()
    pieces = Reading(str(path), form, **options)
    opener = Reader(str(path), form, chunk=chunk)
    if opener.refusal() is not None:
        opener.close()
        return 0
    strand = Strand(*opener.hand_over())
    count = 0
    for at, stop, held in strand_pieces(strand, form, lambda: target, limit):
        count += 1
        for _ in range(1 + twice):
            order = list(pieces.order)
            end = pieces.read(at, stop, file=strand.file, held=held)
            if twice and _ == 0:
                pieces.order = order
        held.release()
        if end is None:
            break
        assert stop is None or end.offset == stop
    strand.file.close()
    _compare(whole, pieces, rowwise)
    return count
