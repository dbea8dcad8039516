"""Tar archives: their members, and the samples of WebDataset that members of similar names make up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.formats.shared.files import Bytes

BLOCK = 512
EMPTY = bytes(BLOCK)
LONGEST_NAME = 1 << 16


class Member(NamedTuple):
    """A file in an archive: its name, and the offsets of its headers, its content, and the next header."""

    name: str
    begin: int
    start: int
    stop: int
    end: int


class Sample(NamedTuple):
    """Members of one key, by their endings."""

    key: str
    begin: int
    end: int
    members: dict[str, Member]


class DamageError(ValueError):
    """A header is missing or exceeds the bytes; `at` is its offset."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


class MoreNeededError(ValueError):
    """The bytes end within a member that begins at `at`."""

    def __init__(self, at: int) -> None:
        super().__init__("the file ends within a member")
        self.at = at


def members(data: Bytes) -> Iterator[Member]:
    """Yield the files of an archive, of which `data` may be a part from some header on."""
    at, begin, long_name = 0, None, ""
    while at + BLOCK <= len(data):
        header = data[at : at + BLOCK].tobytes()
        if header == EMPTY and begin is None:
            at += BLOCK
            continue
        size, name = _size_and_name(header, at)
        begin = at if begin is None else begin
        start = at + BLOCK
        end = start + -(-size // BLOCK) * BLOCK
        kind = header[156:157]
        if kind in b"LKxg" and size > LONGEST_NAME:
            raise DamageError(f"a header of {size} bytes", begin)
        if start + size > len(data):
            raise MoreNeededError(begin)
        if kind == b"L":
            long_name = _text(data[start : start + size].tobytes())
        elif kind == b"x":
            long_name = _path_of_record(data[start : start + size].tobytes()) or long_name
        elif kind not in b"Kg":
            if kind in b"0\0":
                yield Member(long_name or name, begin, start, start + size, end)
            begin, long_name = None, ""
        at = end
    if begin is not None or at < len(data):
        raise MoreNeededError(at if begin is None else begin)


def _size_and_name(header: bytes, at: int) -> tuple[int, str]:
    said = header[148:156].split(b"\0")[0].strip()
    summed = sum(header) - sum(header[148:156]) + 8 * 32
    if not said or not all(48 <= byte < 56 for byte in said) or int(said, 8) != summed:
        raise DamageError("the checksum of a tar header is wrong", at)
    field = header[124:136]
    if field[0] & 0x80:
        size = int.from_bytes(field[1:], "big")
    else:
        digits = field.split(b"\0")[0].strip() or b"0"
        if not all(48 <= byte < 56 for byte in digits):
            raise DamageError("the size in a tar header is no number", at)
        size = int(digits, 8)
    name, prefix = _text(header[:100]), _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    return size, f"{prefix}/{name}" if prefix else name


def _text(field: bytes) -> str:
    return field.split(b"\0")[0].decode(errors="surrogateescape")


def _path_of_record(content: bytes) -> str:
    """Return the path in an extended header, whose lines are `length key=value`."""
    while content:
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or len(length) > 9 or not 0 < int(length) <= len(content):
            return ""
        key, _, value = content[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            return value.decode(errors="surrogateescape")
        content = content[int(length) :]
    return ""


def missing_end(data: Bytes) -> str:
    """Return what the end of an archive lacks; empty if nothing.

    A tar archive ends with empty blocks. If they are missing, the file may have been cut between two members.

    Args:
        data: The last bytes of the archive, from a header on; its members are whole.

    Raises:
        DamageError: The archive ends within the padding of its last member.
    """
    at, ended = 0, False
    while at + BLOCK <= len(data):
        header = data[at : at + BLOCK].tobytes()
        ended = header == EMPTY
        if ended and not data[at:].any():  # at once: there may be gigabytes
            return ""
        at += BLOCK
        if not ended:
            size, _ = _size_and_name(header, at)
            at += -(-size // BLOCK) * BLOCK
    if at > len(data):
        raise DamageError("the file ends within the padding of its last member", len(data))
    return "" if ended else "the empty blocks that end a tar archive"


def key_and_ending(name: str) -> tuple[str, str] | None:
    """Split a name at the first dot of its last part. Return None if the file is part of no row."""
    name = name.removeprefix("./")
    folder, _, file = name.rpartition("/")
    base, dot, ending = file.partition(".")
    if not dot or not ending or not base or base.startswith("__"):
        return None
    return f"{folder}/{base}" if folder else base, ending.lower()


def samples(data: Bytes, *, final: bool, cut: bool = False) -> Iterator[Sample]:
    """Yield the rows of an archive; of a part that is not `final`, those that are known to be complete.

    With `cut` another sample begins at the end of the final part.
    """
    open_one: Sample | None = None
    try:
        for member in members(data):
            named = key_and_ending(member.name)
            if named is None:
                continue
            key, ending = named
            if open_one is not None and (key != open_one.key or ending in open_one.members):
                yield open_one._replace(end=member.begin)
                open_one = None
            if open_one is None:
                open_one = Sample(key, member.begin, member.end, {})
            open_one.members[ending] = member
            open_one = open_one._replace(end=member.end)
    except MoreNeededError as error:
        if not final:
            return
        if open_one is not None:
            yield open_one._replace(end=error.at)
        raise DamageError("the file ends within a member", error.at) from None
    except DamageError:
        if open_one is not None:
            yield open_one
        raise
    if final and open_one is not None:
        yield open_one._replace(end=len(data)) if cut else open_one
