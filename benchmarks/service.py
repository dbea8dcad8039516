"""A pipeline on the workers of a cluster: against one process, and against bare Arrow Flight.

python benchmarks/service.py                 2, 4 and 8 workers, as far as there are processors
python benchmarks/service.py --workers 16 --seconds 10
python benchmarks/service.py --only shares   what a trainer gains that is sent its own rows alone
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time

import numpy as np
import psutil

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
    """Rows a second of a whole pass, and the seconds until its first batch."""
    began = time.perf_counter()
    count, first = 0, 0.0
    for batch in ds:
        first = first or time.perf_counter() - began
        count += len(batch)
    assert count == rows, (count, rows)
    return rows / (time.perf_counter() - began), first


def heavy_rows(count):
    """What a worker does of a function's calls, and nothing else."""
    for i in range(count):
        heavy(i)


def bare_processes(pool, processes, rows):
    """Rows a second of as many processes with nothing around them: cores that share one, or its clock, are slower."""
    began = time.perf_counter()
    pool.map(heavy_rows, [rows // processes] * processes, chunksize=1)
    return rows / (time.perf_counter() - began)


def scaling(workers, seconds):
    """Rows per second of a function that keeps a CPU busy, local and on this many workers, in turn."""
    busy = max(1, min(workers, cpus()))
    rate, _ = rows_a_second(hr.Dataset.range(500).map(heavy, mode="eager").batch(25), 500)
    rows = -(-int(rate * seconds) // (100 * workers)) * 100 * workers  # as many batches for every split
    small = hr.Dataset.range(rows // 2).map(heavy, mode="eager").batch(25)
    plan = hr.Dataset.range(rows * busy).map(heavy, mode="eager").batch(25)
    with hr.cluster.local(workers) as cluster, multiprocessing.get_context("spawn").Pool(busy) as pool:
        cluster.wait_for(workers)
        bare_processes(pool, busy, busy * 50)
        made = plan.distribute_over(cluster, splits=4 * workers)
        first = first_batch(cluster)
        measured = []
        for _ in range(ROUNDS):
            used = time.process_time()
            here, _ = rows_a_second(small, rows // 2)
            used = (time.process_time() - used) / (rows // 2)
            before, began = cpu_seconds(cluster), time.perf_counter()
            there, waited = rows_a_second(made, rows * busy)
            took, work = time.perf_counter() - began, cpu_seconds(cluster) - before
            bare = bare_processes(pool, busy, rows * busy)
            cost = work / (rows * busy) / used
            measured.append((here, there, there / here, there / bare, waited, took, work / took / busy, cost))
    medians = [statistics.median(column) for column in zip(*measured, strict=True)]
    here, there, ratio, of_bare, waited, took, at_work, cost = medians
    return {
        "workers": workers,
        "processors": cpus(),
        "local rows/s": round(here),
        "cluster rows/s": round(there),
        "times local": round(ratio, 2),
        "of linear": round(ratio / busy, 2),
        "of as many bare processes": round(of_bare, 2),
        "pass s": round(took, 1),
        "its first batch s": round(waited, 3),
        "workers busy": round(at_work, 2),
        "processor time a row, of local": round(cost, 2),
        "first batch of a cheap plan s": round(first, 3),
    }


def cpu_seconds(cluster):
    """What all workers have used of processors."""
    return sum(sum(psutil.Process(member.handle).cpu_times()[:2]) for member in cluster.members())


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
    """MB/s of record batches of a megabyte that exist already, one stream."""
    from pyarrow import flight

    with flight.FlightClient(f"grpc://127.0.0.1:{port}") as client:
        began = time.perf_counter()
        size = 0
        for chunk in client.do_get(flight.Ticket(str(megabytes).encode())):
            size += np.array(chunk.data.column(0)).nbytes  # as arrays that may be kept
        return size / 1e6 / (time.perf_counter() - began)


def transport(seconds):
    """MB/s of rows of a megabyte that cost nothing to make, from one worker, against bare Flight from one process."""
    image = np.zeros((1, 1 << 20), np.uint8)
    with subprocess.Popen([sys.executable, "-c", FLIGHT], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        with hr.cluster.local(1) as cluster:
            cluster.wait_for(1)
            megabytes = max(100, int(bare_flight(port, 300) * seconds))
            ds = hr.Dataset.from_tensor_slices(image).repeat(megabytes)
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


WORLD = 4


def trainer_shares():
    """Steps a second of one trainer of four that is sent its own rows alone, against one that drops the others' itself.

    A stage between `distribute_over` and `distribute` keeps workers from knowing which rows are wanted.
    """
    image = np.zeros((1, 1 << 20), np.uint8)
    plans = {
        "rows of a megabyte": (hr.Dataset.from_tensor_slices(image).repeat(800), None),
        "a millisecond a row": (hr.Dataset.range(1600).map(heavy, mode="eager"), None),
        "the same behind a filter": (hr.Dataset.range(1600).map(heavy, mode="eager").filter(lambda x: x >= 0), None),
        "small rows, 32 a step": (hr.Dataset.range(400_000), 32),
    }
    found = {}
    with hr.cluster.local(2) as cluster:
        cluster.wait_for(2)
        for name, (plan, size) in plans.items():
            made = plan.distribute_over(cluster, splits=8)
            ways = [made.distribute(1, WORLD, size), made.prefetch(1).distribute(1, WORLD, size)]
            rates = [[], []]
            for _ in range(ROUNDS):
                for rate, ds in zip(rates, ways, strict=True):
                    began = time.perf_counter()
                    rate.append(sum(1 for _ in ds) / (time.perf_counter() - began))
            own, every = map(statistics.median, rates)
            found[name] = {"own rows": round(own), "all rows": round(every), "times": round(own / every, 2)}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--seconds", type=float, default=6.0, help="how long a pass takes, about")
    parser.add_argument("--only", choices=["shares"], help="one trainer of four, and nothing else")
    options = parser.parse_args()
    print(json.dumps({"one trainer of four": trainer_shares()}), flush=True)
    if options.only:
        return
    print(json.dumps({"transport": transport(options.seconds / 4)}), flush=True)
    for workers in options.workers:
        print(json.dumps(scaling(workers, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
