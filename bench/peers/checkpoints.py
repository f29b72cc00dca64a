"""Sharded saves by PyTorch Distributed Checkpoint, for bench/checkpoints.ts; the argument is the file of the measurement."""

import json
import os
import shutil
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

torch.set_num_threads(1)
with open(sys.argv[1]) as file:
    measurement = json.load(file)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))


def state_of(parameters):
    """Parameters and both moments, each divided over the processes."""

    def value(shape, scale):
        count = 1
        for size in shape:
            count *= size
        numbers = (torch.arange(count) * 40503 % 997).to(torch.float32).reshape(shape) * scale
        return distribute_tensor(numbers, mesh, [Shard(0)])

    groups = (("params", 1), ("optimizer.first", 2), ("optimizer.second", 3))
    return {f"{group}.{name}": value(shape, scale) for group, scale in groups for name, shape in parameters}


def measured(state, folder):
    """Saves and loads a state some times."""
    times = {"stall": [], "save": [], "load": [], "whole": []}
    for turn in range(measurement["saves"] + 1):
        path = os.path.join(folder, f"step-{turn}")
        dist.barrier()
        started = time.perf_counter()
        future = dcp.async_save(state, checkpoint_id=path)
        stalled = time.perf_counter()
        future.result()
        dist.barrier()
        saved = time.perf_counter()
        other = os.path.join(folder, f"whole-{turn}")
        dcp.save(state, checkpoint_id=other)
        dist.barrier()
        whole = time.perf_counter()
        dcp.load(state, checkpoint_id=path)
        dist.barrier()
        loaded = time.perf_counter()
        if rank == 0:
            shutil.rmtree(path)
            shutil.rmtree(other)
        if turn == 0:
            continue
        times["stall"].append(1000 * (stalled - started))
        times["save"].append(1000 * (saved - started))
        times["whole"].append(1000 * (whole - saved))
        times["load"].append(1000 * (loaded - whole))
    return times


found = {}
for name, parameters in measurement["states"].items():
    found[name] = measured(state_of(parameters), os.path.join(measurement["folder"], name))
if rank == 0:
    with open(os.path.join(measurement["folder"], "times.json"), "w") as file:
        json.dump({"states": found}, file)
dist.destroy_process_group()
