"""Clusters whose workers are killed, halted and cut off, which grow and shrink, and trainers that start again.

python -m tests.chaos.service --kills 200                   on processes of this machine
python -m tests.chaos.service --kills 50 --on ray           on Ray's actors, on Dask's workers (--on dask)
python -m tests.chaos.service --on proxied                  workers at addresses, whose connections are cut
python -m tests.chaos.service --on all --kills 200          on all of these in turn
python -m tests.chaos.service --seed 4711 --kills 20        that run again

Every pass must give the rows of the reference executor, in their order, whatever happens; and nothing may be left.
"""

import argparse
import collections
import contextlib
import gc
import json
import os
import random
import select
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path

import psutil

import headrace as hr
from headrace.testing import our_threads, outcomes, reference_outcomes
from tests.chaos.files import Files
from tests.chaos.pipelines import check
from tests.pipelines import Sometimes

D = hr.Dataset
TIMEOUT = 8.0
PATIENCE = 240.0


def work(x):
    return Sometimes(11)(x)


def draw(x, rng):
    return x, rng.integers(100)


def small(x):
    return D.range(int(x) % 4)


STEPS = [
    lambda d, c: d.map(work, mode="eager"),
    lambda d, c: d.filter(lambda x: x % 5 != 1),
    lambda d, c: d.shuffle(c.choice([3, 40]), seed=c.randint(0, 9)),
    lambda d, c: d.repeat(2),
    lambda d, c: d.flat_map(small),
    lambda d, c: d.ignore_errors(),
]


def pipeline(chance, folder):
    if chance.random() < 0.3:
        return Files(chance, folder).dataset()
    ds = D.range(chance.randint(50, 1500))
    for _ in range(chance.randint(1, 3)):
        ds = chance.choice(STEPS)(ds, chance)
    if chance.random() < 0.5:
        ds = ds.random_map(draw, seed=3, mode="eager")
    return ds.batch(chance.choice([2, 7])) if chance.random() < 0.6 else ds


class Proxy(threading.Thread):
    """Passes bytes on between trainers and one worker, until its connections are cut."""

    def __init__(self, port):
        super().__init__(name="proxy", daemon=True)
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs = {}
        self._lock = threading.Lock()
        self.start()

    def run(self):
        while True:
            with self._lock:
                ends = [self._listener, *self._pairs]
                if self._listener.fileno() < 0:
                    return
            ready = select.select([end for end in ends if end.fileno() >= 0], [], [], 0.05)[0]
            for end in ready:
                with self._lock:
                    self._pass_on(end)

    def _pass_on(self, end):
        try:
            if end is self._listener:
                here = self._listener.accept()[0]
                there = socket.create_connection(("127.0.0.1", self._target))
                self._pairs[here], self._pairs[there] = there, here
            elif end in self._pairs:
                data = end.recv(1 << 16)
                if not data:
                    raise OSError("the other end is gone")
                self._pairs[end].sendall(data)
        except OSError:
            self._drop(end)

    def _drop(self, end):
        other = self._pairs.pop(end, None)
        if other is not None:
            self._pairs.pop(other, None)
            end.close()
            other.close()

    def cut(self):
        """All that is on the way is lost."""
        with self._lock:
            for end in list(self._pairs):
                self._drop(end)

    def close(self):
        self.cut()
        with self._lock:
            self._listener.close()
        self.join()


@contextlib.contextmanager
def local(chance):
    with hr.cluster.local(chance.choice([1, 2, 3]), timeout=TIMEOUT, patience=PATIENCE) as cluster:
        cluster.wait_for(1)
        yield cluster, {"kill": kill, "halt": halt, "resize": resize}


