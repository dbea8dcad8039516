"""Trainers that are killed (-9) at random steps and resumed: every batch must equal, to the bit, the undisturbed run's.

python -m tests.chaos.trainers --kills 20            every trainer, killed so often
python -m tests.chaos.trainers --only dcp --seed 7   one of them, that run again
python -m tests.chaos.trainers --table               plain, killed and elastic, as a table

"exact" is written only where every batch was compared, "refused" only where an error said so. In the column "elastic" a
run of one epoch goes on with 2, 3 and 1 processes; a trainer of Keras is one process.
"""

import argparse
import collections
import contextlib
import importlib
import importlib.util
import os
import random
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path

from tests.chaos import trainer_loops
from tests.chaos.trainer_loops import BATCH, ROWS, Job, batches, digest_of

STEPS = 40
"""Into the second epoch of 24 batches."""
EPOCH = ROWS // BATCH
WORLDS = ((2, 3), (3, 3), (1, 9))
"""Processes and steps that together make one epoch: 2·3 + 3·3 + 1·9 = 24."""
REFUSED = {"huggingface_iterable": "to_torch(shard=False)"}
"""What cannot go on with other processes, and what the error must say."""
REPEATED = ("torchtitan", "orbax")
"""Those whose loops have no epochs."""
NOT_OURS = {"huggingface_map": "saved by 2 processes, and 1 resumes it"}
"""Where the order belongs to the trainer, which takes elements by number: what it must say of other processes."""


class TrainerFailed(AssertionError):
    """A run of a trainer did not end as it should."""


