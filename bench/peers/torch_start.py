"""The demo's training in PyTorch up to its first step: `torch_start.py torch-eager|torch-tuned THREADS FOLDER`."""

import gzip
import os
import sys

import numpy as np
import torch
from torch import nn
from torch_peer import build_model

LENET = {"kind": "lenet", "side": 28, "channels": [32, 64], "kernel": 5, "hidden": 512, "classes": 10, "dropout": 0.5}


def read_idx(folder, name, header):
    """The bytes of an IDX file behind its header, plain or compressed."""
    path = os.path.join(folder, name)
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")
    with opened as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def main(peer, threads, folder):
    torch.set_num_threads(int(threads))
    images = torch.from_numpy(read_idx(folder, "train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28).copy())
    labels = torch.from_numpy(read_idx(folder, "train-labels-idx1-ubyte", 8).astype(np.int64))
    model = build_model(LENET, True)
    tuned = peer == "torch-tuned"
    if tuned:
        model = model.to(memory_format=torch.channels_last)
    options = {"lr": 0.01, "momentum": 0.9, "nesterov": True}
    optimizer = torch.optim.SGD(model.parameters(), **options, **({"fused": True} if tuned else {}))
    rows = torch.randperm(len(images))[:128]
    x = images[rows].float() / 255
    loss = nn.functional.cross_entropy(model(x), labels[rows])
    loss.backward()
    optimizer.step()
    print(f"first step done\nloss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
