"""A pipeline on the workers of a cluster: against one process, and against bare Arrow Flight.

python benchmarks/service.py                 2, 4 and 8 workers, as far as there are processors
python benchmarks/service.py --workers 16
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import numpy as np

import headrace as hr
from headrace.execute.budget import cpus

ROUNDS = 3


def heavy(x):
    """About a millisecond of Python, which no thread of the same process could do at the same time."""
    total = int(x)
    for i in range(12_000):
        total = (total * 31 + i) % 1_000_003
    return total


def rows_a_second(ds, rows):
    began = time.perf_counter()
    count = sum(len(batch) for batch in ds)
    assert count == rows, (count, rows)
    return rows / (time.perf_counter() - began)


def scaling(workers):
    """Rows a second of a function that keeps a processor busy, local and on so many workers, in turn."""
    plan = hr.Dataset.range(1500 * max(1, min(workers, cpus()))).map(heavy, mode="eager").batch(25)
    small = hr.Dataset.range(1500).map(heavy, mode="eager").batch(25)
    with hr.cluster.local(workers) as cluster:
        cluster.wait_for(workers)
        made = plan.distribute_over(cluster, splits=4 * workers)
        first = first_batch(cluster)
        pairs = []
        for _ in range(ROUNDS):
            here = rows_a_second(small, 1500)
            pairs.append((here, rows_a_second(made, int(plan._node.input.input.cardinality))))
    ratio = statistics.median(there / here for here, there in pairs)
    return {
        "workers": workers,
        "processors": cpus(),
        "local rows/s": round(statistics.median(p[0] for p in pairs)),
        "cluster rows/s": round(statistics.median(p[1] for p in pairs)),
        "times local": round(ratio, 2),
        "of linear": round(ratio / min(workers, cpus()), 2),
        "first batch s": round(first, 3),
    }


def first_batch(cluster):
    """Seconds from a new pipeline to its first batch, on a cluster that runs."""
    began = time.perf_counter()
    with hr.Dataset.range(1000).map(lambda x: x * 2).batch(10).distribute_over(cluster, splits=8).iterator() as it:
        next(it)
    return time.perf_counter() - began


FLIGHT = """
import pyarrow as pa, pyarrow.flight as fl, numpy as np
batch = pa.record_batch([pa.array(np.zeros(1 << 20, np.uint8))], names=["x"])
class Server(fl.FlightServerBase):
    def do_get(self, context, ticket):
        return fl.GeneratorStream(batch.schema, (batch for _ in range(int(ticket.ticket))))
server = Server("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""


def bare_flight(port, megabytes):
    """MB/s of record batches of a megabyte that somebody has made already, one stream."""
    from pyarrow import flight

    with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
        began = time.perf_counter()
        size = 0
        for chunk in client.do_get(flight.Ticket(str(megabytes).encode())):
            size += np.array(chunk.data.column(0)).nbytes  # as arrays that may be kept
        return size / 1e6 / (time.perf_counter() - began)


def transport(megabytes=600):
    """MB/s of rows of a megabyte that cost nothing to make, from one worker, against bare Flight from one process."""
    image = np.zeros((1, 1 << 20), np.uint8)
    ds = hr.Dataset.from_tensor_slices(image).repeat(megabytes)
    with subprocess.Popen([sys.executable, "-c", FLIGHT], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        with hr.cluster.local(1) as cluster:
            cluster.wait_for(1)
            made = ds.distribute_over(cluster, splits=2)
            pairs = []
            for _ in range(ROUNDS + 1):
                bare = bare_flight(port, megabytes)
                began = time.perf_counter()
                size = sum(row.nbytes for row in made)
                pairs.append((bare, size / 1e6 / (time.perf_counter() - began)))
        server.kill()
    pairs = pairs[1:]
    return {
        "bare Flight MB/s": round(statistics.median(p[0] for p in pairs)),
        "rows MB/s": round(statistics.median(p[1] for p in pairs)),
        "ratio": round(statistics.median(ours / bare for bare, ours in pairs), 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8])
    options = parser.parse_args()
    print(json.dumps({"transport": transport()}), flush=True)
    for workers in options.workers:
        print(json.dumps(scaling(workers)), flush=True)


if __name__ == "__main__":
    main()
