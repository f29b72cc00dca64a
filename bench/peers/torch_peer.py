"""PyTorch as a peer: `torch-eager`, `torch-tuned` or `torch-compile`, alone, with DistributedDataParallel or with fully_shard (gloo)."""

import os
import platform

import torch
from link import digest, read_arrays, read_spec, serve, timed
from torch import nn
from torch_eager import Eager
from torch_networks import Block, ResidualBlock, build_model, loss_of


def read_tensors(spec):
    """Parameters by name, inputs that are floats, and those that are integers."""
    parameters, inputs, integers = read_arrays(spec)
    return (
        {name: torch.from_numpy(value) for name, value in parameters.items()},
        [torch.from_numpy(value) for value in inputs],
        [torch.from_numpy(value) for value in integers],
    )


def channels_last(model, inputs):
    """The layout of images that oneDNN's convolutions like."""
    last = torch.channels_last
    return model.to(memory_format=last), [x.contiguous(memory_format=last) if x.ndim == 4 else x for x in inputs]


def shard(model, by_block):
    """FSDP2: each process stores its part; `by_block`: gathered block by block, as its documentation advises, else as a whole."""
    from torch.distributed.fsdp import fully_shard

    blocks = [module for module in model.modules() if type(module) in (Block, ResidualBlock)] if by_block else []
    for module in [*(blocks or (model.children() if by_block else [])), model]:
        if any(True for _ in module.parameters()):
            fully_shard(module)


class Training:
    """A training workload."""

    def __init__(self, spec):
        self.spec = spec
        self.tuned = spec["peer"] != "torch-eager"
        self.launch = None

    def optimizers(self, model, sparse):
        """One optimizer, or one for parameters with sparse gradients and one for the others."""
        settings = self.spec["optimizer"]
        options = {"lr": settings["learningRate"]}
        if settings["kind"] == "sgd":
            options |= {"momentum": settings["momentum"], "nesterov": settings["nesterov"]}
        kinds = {"sgd": "SGD", "adam": "Adam", "adamW": "AdamW", "adagrad": "Adagrad"}
        make = getattr(torch.optim, kinds[settings["kind"]])
        # The fused optimizers take neither sparse gradients nor, some of them, parameters in parts.
        fused = {"fused": True} if self.tuned and not self.spec["sharded"] else {}
        rows = [value for name, value in model.named_parameters() if name in sparse]
        whole = [value for name, value in model.named_parameters() if name not in sparse]
        made = [make(rows, **options)] if rows else []
        return made + ([make(whole, **options, **fused)] if whole else [])

    def start(self, dropout, compiled):
        """A training from the initial weights: a function that does one step and returns a function that reads its loss."""
        spec, sizes = self.spec, self.spec["sizes"]
        parameters, inputs, integers = read_tensors(spec)
        if spec["processes"] > 1:
            rows = len((inputs or integers)[0]) // spec["processes"]
            own = slice(int(os.environ["RANK"]) * rows, (int(os.environ["RANK"]) + 1) * rows)
            inputs, integers = ([x[own] for x in batch] for batch in (inputs, integers))
        model = build_model(sizes, dropout, sparse=self.tuned)
        # The statistics of batch norms are not in the file.
        missing = model.load_state_dict(parameters, strict=False)
        assert not missing.unexpected_keys and all("running" in k or "num_b" in k for k in missing.missing_keys)
        # With inductor the plain layout was faster; FSDP2 refuses parameters in another layout.
        if spec["peer"] == "torch-tuned" and not spec["sharded"] and any(x.ndim == 4 for x in inputs):
            model, inputs = channels_last(model, inputs)
        sparse = getattr(model, "sparse_names", ()) if self.tuned else ()
        if spec["sharded"]:
            shard(model, self.tuned)
        # Of parameters in parts the optimizer has its own.
        optimizers = self.optimizers(model, sparse)
        if spec["processes"] > 1 and not spec["sharded"]:
            model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=self.tuned)

        def loss_of_batch(inputs, integers):
            with torch.autocast("cpu", torch.bfloat16, enabled=spec["precision"] == "bf16"):
                return loss_of(sizes, model, (inputs, integers))

        loss_function = torch.compile(loss_of_batch) if compiled else loss_of_batch

        def step():
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            loss = loss_function(inputs, integers)
            loss.backward()
            for optimizer in optimizers:
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


def chain(a, b, c):
    return torch.sqrt((torch.sigmoid(a * b + c) * torch.tanh(a) - 0.5 * b) ** 2 + 1)


FUNCTIONS = {
    "chain": chain,
    "gemm": torch.matmul,
    "softmax": lambda x: x.softmax(-1),
    "layer-norm": lambda x: nn.functional.layer_norm(x, x.shape[-1:]),
    "sum": lambda x: x.sum(-1),
    "argmax": lambda x: x.argmax(-1),
    "cross-entropy": lambda x, labels: nn.functional.cross_entropy(x, labels),
}


class Function:
    """A function that is not trained: a list of results."""

    def __init__(self, spec):
        sizes = spec["sizes"]
        _, inputs, integers = read_tensors(spec)
        name = sizes.get("operation", sizes["kind"])
        function = FUNCTIONS[name]
        self.compiled = torch.compile(function) if spec["peer"] == "torch-compile" else function
        self.inputs = [*inputs, *integers]
        self.run = self.run_with_gradient if name == "cross-entropy" else self.run_alone

    def run_alone(self):
        with torch.no_grad():
            return [self.compiled(*self.inputs)]

    def run_with_gradient(self):
        x, *others = self.inputs
        x = x.detach().requires_grad_()
        loss = self.compiled(x, *others)
        return [loss, *torch.autograd.grad(loss, x)]

    def check(self):
        return [digest(result.detach().numpy()) for result in self.run()]

    def steps(self, count):
        def launch():
            self.run()
            return lambda: 0.0

        return timed(count, launch)


class Inference:
    """A network that is not trained."""

    def __init__(self, spec):
        network = spec["sizes"]["network"]
        parameters, inputs, _ = read_tensors(spec)
        model = build_model(network, False).eval()
        model.load_state_dict(parameters)
        if spec["peer"] == "torch-tuned":
            model, inputs = channels_last(model, inputs)
        run = torch.compile(model) if spec["peer"] == "torch-compile" else model
        self.run = lambda: run(inputs[0])

    def check(self):
        with torch.inference_mode():
            return self.run().flatten().tolist()

    def steps(self, count):
        def launch():
            y = self.run().numpy()
            return lambda: float(y.flat[0])

        with torch.inference_mode():
            return timed(count, launch)


PEERS = {"chain": Function, "gemm": Function, "reduce": Function, "eager": Eager, "infer": Inference}


def main():
    spec = read_spec()
    torch.manual_seed(1)
    torch.set_num_threads(spec["threads"])
    if spec["processes"] > 1:
        torch.distributed.init_process_group("gloo")
    peer = PEERS.get(spec["sizes"]["kind"], Training)(spec)
    peer.versions = {"torch": torch.__version__, "python": platform.python_version()}
    serve(spec, peer)
    if spec["processes"] > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
