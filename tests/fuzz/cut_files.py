"""Files of all formats with changed bytes: read in pieces they give the rows and errors that they give in one.

Half of them are read as strands: compressed, and cut while they are inflated.

python -m tests.fuzz.cut_files --seconds 600
"""

import random
import sys
import tempfile
import time
from pathlib import Path

from tests.cutting import COMPRESS, FORMS, check, check_strand, tar
from tests.framing import framed
from tests.fuzz import command
from tests.fuzz.texts import CSV, JSON, LINES, mutated

FILES = {
    "text": LINES,
    "bytes": LINES,
    "json": JSON,
    "csv": CSV,
    "csv-header": CSV,
    "csv-heading": b"a,b\n" + CSV,
    "csv-unquoted": CSV.replace(b",", b";"),
    "csv-quote-delimiter": CSV,
    "tfrecord": framed([b"record"] * 3 + [b"", framed([b"within"]), b"x" * 40]),
    "fixed": b"abcdef" * 20,
    "fixed-around": b"heading" + b"abcde" * 20 + b"foot",
    "tar": tar([("a.x", b"1"), ("a.y", b"2" * 600), ("b.x", b""), ("d" * 120 + "/b.X", b"3"), ("none", b"")])[:7168],
}


def compressed(data, codec, chance):
    """The data compressed, in one member or two; in every third file some bytes are changed after that."""
    parts = [data[:40], data[40:]] if codec == "GZIP" and chance.random() < 0.3 else [data]
    packed = b"".join(map(COMPRESS[codec], parts))
    return mutated(packed, chance) if codec and chance.random() < 0.3 else packed


def run(seconds, seed):
    chance = random.Random(seed)
    until = time.monotonic() + seconds
    runs = divided = 0
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "data")
        while time.monotonic() < until:
            kind = chance.choice(list(FILES))
            data = mutated(FILES[kind], chance)
            how = {
                "target": chance.choice([1, 2, 7, 30, 1000]),
                "chunk": chance.choice([1, 7, 64, None]),
                "go_on": chance.random() < 0.5,
            }
            try:
                if chance.random() < 0.5:
                    how["window"] = chance.choice([1, 5, 64, 700, 1 << 20])
                    divided += check(path, data, FORMS[kind], **how) > 1
                else:
                    how |= {"limit": chance.choice([100, 1 << 20]), "twice": chance.random() < 0.3}
                    how["codec"] = codec = chance.choice(list(COMPRESS))
                    data = compressed(FILES[kind] if chance.random() < 0.5 else data, codec, chance)
                    divided += check_strand(path, data, FORMS[kind], **how) > 1
            except BaseException:
                print(f"seed {seed}, run {runs}: {kind}, {how}, {data[:1000]!r}", file=sys.stderr)
                raise
            runs += 1
    return runs, divided


if __name__ == "__main__":
    command.main("cut files", __doc__, run, "files", "in several pieces")
