"""Write the elements to WebDataset's tar files."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from headrace.cluster.members import Cluster
from headrace.columns import values
from headrace.columns.block import Block
from headrace.formats.shared.format import Format
from headrace.formats.webdataset.format import KEY, TarSamples
from headrace.formats.webdataset.tar import BLOCK, LONGEST_NAME, key_and_ending
from headrace.image.encode import encode_jpeg, encode_png
from headrace.sinks.deal import Sharding
from headrace.sinks.writing import Encoding, FileWriter, named_columns, write

if TYPE_CHECKING:
    from headrace.dataset import Dataset

SHOWN_KEY = 80
"""Characters of a key that an error shows."""


def write_webdataset(
    self: Dataset,
    path: str | os.PathLike[str],
    shards: int | Literal["auto"] | None = None,
    *,
    index: bool = True,
    num_parallel_writes: int | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    cluster: Cluster | None = None,
    servers: int | None = None,
    shard_bytes: int | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> list[str]:
    """Write all elements, dicts with a `__key__`, to tar files `PATH-00000-of-00010.tar` and so on; gives their names.

    Names of components are endings of files: bytes are written as they are, and else by the last part of the ending,
    images as `jpg` or `png`, arrays as `npy`, whole numbers and texts as text, anything as `json`. Rows are dealt out
    to files, and files appear, as by `write_tfrecord`; `index` makes an index of each. With a
    `cluster` its workers make the elements and write the files, which are the same to the byte.

    Args:
        path: Beginning of the names of the files.
        shards: Number of files, or "auto" (None is the same): as many as `hr.io.plan_shards` proposes.
        servers: Number of machines that read the files at the same time; 1 by default.
        shard_bytes: About how many bytes each file has.
        index: Whether to write an index of each file beside it, by which readers find elements by number. Compressed
            files and files in stores get none.
        num_parallel_writes: Number of threads that encode elements. Default: one per CPU.
        overwrite: Whether to replace existing files.
        progress: Whether to show a progress bar. Default: if standard error is a terminal.
        cluster: Workers that do the work; default: this process.
        storage_options: Options of the store's file system, such as credentials, if `path` is a URL. Those of
            `with_options(hr.Options(storage_options=...))` count too.

    Returns:
        The names of the files.

    >>> ds = hr.Dataset.range(2).map(lambda i: {"__key__": str(i), "cls": i})
    >>> [file.split("/")[-1] for file in ds.write_webdataset(folder / "digits")]
    ['digits-00000-of-00001.tar']
    """
    encoding = TarEncoding(index)
    return write(
        self,
        path,
        encoding,
        sharding=Sharding.of(shards, servers, shard_bytes),
        threads=num_parallel_writes,
        overwrite=overwrite,
        progress=progress,
        cluster=cluster,
        storage_options=storage_options,
    )


class EncodedSamples(NamedTuple):
    """The members of some samples, and the keys of these."""

    members: bytes
    keys: list[str]


class TarEncoding(Encoding):
    """Rows as members of an archive, without times and owners, so that the same rows give the same bytes."""

    suffix = ".tar"
    run_bytes = 1 << 22

    def __init__(self, index: bool) -> None:
        self._index = index

    def encode(self, blocks: list[Block]) -> EncodedSamples:
        parts, keys = [], []
        for block in blocks:
            for key, members in _samples(block):
                keys.append(key)
                parts += members
        return EncodedSamples(b"".join(parts), keys)

    def size(self, encoded: EncodedSamples) -> int:
        return len(encoded.members)

    def part(self, file: IO[bytes]) -> FileWriter:
        return Archive(file)

    @property
    def index_format(self) -> Format | None:
        return TarSamples() if self._index else None


class Archive(FileWriter):
    """Members, and the two empty blocks that end them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._last: str | None = None

    def write(self, encoded: EncodedSamples) -> None:
        for key in encoded.keys:
            if key == self._last:
                raise ValueError(
                    f"two samples in a row have the {KEY} {_shown(key)!r}: their files would have the same names, and "
                    "other readers refuse the second sample or lose the first; give each a key of its own, e.g. with "
                    f"enumerate().map(lambda i, x: {{**x, '{KEY}': str(i)}})"
                )
            self._last = key
        self._file.write(encoded.members)

    def close(self) -> None:
        self._file.write(bytes(2 * BLOCK))


def _samples(block: Block) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the key of each sample, and its members."""
    columns = named_columns(block, "a sample is made of a dict")
    if KEY not in columns:
        raise TypeError(f"a sample needs a {KEY}: map(lambda x: {{'{KEY}': ..., **x}}) gives it one")
    keys = values(columns.pop(KEY))
    if not columns:
        raise TypeError(f"a sample of nothing but a {KEY} has no files and would not be read back: add a component")
    for key, *row in zip(keys, *[values(column) for column in columns.values()], strict=True):
        base = key.decode(errors="surrogateescape") if isinstance(key, bytes) else str(key)
        fields = zip(columns, row, strict=True)
        yield base, [tar_member(member_name(base, ending), file_content(ending, value)) for ending, value in fields]


def member_name(key: str, ending: str) -> str:
    """Return the name of a sample's file; raises ValueError if a reader would not get back this key and ending."""
    name = f"{key}.{ending}"
    shown = f"{KEY} {_shown(key)!r} with the ending {ending!r}"
    try:
        size = len(name.encode(errors="surrogateescape"))
    except UnicodeEncodeError as error:
        raise ValueError(f"{shown} cannot be written as UTF-8: {error.reason}") from None
    if size >= LONGEST_NAME:
        raise ValueError(f"{shown} is a name of {size} bytes, and readers take fewer than {LONGEST_NAME}: shorten it")
    if "\0" in name:
        raise ValueError(f"{shown} would not be read back as these: it holds a NUL, which ends names in tar files")
    if key_and_ending(name) != (key, ending):
        raise ValueError(
            f"{shown} would not be read back as these: a key has no dot in its last part, which is not empty and does "
            "not begin with '__', and no './' or lone '/' at its start; an ending is in lower case and has no slash"
        )
    return name


def _shown(key: str) -> str:
    return key if len(key) <= SHOWN_KEY else key[:SHOWN_KEY] + "…"


def tar_member(name: str, content: bytes) -> bytes:
    """Return a file within an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return b"".join([header, content, bytes(-len(content) % BLOCK)])


def file_content(ending: str, value: object) -> bytes:
    """Return a component as the bytes of a file that ends so."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    last = ending.rpartition(".")[2]
    if last in ("jpg", "jpeg"):
        return encode_jpeg(value)
    if last == "png":
        return encode_png(value)
    if last == "npy":
        out = io.BytesIO()
        np.save(out, np.asarray(value), allow_pickle=False)
        return out.getvalue()
    if last == "json":
        return json.dumps(value.tolist() if isinstance(value, np.ndarray | np.generic) else value).encode()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, np.generic | int) and np.asarray(value).dtype.kind in "iu":
        return str(int(value)).encode()
    raise TypeError(f"nothing says how {type(value).__name__} becomes a file that ends in {ending!r}: make bytes of it")
