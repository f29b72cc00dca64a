"""PyTorch as a peer: `torch-eager`, `torch-tuned` or `torch-compile`, alone or with DistributedDataParallel (gloo)."""

import os
import platform

import torch
from link import read_arrays, read_spec, serve, timed
from torch import nn


def build_model(sizes, dropout, sparse=False):
    """The layers of the workload, in the order of its parameters' names; `sparse`: an embedding's gradient has only rows."""
    if sizes["kind"] == "embedding":
        # Not initialised: the values of the data file are put in.
        values = torch.empty(sizes["rows"], sizes["features"])
        return nn.Sequential(nn.Embedding(*values.shape, _weight=values, sparse=sparse))
    if sizes["kind"] == "mlp":
        widths = sizes["widths"]
        layers = []
        for index in range(len(widths) - 1):
            layers += [nn.ReLU()] if index else []
            layers += [nn.Linear(widths[index], widths[index + 1])]
        return nn.Sequential(*layers)
    first, second = sizes["channels"]
    kernel = sizes["kernel"]
    return nn.Sequential(
        nn.Conv2d(1, first, kernel, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, kernel, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(second * (sizes["side"] // 4) ** 2, sizes["hidden"]),
        nn.ReLU(),
        nn.Dropout(sizes["dropout"] if dropout else 0.0),
        nn.Linear(sizes["hidden"], sizes["classes"]),
    )


class Training:
    """A training workload."""

    def __init__(self, spec):
        self.spec = spec
        self.tuned = spec["peer"] != "torch-eager"
        self.versions = versions()
        self.launch = None

    def start(self, dropout, compiled):
        """A training from the initial weights: a function that does one step and returns a function that reads its loss."""
        spec, tuned = self.spec, self.tuned
        parameters, inputs, labels = read_arrays(spec)
        x, y = torch.from_numpy(inputs[0]), torch.from_numpy(labels)
        if spec["processes"] > 1:
            rows = len(x) // spec["processes"]
            own = slice(int(os.environ["RANK"]) * rows, (int(os.environ["RANK"]) + 1) * rows)
            x, y = x[own], y[own]
        looks_up = spec["sizes"]["kind"] == "embedding"
        model = build_model(spec["sizes"], dropout, sparse=tuned)
        model.load_state_dict({name: torch.from_numpy(value) for name, value in parameters.items()})
        # With inductor the plain layout was faster.
        if spec["peer"] == "torch-tuned" and spec["sizes"]["kind"] == "lenet":
            model = model.to(memory_format=torch.channels_last)
            x = x.contiguous(memory_format=torch.channels_last)
        sgd = spec["sgd"]
        options = {"lr": sgd["learningRate"], "momentum": sgd["momentum"], "nesterov": sgd["nesterov"]}
        # The fused optimizer takes no sparse gradients.
        fused = {"fused": True} if tuned and not looks_up else {}
        optimizer = torch.optim.SGD(model.parameters(), **options, **fused)
        if spec["processes"] > 1:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=tuned)

        def loss_of(x, y):
            return nn.functional.mse_loss(model(y), x) if looks_up else nn.functional.cross_entropy(model(x), y)

        loss_function = torch.compile(loss_of) if compiled else loss_of

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_function(x, y)
            loss.backward()
            optimizer.step()
            return loss.item

        return step

    def check(self):
        # Not compiled: the losses of the compiled step are checked to fall.
        step = self.start(False, False)
        return [step()() for _ in range(3)]

    def steps(self, count):
        if self.launch is None:
            self.launch = self.start(True, self.spec["peer"] == "torch-compile")
        return timed(count, self.launch)


class Chain:
    """The elementwise chain."""

    def __init__(self, spec):
        self.versions = versions()
        _, inputs, _ = read_arrays(spec)
        a, b, c = (torch.from_numpy(value) for value in inputs)

        def y(a, b, c):
            return torch.sqrt((torch.sigmoid(a * b + c) * torch.tanh(a) - 0.5 * b) ** 2 + 1)

        function = torch.compile(y) if spec["peer"] == "torch-compile" else y
        self.run = lambda: function(a, b, c)

    def check(self):
        with torch.no_grad():
            return [self.run().double().mean().item()]

    def steps(self, count):
        def launch():
            self.run()
            return lambda: 0.0

        with torch.no_grad():
            return timed(count, launch)


def regression(x, weights, count):
    """Steps of a linear regression of x by itself, from the given weights."""
    w, b = weights, weights[0]
    for _ in range(count):
        error = x @ w + b - x
        w = w - x.T @ error * (2 / len(x)) * 0.01
        b = b - error.sum(0) * (2 / len(x)) * 0.01
    return w + b


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
    "step": regression,
    "xty": repeated(lambda x, y: x.T @ y),
}


class Eager:
    """One operation at a time."""

    def __init__(self, spec):
        self.versions = versions()
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


def versions():
    return {"torch": torch.__version__, "python": platform.python_version()}


def main():
    spec = read_spec()
    torch.manual_seed(1)
    torch.set_num_threads(spec["threads"])
    if spec["processes"] > 1:
        torch.distributed.init_process_group("gloo")
    serve(spec, {"chain": Chain, "eager": Eager}.get(spec["sizes"]["kind"], Training)(spec))
    if spec["processes"] > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
