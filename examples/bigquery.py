"""Read a table of your own from BigQuery, stop, resume from the state, and compare.

python examples/bigquery.py project.dataset.table [rows]
"""

import json
import sys
from itertools import islice
from time import perf_counter

import headrace as hr
from headrace.testing import same


def main(table: str, rows: int = 100_000) -> None:
    """Read `rows` rows twice: in one go, and in two."""
    ds = hr.BigQueryDataset(table, max_streams=4)
    print(ds)
    with ds.iterator() as it:
        started = perf_counter()
        first = list(islice(it, rows // 2))
        state = json.loads(json.dumps(it.state()))
        rest = list(islice(it, rows - len(first)))
        print(f"{(len(first) + len(rest)) / (perf_counter() - started):,.0f} rows/s")
    with ds.iterator(state) as again:
        resumed = list(islice(again, len(rest)))
    print("resumed exactly:", len(resumed) == len(rest) and all(map(same, resumed, rest)))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:3]))