def run(name, job, environment=()):
    """Run a trainer in a process of its own, forked from this one; its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.environ.update(environment)
            with (job.folder / f"output-{job.rank}.txt").open("a") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            loop = trainer_loops.keras if name.startswith("keras") else trainer_loops.FORKED[name]
            loop(job)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def alone(name, job):
    """One process, to its end or its kill."""
    code = ended(run(name, job))
    if code != (0 if job.kill_at is None else -signal.SIGKILL):
        raise TrainerFailed(f"{name} ended with {code}:\n{output(job.folder)}")


def output(folder):
    return "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("output-*.txt")))


def seen(folder, rank=0, world_size=1):
    """What each step was given, in every run that came by it."""
    found = collections.defaultdict(set)
    for line in (folder / f"seen-{rank}-of-{world_size}.txt").read_text().split("\n")[:-1]:
        step, digest = line.split()
        found[int(step)].add(digest)
    return found


def plain(name, folder, steps=STEPS):
    """The batches of a run that nothing disturbs: one for each step."""
    folder.mkdir()
    alone(name, Job(folder, steps))
    found = seen(folder)
    if sorted(found) != list(range(1, steps + 1)) or any(len(digests) != 1 for digests in found.values()):
        raise TrainerFailed(f"{name} gave {found}")
    order = [min(found[step]) for step in sorted(found)]
    if len(set(order)) < steps:
        raise TrainerFailed(f"{name} trains on the same batches again: a mistake would not show")
    if name not in NOT_OURS and not name.startswith("keras") and order != expected(name, steps):
        raise TrainerFailed(f"{name} gave {order}, the dataset has {expected(name, steps)}")
    return found


def expected(name, steps):
    """The batches of the dataset itself: epoch after epoch, or those of `repeat()`."""
    ds = batches()
    passes = [ds.repeat().take(steps)] if name in REPEATED else [ds] * -(-steps // EPOCH)
    return [digest_of(x, y) for one in passes for x, y in one][:steps]


def killed(name, folder, kills, chance):
    """The batches of a run that is killed at random steps, each time further on or before."""
    folder.mkdir()
    for _ in range(kills):
        job = Job(folder, STEPS, kill_at=chance.randint(_resumed_at(folder) + 1, STEPS))
        alone(name, job)
    alone(name, Job(folder, STEPS))
    return seen(folder)


def _resumed_at(folder):
    """The last step that was begun: the next run comes by it, or by a later one, from its checkpoint on."""
    path = folder / "seen-0-of-1.txt"
    if not path.exists():
        return 0
    return min(STEPS - 1, max(seen(folder)))


def check_killed(name, want, folder, kills, chance):
    got = killed(name, folder, kills, chance)
    if want != got:
        wrong = {step: (want.get(step), got.get(step)) for step in set(want) | set(got) if want[step] != got[step]}
        raise TrainerFailed(f"{name}: other batches after a kill, by step: {wrong}")


def elastic(name, folder):
    """One epoch by 2, 3 and 1 processes, each group killed before its last step is saved."""
    folder.mkdir()
    order = [min(digests) for _, digests in sorted(plain(name, folder / "plain", EPOCH).items())]
    folder, begun, steps = folder / "elastic", 0, 0
    folder.mkdir()
    for attempt, (world_size, count) in enumerate(WORLDS):
        last = attempt == len(WORLDS) - 1
        jobs = [
            Job(folder, steps + count, None if last else steps + count, rank, world_size) for rank in range(world_size)
        ]
        children = [run(name, job, _environment(job, attempt)) for job in jobs]
        codes = [ended(child) for child in children]
        if last and any(codes):
            raise TrainerFailed(f"{name} with {world_size} processes ended with {codes}:\n{output(folder)}")
        done = _saved(folder, steps) if not last else steps + count
        for step in range(steps + 1, done + 1):
            for rank in range(world_size):
                want = order[begun + (step - steps - 1) * world_size + rank]
                if seen(folder, rank, world_size)[step] != {want}:
                    raise TrainerFailed(f"{name}: step {step} of process {rank} of {world_size} had another batch")
        begun += (done - steps) * world_size
        steps = done


def refused(name, folder):
    """Several processes end with an error that names the remedy."""
    folder.mkdir()
    jobs = [Job(folder, 4, None, rank, 2) for rank in range(2)]
    codes = [ended(child) for child in [run(name, job, _environment(job, 0)) for job in jobs]]
    if not all(codes) or REFUSED[name] not in output(folder):
        raise TrainerFailed(f"{name} was not refused: {codes}\n{output(folder)}")


def warned(name, folder):
    """One process that resumes what two have saved says so."""
    folder.mkdir()
    for attempt, count in enumerate((2, 1)):
        jobs = [Job(folder, 4 + 2 * attempt, None, rank, count) for rank in range(count)]
        codes = [ended(child) for child in [run(name, job, _environment(job, attempt)) for job in jobs]]
        if any(codes):
            raise TrainerFailed(f"{name} with {count} processes ended with {codes}:\n{output(folder)}")
        if (NOT_OURS[name] in output(folder)) != (count == 1):
            raise TrainerFailed(f"{name} was {'not ' * (count == 1)}warned of {count} processes:\n{output(folder)}")


def _saved(folder, steps):
    """The step of the newest checkpoint, before the kill; as Lightning has it, what is written of it."""
    newest = folder / "newest"
    if not newest.exists():
        return steps
    return int(Path(newest.read_text()).stem.split("-")[1])


def _environment(job, attempt):
    """What torchrun tells a process of its group."""
    if job.world_size == 1:
        return {"ATTEMPT": str(attempt)}
    if job.rank == 0:
        with contextlib.closing(socket.socket()) as found:
            found.bind(("127.0.0.1", 0))
            _environment.port = found.getsockname()[1]
    return {
        "ATTEMPT": str(attempt),
        "RANK": str(job.rank),
        "LOCAL_RANK": str(job.rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": str(job.world_size),
        "LOCAL_WORLD_SIZE": str(job.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_environment.port),
        "TORCHELASTIC_RUN_ID": str(attempt),
    }


def load(names):
    """Import the frameworks that are there, once; the trainers that can run."""
    there = []
    for name in names:
        modules = trainer_loops.MODULES.get(name.split("_", maxsplit=1)[0], [])
        if all(importlib.util.find_spec(module.partition(".")[0]) for module in modules):
            for module in modules:
                importlib.import_module(module)
            there.append(name)
    return there


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", choices=trainer_loops.FORKED, action="append")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--keras", action="store_true", help="Keras alone, on the backend of KERAS_BACKEND")
    asked = parser.parse_args()
    seed = random.randrange(10**6) if asked.seed is None else asked.seed
    print(f"seed {seed}")
    chance = random.Random(seed)
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", TF_CPP_MIN_LOG_LEVEL="3")
    if asked.keras:
        names = [f"keras_{os.environ['KERAS_BACKEND']}"]
        importlib.import_module("keras")
    else:
        names = load(asked.only or trainer_loops.FORKED)
    print(f"{'trainer':24} {'plain':10} {'killed':10} elastic", flush=True)
    mistakes = []
    for name in names:
        cells = row(name, asked.kills, chance, mistakes, table=asked.table)
        print(f"{name:24} {cells[0]:10} {cells[1]:10} {cells[2]}", flush=True)
    print("\n".join(mistakes))
    sys.exit(bool(mistakes))


def row(name, kills, chance, mistakes, *, table):
    """The cells of one trainer."""
    cells = ["-", "-", "-"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            want = plain(name, Path(folder) / "plain")
            cells[0] = "exact"
            check_killed(name, want, Path(folder) / "killed", kills, chance)
            cells[1] = "exact"
            if table:
                cells[2] = check_elastic(name, Path(folder) / "elastic")
        except TrainerFailed as error:
            cells[cells.index("-")] = "WRONG"
            mistakes.append(str(error))
    return cells


def check_elastic(name, folder):
    if name.startswith("keras"):
        return "one process"
    if name in NOT_OURS:
        warned(name, folder)
        return "warned of"
    if name in REFUSED:
        refused(name, folder)
        return "refused"
    elastic(name, folder)
    return "exact"


if __name__ == "__main__":
    main()
