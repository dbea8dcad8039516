"""Kill the head of Ray in a pass: the error says what to do, and the state can still be saved.

python -m tests.chaos.ray_head --kills 3

What Ray does afterwards does not count: it may end the process, at once or when it is shut down.
"""

import argparse
import os
import subprocess
import sys
import tempfile

TRAINER = """
import psutil, ray
import headrace as hr
from headrace.cluster import on_ray

on_ray.MAX_MISSED_HEAD_CHECKS = 3
ray.init(num_cpus=1, object_store_memory=100 << 20, _node_ip_address="127.0.0.1", include_dashboard=False)
cluster = hr.cluster.ray(1, patience=240)
it = iter(hr.Dataset.range(10**9).map(lambda x: int(x), mode="eager").distribute_over(cluster, splits=1))
print([int(next(it)) for _ in range(3)], flush=True)
assert cluster.head_answers.wait(120)
children = psutil.Process().children(recursive=True)
(head,) = [each for each in children if each.name() == "gcs_server"]
head.kill()
try:
    while True:
        next(it)
except hr.WorkerError as error:
    print(error, flush=True)
print("a state" if it.state() else "no state", flush=True)
for each in children:
    if each.is_running():
        each.kill()
"""
VARIABLES = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",  # a busy machine may need longer than the 60 of Ray
}


def kill_head() -> bool:
    """Run a pass whose head is killed. Return whether it ended as it should; print what it said if not."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", TRAINER],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **VARIABLES},
            cwd=folder,
            timeout=600,
        )
    lines = done.stdout.splitlines()
    good = lines[:1] == ["[0, 1, 2]"] and "a state" in lines
    good = good and "the head of Ray at " in done.stdout and "save the state" in done.stdout
    if not good:
        print(done.stdout, done.stderr[-4000:], sep="\n")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=3, help="how many heads are killed")
    kills = parser.parse_args().kills
    failed = sum(not kill_head() for _ in range(kills))
    print(f"{kills} heads of Ray killed, {failed} passes ended otherwise than by the error that says what to do")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