@contextlib.contextmanager
def proxied(chance):
    """Workers of a local cluster, reached by way of proxies."""
    with hr.cluster.local(2, timeout=TIMEOUT, patience=PATIENCE) as behind:
        behind.wait_for(2)
        proxies = [Proxy(int(member.location.rpartition(":")[2])) for member in behind.members()]
        where = [f"127.0.0.1:{proxy.port}" for proxy in proxies]
        token = behind._launcher._token
        try:
            with hr.cluster.addresses(where, token=token, timeout=TIMEOUT, patience=PATIENCE) as cluster:
                cluster.wait_for(1)
                yield cluster, {"cut": lambda chance, cluster: chance.choice(proxies).cut(), "leave": leave_and_join}
        finally:
            for proxy in proxies:
                proxy.close()


@contextlib.contextmanager
def on_ray(chance):
    os.environ.update(RAY_AUTH_MODE="disabled", RAY_worker_niceness="0")
    import ray

    if not ray.is_initialized():
        how = {"_node_ip_address": "127.0.0.1", "include_dashboard": False, "log_to_driver": False}
        ray.init(num_cpus=4, object_store_memory=100 << 20, **how)
    with hr.cluster.ray(2, timeout=2 * TIMEOUT, patience=PATIENCE) as cluster:
        cluster.wait_for(1)
        yield cluster, {"kill": kill, "halt": halt, "resize": resize}


@contextlib.contextmanager
def on_dask(chance):
    import dask
    from distributed import Client, LocalCluster

    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "60s"}),  # of 15, which a busy machine needs itself
        LocalCluster(**how) as engine,
        Client(engine) as client,
        hr.cluster.dask(client, timeout=2 * TIMEOUT, patience=PATIENCE) as cluster,
        kept_at(engine, 2),
    ):
        cluster.wait_for(1)
        yield cluster, {"kill": kill, "halt": halt_and_go_on}


@contextlib.contextmanager
def kept_at(engine, workers):
    """Dask gives up a worker that is killed while it starts, and does not replace it by itself."""
    over = threading.Event()

    def supervise():
        while not over.wait(5.0):
            engine.scale(workers)

    supervisor = threading.Thread(target=supervise, name="supervisor", daemon=True)
    supervisor.start()
    try:
        yield
    finally:
        over.set()
        supervisor.join()


ENGINES = {"local": local, "proxied": proxied, "dask": on_dask, "ray": on_ray}
SHARES = {"local": 4, "proxied": 3, "dask": 2, "ray": 1}
"""How many of ten faults are for which."""


def process_of(cluster, chance):
    members = cluster.members()
    if not members:
        return None
    try:
        return chance.choice(members).status(timeout=TIMEOUT)["pid"]
    except Exception:  # it is gone, or hangs already
        return None


def kill(chance, cluster, number=signal.SIGKILL):
    pid = process_of(cluster, chance)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    return pid


def halt(chance, cluster):
    return kill(chance, cluster, signal.SIGSTOP)


def halt_and_go_on(chance, cluster):
    pid = halt(chance, cluster)
    if pid:
        threading.Timer(chance.choice([0.2, 3 * TIMEOUT]), _go_on, [pid]).start()
    return pid


