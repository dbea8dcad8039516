"""Clusters that are too large to try: workers and trainers by the hundred, and machines that fail.

python benchmarks/service_simulation.py                1,000 workers, 256 trainers, each machine fails once a day
python benchmarks/service_simulation.py --measure      the simulator beside real passes on 1, 2, 4 and 8 local workers

The model is that of headrace.cluster: a trainer has `splits` open, which take turns row by row; a worker shares its
time among its splits that have room in their trainer's buffer; a worker that is gone loses its splits to others, where
they are open again after `reopen` seconds; one that is back gets its share; a split that is waited for more than all
others goes to another worker. There is no coordinator: memory and traffic are counted per trainer.
"""

import argparse
import json
import threading
import time
from functools import partial

import numpy as np

DAY = 86_400.0
ROW_BYTES = 150_000
"""A small image, decoded."""
BUFFER_BYTES = 64 << 20
WINDOW_SECONDS, SLOW = 10.0, 0.2
"""How often a trainer looks back, and which part of the time must have been waiting for it to move a split."""
MARK_BYTES = 400
"""What a split's place takes in a state, as JSON."""


def simulate(  # noqa: PLR0915
    *, workers, trainers, splits, rows_a_second, demand, seconds, failures_a_day=1.0, down=60.0, reopen=2.0,
    hangs=0.1, timeout=60.0, step=0.05, seed=0, row_bytes=ROW_BYTES, rows=None, opening=0.0,
):  # fmt: skip
    """What comes of it: `rows_a_second` is what one worker makes, `demand` what one trainer could use.

    Of the failures a share of `hangs` is noticed only after `timeout` seconds. A pass of `rows` rows a trainer ends
    with them, and has opened its splits after `opening` seconds.
    """
    chance = np.random.default_rng(seed)
    streams = trainers * splits
    room = max(1.0, BUFFER_BYTES / splits / row_bytes)
    worker_of = np.concatenate([_spread(splits, np.arange(workers), chance) for _ in range(trainers)])
    ready = np.zeros(streams)  # rows in the trainer's buffer
    closed_until = np.full(streams, opening)
    left = np.full(streams, np.inf if rows is None else rows / splits)  # not made yet
    down_until = np.zeros(workers)
    silent = np.zeros(workers, bool)
    given = np.zeros(trainers)
    stalled = np.zeros(trainers)
    waited, window = np.zeros((trainers, splits)), 0.0
    most, lost, moved, now = 0, 0, 0, 0.0
    while now < seconds and (rows is None or given.sum() < trainers * rows - 0.5):
        up = down_until <= now
        for worker in np.flatnonzero(chance.random(workers) < failures_a_day * step / DAY):
            if up[worker]:
                lost += 1
                silent[worker] = chance.random() < hangs
                down_until[worker] = now + down + (timeout if silent[worker] else 0.0)
                mine = np.flatnonzero(worker_of == worker)
                notice = now + (timeout if silent[worker] else 0.0)
                alive = np.flatnonzero(down_until <= now)
                worker_of[mine] = chance.choice(alive, len(mine))
                closed_until[mine] = notice + reopen
                moved += len(mine)
        for worker in np.flatnonzero(~up & (down_until <= now + step)):  # back: every trainer gives it its share
            share = streams // workers
            mine = chance.choice(streams, share, replace=False)
            worker_of[mine] = worker
            closed_until[mine] = np.maximum(closed_until[mine], now + reopen)
            moved += share
        running = (closed_until <= now) & (ready < room) & (left > 0)
        load = np.bincount(worker_of[running], minlength=workers)
        most = max(most, int(np.bincount(worker_of, minlength=workers).max()))
        made = np.where(running, rows_a_second * step / np.maximum(1, load[worker_of]), 0.0)
        made = np.minimum(np.minimum(made, left), room - ready)
        left -= made
        ready += made
        least = ready.reshape(trainers, splits).min(axis=1)  # splits take turns: the slowest sets the pace
        taken = np.minimum(least * splits, demand * step)
        ready -= np.repeat(taken / splits, splits)
        given += taken
        stalled += np.where(taken < 0.5 * demand * step, step, 0.0)
        slow = np.flatnonzero(taken < 0.9 * demand * step)
        waited[slow, ready.reshape(trainers, splits)[slow].argmin(axis=1)] += step
        if now - window >= WINDOW_SECONDS:
            behind = _behind(waited)
            worker_of[behind] = chance.choice(np.flatnonzero(down_until <= now), len(behind))
            closed_until[behind] = now + reopen
            moved += len(behind)
            waited[:], window = 0.0, now
        now += step
    seconds = now
    rate = given.sum() / seconds
    ideal = min(trainers * demand, workers * rows_a_second)
    a_day = DAY / seconds
    return {
        "rows/s": round(rate),
        "of what workers and trainers could do": round(rate / ideal, 4),
        "worst trainer": round(float(given.min() / given.max()), 4),
        "seconds a trainer waits, a day": round(float(stalled.mean()) * a_day, 1),
        "workers lost, a day": round(lost * a_day),
        "splits moved, a day": round(moved * a_day),
        "most splits on a worker": most,
        "connections of a trainer": min(splits, workers),
        "connections in all": trainers * min(splits, workers),
        "requests/s of a trainer": round(given.max() / seconds * row_bytes / (BUFFER_BYTES / splits), 1),
        "buffers of a trainer, MB": BUFFER_BYTES >> 20,
        "state of a trainer, kB": round(splits * MARK_BYTES / 1000, 1),
    }


