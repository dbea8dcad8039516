"""Examples encoded by hand, in every way that the wire format allows, and a generator of them."""

import struct


def varint(value):
    value &= 2**64 - 1
    made = b""
    while value >= 128:
        made, value = made + bytes([value & 127 | 128]), value >> 7
    return made + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def ints(*values):
    return field(3, field(1, b"".join(varint(v) for v in values)))


def unpacked_ints(*values):
    return field(3, b"".join(varint(8) + varint(v) for v in values))


def floats(*values):
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))


def unpacked_floats(*values):
    return field(2, b"".join(varint(13) + struct.pack("<f", v) for v in values))


def texts(*values):
    return field(1, b"".join(field(1, v) for v in values))


def entry(name, feature):
    return field(1, field(1, name) + field(2, feature))


def swapped_entry(name, feature):
    return field(1, field(2, feature) + field(1, name))


def example(*entries):
    return field(1, b"".join(entries))


def steps(name, *features):
    return field(1, field(1, name) + field(2, b"".join(field(1, f) for f in features)))


def sequence_example(context, lists):
    return field(1, b"".join(context)) + field(2, b"".join(lists))


UNKNOWN = [
    field(9, b"who knows"),
    varint(10 << 3) + varint(77),
    varint(11 << 3 | 5) + b"four",
    varint(12 << 3 | 1) + b"8 bytes!",
]


class Generator:
    """Random Examples over the features i, f and b (and s, whose length is what the caller says)."""

    def __init__(self, random):
        self.random = random

    def count(self, fixed=None):
        return fixed if fixed is not None else self.random.choice([0, 1, 1, 2, 3, 7])

    def ints(self, count=None):
        spread = self.random.choice([5, 200, 2**33, 2**63 - 1])
        values = [self.random.randint(-spread, spread) for _ in range(self.count(count))]
        return (
            self.random.choice([ints, unpacked_ints])(*values)
            if values
            else self.random.choice([ints(), field(3, b"")])
        )

    def floats(self, count=None):
        values = [self.random.uniform(-9, 9) for _ in range(self.count(count))]
        return self.random.choice([floats, unpacked_floats])(*values)

    def texts(self, count=None):
        return texts(*(self.random.randbytes(self.random.choice([0, 1, 5, 200])) for _ in range(self.count(count))))

    def feature(self, kind, count=None):
        return {"i": self.ints, "f": self.floats, "b": self.texts}[kind[0]](count)

    def example(self, sizes, *, missing=0.2, empty=0.1, doubled=0.2):
        """An Example with the features that `sizes` names, by the first letter's kind; a size of None is any."""
        entries = []
        for name, size in sizes.items():
            if self.random.random() < missing:
                continue
            for _ in range(2 if self.random.random() < doubled else 1):
                feature = b"" if self.random.random() < empty else self.feature(name, size)
                entries.append(self.random.choice([entry, swapped_entry])(name.encode(), feature))
        for _ in range(self.random.randint(0, 2)):
            entries.append(entry(b"nobody asks", self.feature(self.random.choice("ifb"))))
        self.random.shuffle(entries)
        cut = self.random.randint(0, len(entries)) if self.random.random() < 0.3 else 0
        halves = [example(*entries[:cut]), example(*entries[cut:])]
        return b"".join(self._with_unknown(halves))

    def _with_unknown(self, parts):
        for part in parts:
            if self.random.random() < 0.2:
                yield self.random.choice(UNKNOWN)
            yield part