def _go_on(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def resize(chance, cluster):
    cluster.resize(chance.choice([1, 2, 3]))
    return True


def leave_and_join(chance, cluster):
    """A worker is taken out of the cluster, and is back a moment later."""
    members = cluster.members()
    if members:
        address = chance.choice(members).name
        cluster.remove(address)
        cluster.add(address)
    return bool(members)


class Torturer(threading.Thread):
    """Does one fault after another while a pass runs."""

    def __init__(self, chance, cluster, faults, most, done):
        super().__init__(name="torturer", daemon=True)
        self._chance, self._cluster, self._faults, self._most = chance, cluster, faults, most
        self._done = done
        self.over = threading.Event()

    def run(self):
        while self._most > 0 and not self.over.wait(self._chance.uniform(0, 0.4)):
            name = self._chance.choice(list(self._faults))
            if self._faults[name](self._chance, self._cluster) is not False:
                self._done[name] += 1
                self._most -= 1


def one_pass(chance, folder, cluster, faults, done, most):
    """A pass over a random pipeline; the trainer starts again now and then, with a state and nothing else."""
    plan, splits = pipeline(chance, folder), chance.choice([1, 2, 5, 9])
    mode = chance.choice(["distributed_epoch"] * 4 + ["parallel_epochs"])
    how = {"block_length": chance.choice([None, 3]), "shared": chance.random() < 0.3}
    ds = plan.distribute_over(cluster, splits, mode, **how)
    if chance.random() < 0.4:
        world = chance.choice([2, 3])
        ds = ds.distribute(chance.randrange(world), world, chance.choice([None, 2]), chance.choice(["drop", "wrap"]))
        done["shares"] += 1
    want = reference_outcomes(ds)
    torturer = Torturer(chance, cluster, faults, most, done)
    torturer.start()
    try:
        it, got = iter(ds), []
        while True:
            some = outcomes(it, chance.randint(1, 200))
            if not some:
                break
            check(some, want[len(got) : len(got) + len(some)], True, f"rows from {len(got)} on")
            got += some
            if chance.random() < 0.2:
                state = json.loads(json.dumps(it.state()))
                it.close()
                it = ds.iterator(state=state)
                done["restart"] += 1
            if len(got) < len(want) and chance.random() < 0.5:
                time.sleep(0.05)  # as a step of training takes: faults come between rows, too
        assert len(got) == len(want), f"{len(got)} rows, not {len(want)}"
        it.close()
    finally:
        torturer.over.set()
        torturer.join()
    done["rows"] += len(want)
    done["passes"] += 1


def tortured(chance, folder):
    """A pass or two on a cluster of processes: what `tests.chaos.run` does."""
    name = chance.choice(["local", "local", "proxied"])
    done = collections.Counter()
    with ENGINES[name](chance) as (cluster, faults):
        one_pass(chance, folder, cluster, faults, done, chance.choice([1, 3]))


def children():
    return {p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE}


def torture(name, kills, chance):
    """Passes on clusters of one kind until this many workers were killed, halted or cut off; a summary."""
    done = collections.Counter()

    def faults_done():
        return done["kill"] + done["halt"] + done["cut"]

    while faults_done() < kills:
        with ENGINES[name](chance) as (cluster, faults):
            for _ in range(6):
                if faults_done() < kills:
                    with tempfile.TemporaryDirectory() as folder:
                        one_pass(chance, Path(folder), cluster, faults, done, min(4, kills - faults_done()))
            print(f"{name}: {faults_done()} of {kills} faults in {done['passes']} passes", flush=True)
        gc.collect()
        assert our_threads() == [], our_threads()
    if name == "ray":
        import ray

        ray.shutdown()
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="how many workers to kill, halt or cut off in all")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--on", choices=[*ENGINES, "all"], default="local")
    options = parser.parse_args()
    seed = random.randrange(10**9) if options.seed is None else options.seed
    hr.set_random_seed(seed)
    before = children()
    names = [name for name, share in SHARES.items() for _ in range(share)] if options.on == "all" else [options.on]
    for name in dict.fromkeys(names):
        began = time.monotonic()
        done = torture(name, -(-options.kills * names.count(name) // len(names)), random.Random(seed))
        counts = ", ".join(f"{number} {what}" for what, number in sorted(done.items()))
        print(
            f"service chaos on {name}, seed {seed}: {counts}, none wrong, {time.monotonic() - began:.0f} s", flush=True
        )
    _, left = psutil.wait_procs(children() - before, timeout=60)
    left = [p for p in left if "resource_tracker" not in " ".join(p.cmdline())]
    assert not left, f"processes are left: {left}"
    sockets = [c for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN]
    assert not sockets, f"sockets are left: {sockets}"
    held = [f.path for f in psutil.Process().open_files() if "shm" in f.path or "memfd" in f.path]
    assert not held, f"shared memory is left: {held}"
    print("nothing is left behind: no process, thread, socket or shared memory", flush=True)


if __name__ == "__main__":
    main()
