"""Two processes of JAX with two devices each, in two meshes: each writes down what it holds of global arrays."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROWS, LENGTH, STEPS = 24, 4, 2


def run(folder, rank, port):
    import jax
    import numpy as np

    import headrace as hr

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    devices = np.array(jax.devices()).reshape(2, 2)
    found = {}
    for name, grid, rows, device in (
        ("other rows", devices, 3, None),
        ("the same rows", devices.T, 6, None),
        ("other rows, computed by JAX", devices, 3, "auto"),
    ):
        mesh = jax.sharding.Mesh(grid, ("data", "model"))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        total = jax.jit(lambda batch: batch.sum(), out_shardings=everywhere)
        table = np.arange(ROWS, dtype=np.int32)[:, None] * 100 + 2 * np.arange(LENGTH, dtype=np.int32)

        def feed(given, rows=rows, table=table, sharding=sharding, device=device):
            ds = hr.Dataset.from_tensor_slices(table // 2).map(lambda row: row * np.int32(2) + row % 1, device=device)
            return ds.distribute(mesh=given, batch_size=rows).to_jax(sharding=sharding)

        with iter(feed(mesh)) as it:
            seen = [_seen(next(it), total) for _ in range(STEPS)]
            state = it.state()
        again = feed(sharding)
        again.load_state_dict(state)
        found[name] = seen + [_seen(batch, total) for batch in again]
    Path(folder, f"rank-{rank}").write_text(json.dumps(found))
    jax.distributed.shutdown()


def _seen(batch, total):
    """The shape of a global array, the rows on each device of this process, and a sum over all processes."""
    parts = [(shard.data[:, 0] // 100).tolist() for shard in batch.addressable_shards]
    return [list(batch.shape), parts, int(total(batch))]


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        sys.exit()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    ranks = [subprocess.Popen([sys.executable, __file__, sys.argv[1], str(r), port], env=environment) for r in (0, 1)]
    sys.exit(sum(process.wait() != 0 for process in ranks))
