"""One process of a run with torch.distributed: writes down what it gives, with its state, and may kill itself."""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from torch import distributed

import headrace as hr


def main(folder, rank, world, stop=None):
    folder = Path(folder)
    before = sorted(folder.glob("given-*"))
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting-{world}", rank=rank, world_size=world)
    feed = hr.Dataset.range(200).shuffle(seed=7).distribute(batch_size=4).to_torch()
    if before:
        feed.load_state_dict(hr.merge_states([json.loads(p.read_text().split("\n")[-2])[1] for p in before]))
    with (folder / f"given-{rank}-of-{world}").open("w") as out:
        for step, rows in enumerate(feed, 1):
            steps = torch.tensor(step)
            distributed.all_reduce(steps)
            assert int(steps) == step * world
            out.write(json.dumps([rows.tolist(), feed.state_dict()]) + "\n")
            out.flush()
            if step == stop:
                os.kill(os.getpid(), signal.SIGKILL)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *map(int, sys.argv[4:]))
