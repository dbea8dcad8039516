"""Eight processes of torch.distributed in a mesh of 2 x 2 x 2: each writes down what it gets and what it reads."""

import json
import multiprocessing
import sys
from pathlib import Path

import numpy as np
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh

import headrace as hr

ROWS, STEPS = 40, 4


def run(folder, rank):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=8)
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    read = []

    def rows():
        for i in range(ROWS):
            read.append(i)
            yield np.arange(8) + 100 * i

    def pipeline():
        ds = hr.Dataset.from_generator(rows, output_signature=hr.TensorSpec((8,), "int64"))
        return ds.distribute(mesh=mesh, batch_size=2, broadcast=True, context="zigzag")

    it = iter(pipeline())
    got = [next(it).tolist() for _ in range(STEPS)]
    state = json.loads(json.dumps(it.state()))
    once = len(read)
    it.close()
    again = pipeline().iterator(state=state)
    rest = [batch.tolist() for batch in again]
    coordinate = mesh.get_coordinate()
    plain = hr.Dataset.range(ROWS).distribute(mesh=mesh, batch_size=5)
    found = {"at": coordinate, "got": got, "rest": rest, "read": once, "plain": [b.tolist() for b in plain]}
    Path(folder, f"rank-{rank}").write_text(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=run, args=(sys.argv[1], rank)) for rank in range(8)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    sys.exit(any(child.exitcode for child in children))