def _behind(waited):
    """The splits that most of their trainers' waiting was for, where it was much."""
    total = waited.sum(axis=1)
    found = np.flatnonzero((total > SLOW * WINDOW_SECONDS) & (waited.max(axis=1) > total / 2))
    return found * waited.shape[1] + waited[found].argmax(axis=1)


def _spread(splits, workers, chance):
    """One trainer's splits over the workers: as even as can be, in an order of its own."""
    order = chance.permutation(workers)
    return np.tile(order, -(-splits // len(order)))[:splits]


def measure(counts, seconds):
    """Real passes beside those of the simulator, which knows what was measured of one process, and of opening splits.

    A worker makes a row in the processor time that one process here takes for it, times what it was found to take more
    on a worker, while it has a processor: which part of the time that was is measured in the middle of the pass,
    because others use the machine, too. What the simulator adds is the beginning, the end, and the waiting.
    """
    import psutil
    from service import cpu_seconds, first_batch, heavy, rows_a_second

    import headrace as hr
    from headrace.execute.budget import cpus

    for workers in counts:
        with hr.cluster.local(workers) as cluster:
            cluster.wait_for(workers)
            opening = min(first_batch(cluster) for _ in range(3))
            tried = []
            for _ in range(3):
                used = psutil.Process().cpu_times()
                one, _ = rows_a_second(hr.Dataset.range(1000).map(heavy, mode="eager").batch(25), 1000)
                used = sum(psutil.Process().cpu_times()[:2]) - sum(used[:2])
                rows = -(-int(one * seconds * min(workers, cpus())) // (100 * workers)) * 100 * workers
                plan = hr.Dataset.range(rows).map(heavy, mode="eager").batch(25)
                before = cpu_seconds(cluster)
                with BusyTime(partial(cpu_seconds, cluster), workers) as busy:
                    real, _ = rows_a_second(plan.distribute_over(cluster, splits=4 * workers), rows)
                cost, share = (cpu_seconds(cluster) - before) / rows / (used / 1000), busy.share
                made = simulate(
                    workers=workers, trainers=1, splits=4 * workers, demand=1e9, seconds=1e3, failures_a_day=0.0,
                    rows_a_second=1000 / used / cost * share, row_bytes=8, step=0.005, rows=rows, opening=opening,
                )  # fmt: skip
                tried.append((one, real, made["rows/s"], made["rows/s"] / real, cost, share))
        one, real, simulated, ratio, cost, share = np.median(tried, axis=0)
        yield {
            "workers": workers,
            "processors": cpus(),
            "one process": round(one),
            "real": round(real),
            "simulated": round(simulated),
            "simulated / real": round(ratio, 2),
            "processor time a row, of local": round(cost, 2),
            "had a processor": round(share, 2),
            "opening s": round(opening, 3),
        }


class BusyTime(threading.Thread):
    """Looks, while a pass runs, how much of a processor each worker has."""

    def __init__(self, used, workers):
        super().__init__(daemon=True)
        self._used, self._workers = used, workers
        self._over = threading.Event()
        self._seen = []

    def run(self):
        while not self._over.wait(0.05):
            self._seen.append((time.perf_counter(), self._used()))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self.join()

    @property
    def share(self):
        """Which part of the time a worker ran in the middle of the pass, when all have something to do."""
        fifth = len(self._seen) // 5
        (began, before), (ended, after) = self._seen[fifth], self._seen[-1 - fifth]
        return (after - before) / (ended - began) / self._workers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--trainers", type=int, default=256)
    parser.add_argument("--splits", type=int, nargs="*", default=[8, 16, 64])
    parser.add_argument("--rows", type=float, default=400.0, help="rows a second that a worker makes")
    parser.add_argument("--demand", type=float, default=1200.0, help="rows a second that a trainer uses")
    parser.add_argument("--hours", type=float, default=0.5)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--measured", type=int, nargs="*", default=[1, 2, 4, 8], help="workers of real passes")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a real pass takes, about")
    options = parser.parse_args()
    if options.measure:
        for line in measure(options.measured, options.seconds):
            print(json.dumps(line), flush=True)
        return
    for splits in options.splits:
        began = time.perf_counter()
        made = simulate(
            workers=options.workers, trainers=options.trainers, splits=splits, rows_a_second=options.rows,
            demand=options.demand, seconds=3600 * options.hours,
        )  # fmt: skip
        print(
            json.dumps({"splits": splits, **made, "simulated in s": round(time.perf_counter() - began, 1)}), flush=True
        )


if __name__ == "__main__":
    main()
