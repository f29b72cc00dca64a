"""PyTorch's operations, one at a time."""

import torch
from link import read_arrays, timed


def regression(x, weights, count):
    """Steps of a linear regression of x by itself, from the given weights."""
    w, b = weights, weights[0]
    for _ in range(count):
        error = x @ w + b - x
        w = w - x.T @ error * (2 / len(x)) * 0.01
        b = b - error.sum(0) * (2 / len(x)) * 0.01
    return w + b


def chain(x, y):
    """Twenty operations, the next of which can take what this one gives."""
    a = (((x + y) * 0.5).tanh() - y).relu().add(1).sqrt()
    b = (a @ y).mul(1 / 16).sigmoid().T.softmax(-1)
    c = (b * y).exp().log()
    d = c - c.sum(1, keepdim=True)
    return (d * d + x) * 0.5


def repeated(operation):
    def run(x, y, count):
        made = operation(x, y)
        chained = made.shape == x.shape
        for _ in range(1, count):
            made = operation(made if chained else x, y)
        return made

    return run


EAGER = {
    "add": repeated(lambda x, y: x + y),
    "scale": repeated(lambda x, y: x * 0.5),
    "sum": repeated(lambda x, y: x.sum()),
    "matmul": repeated(lambda x, y: x @ y),
    "softmax": repeated(lambda x, y: x.softmax(-1)),
    "slice": repeated(lambda x, y: x[2:4]),
    "chain": repeated(chain),
    "step": regression,
    "xty": repeated(lambda x, y: x.T @ y),
}


class Eager:
    """One operation at a time."""

    def __init__(self, spec):
        _, inputs, _ = read_arrays(spec)
        self.inputs = [torch.from_numpy(value) for value in inputs]
        self.run = EAGER[spec["sizes"]["operation"]]
        self.count = spec["sizes"]["count"]

    def check(self):
        with torch.no_grad():
            return self.run(*self.inputs, 3).flatten().tolist()

    def steps(self, count):
        def launch():
            made = self.run(*self.inputs, self.count)
            return lambda: made.flatten()[0].item()

        with torch.no_grad():
            return timed(count, launch)
