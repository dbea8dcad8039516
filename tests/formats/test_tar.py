"""The kernel that finds the samples of an archive, against the same in Python."""

import tarfile

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cutting import tar
from tests.formats.test_cut import TARS

from headrace.formats.shared.format import ALL, ScanHints
from headrace.formats.webdataset.format import TarSamples

FORM = TarSamples(fields=("x", "y"))


def keys(column):
    return column if isinstance(column, list) else column.to_pylist()


def check(data, hints):
    raw = np.frombuffer(data, np.uint8)
    found, slowly = FORM._found(raw, hints), FORM._found_slowly(raw, hints)
    count = len(found.begins)
    assert found.begins.tolist() == slowly.begins.tolist()
    assert found.ends.tolist() == slowly.ends.tolist()
    assert keys(found.keys) == keys(slowly.keys)
    assert found.contents.tolist() == slowly.contents.tolist()
    if count < hints.most:  # else what follows has not been looked at by either, or by one of them
        assert str(found.wrong) == str(slowly.wrong)
        assert getattr(found.wrong, "at", None) == getattr(slowly.wrong, "at", None)
    return count


def header(name=b"a.x", size=b"0", kind=b"0", magic=b"ustar\0", prefix=b"", checksum=None):
    """A header of these fields, with the checksum that it should have unless another is given."""
    raw = bytearray(512)
    for start, value in ((0, name), (124, size), (156, kind), (257, magic), (345, prefix)):
        raw[start : start + len(value)] = value
    raw[148:156] = b" " * 8
    said = b"%06o\0 " % sum(raw) if checksum is None else checksum(sum(raw))
    raw[148:156] = said.ljust(8, b"\0")
    return bytes(raw)


def block(content):
    return content + bytes(-len(content) % 512)


FIELDS = {
    "size": st.sampled_from([b"0", b"", b"  7 \0", b"0000001\0junk", b"8", b"x", b"\x80" + bytes(10) + b"\x05"])
    | st.sampled_from(
        [b"\x80\x01" + bytes(10), b"\xff" * 12, b"\x80" + bytes(7) + b"\x01" + bytes(3), b"777777777777"]
    ),
    "kind": st.sampled_from([b"0", b"\0", b"5", b"L", b"K", b"x", b"g", b"1"]),
    "magic": st.sampled_from([b"ustar\0", b"ustar ", b""]),
    "prefix": st.sampled_from([b"", b"p", b"p/q", b"z" * 155]),
    "name": st.sampled_from(
        [b"a.x", b"a.y", b"/a.x", b"//a.x", b"./a.x", b"a", b".x", b"a.", b"a.b.x", b"\xff.x", b"a." * 50]
    )
    | st.sampled_from([b"__a.x", b"d.e/f", b"a.X", "a.É".encode(), "a.é".encode(), b"a.\xff", "ü.x".encode()]),
    "checksum": st.sampled_from(
        [None, None, None, None, lambda s: b"%o" % s, lambda s: b" %o" % s, lambda s: b"%d" % s]
    ),
}
CONTENTS = st.sampled_from(
    [
        b"",
        b"content",
        bytes(512),
        bytes(1024),
        b"long/name.x\0more",
        b"18 path=other.x\n",
        b"10 path=b\n",
        b"8 path=\n",
        b"7 path\n",
        b"1",
        b"0 x",
        b"5",
        b" 5",
        b"6 a=b\n11 path=c.y",
        b"9" * 5000,
        b"99 path=no",
    ]
)
CRAFTED = st.lists(st.tuples(st.fixed_dictionaries(FIELDS), CONTENTS), max_size=6).map(
    lambda drawn: b"".join(
        header(**{"size": b"%o" % len(c), **f} if f["size"] == b"0" else f) + block(c) for f, c in drawn
    )
)
HINTS = st.builds(
    lambda final, most: ScanHints(final=final > 0, cut=final > 1, most=most),
    st.integers(0, 2),
    st.sampled_from([1, 2, ALL]),
)


@example(tar([("a.x", b"1"), ("a.y", b"2"), ("b.x", b"3")]), ScanHints())
@given(data=TARS, hints=HINTS)
def test_the_kernel_finds_what_python_finds(data, hints):
    check(data, hints)


@given(data=CRAFTED, hints=HINTS)
def test_the_kernel_reads_odd_headers_as_python_does(data, hints):
    check(data, hints)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_and_other_alphabets_are_found(form):
    names = [f"{'d' * 90}/{'e' * 60}{i}.x" for i in range(3)] + ["ключ.x", "ключ.y", "a.É", "a.é"]
    assert check(tar([(name, b"1") for name in names], form), ScanHints()) == 6


def test_damage_is_told_where_it_is():
    data = bytearray(tar([(f"{i}.x", b"1") for i in range(5)]))
    data[2048] ^= 1
    found = FORM._found(np.frombuffer(bytes(data), np.uint8), ScanHints())
    assert len(found.begins) == 2
    assert (str(found.wrong), found.wrong.at) == ("the checksum of a tar header is wrong", 2048)
