"""The training of recovery.ts by PyTorch, under torchrun: rank 0 saves a snapshot after every step, from which restarted processes go on."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# The store is the agent's and outlives a restart: without a prefix, restarted ranks read the addresses of the processes before them, and fail.
own = os.environ["TORCHELASTIC_USE_AGENT_STORE"] != "True" and rank == 0
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), None, own)
store = dist.PrefixStore(os.environ["TORCHELASTIC_RESTART_COUNT"], store)
dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
print(f"pid {os.getpid()}", flush=True)
model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
step = 0
if os.path.exists(sys.argv[1]):
    snapshot = torch.load(sys.argv[1])
    model.load_state_dict(snapshot["model"])
    step = snapshot["step"]
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9)
x = torch.rand(128 // world, 784)
y = torch.arange(128 // world) % 10
while True:
    optimizer.zero_grad()
    nn.functional.cross_entropy(ddp(x), y).backward()
    optimizer.step()
    step += 1
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, sys.argv[1] + ".new")
        os.replace(sys.argv[1] + ".new", sys.argv[1])
    print(f"step {step}", flush=True)
