"""JAX as a peer: one jitted step whose state is donated; images in NHWC, as XLA likes them."""

import platform

import jax
import jax.numpy as jnp
from link import read_arrays, read_spec, serve, timed


def forward_mlp(sizes, params, x, key):
    names = range(0, 2 * (len(sizes["widths"]) - 1), 2)
    for name in names:
        x = x @ params[f"{name}.weight"] + params[f"{name}.bias"]
        if name != names[-1]:
            x = jax.nn.relu(x)
    return x


def forward_lenet(sizes, params, x, key):
    for name in (0, 3):
        x = jax.lax.conv_general_dilated(
            x, params[f"{name}.weight"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + params[f"{name}.bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    x = jax.nn.relu(x @ params["7.weight"] + params["7.bias"])
    if key is not None:
        keep = 1.0 - sizes["dropout"]
        x = jnp.where(jax.random.bernoulli(key, keep, x.shape), x / keep, 0)
    return x @ params["10.weight"] + params["10.bias"]


def to_jax(sizes, parameters, x):
    """Weights and images in the forward functions' order of dims."""
    params = {}
    for name, value in parameters.items():
        if value.ndim == 4:
            value = value.transpose(2, 3, 1, 0)
        elif value.ndim == 2 and name == "7.weight":
            # Its inputs are a flattened image, channels first in the data file.
            side = sizes["side"] // 4
            value = value.reshape(len(value), -1, side, side).transpose(2, 3, 1, 0).reshape(-1, len(value))
        elif value.ndim == 2 and sizes["kind"] != "embedding":
            value = value.T
        params[name] = jnp.asarray(value)
    return params, jnp.asarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x)


class Training:
    """A training workload."""

    def __init__(self, spec):
        self.spec = spec
        self.versions = versions()
        self.launch = None

    def start(self, dropout):
        sizes, sgd = self.spec["sizes"], self.spec["sgd"]
        parameters, inputs, labels = read_arrays(self.spec)
        params, x = to_jax(sizes, parameters, inputs[0])
        y = jnp.asarray(labels)
        forward = forward_mlp if sizes["kind"] == "mlp" else forward_lenet
        looks_up = sizes["kind"] == "embedding"
        drops = dropout and sizes["kind"] == "lenet"

        def loss_of(params, key):
            if looks_up:
                return jnp.mean((params["0.weight"][y] - x) ** 2)
            logits = forward(sizes, params, x, key if drops else None)
            return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

        def step(state, key):
            params, buffers, count = state
            loss, grads = jax.value_and_grad(loss_of)(params, jax.random.fold_in(key, count))
            new_params, new_buffers = {}, {}
            for name, grad in grads.items():
                direction = grad
                if buffers:
                    buffer = sgd["momentum"] * buffers[name] + grad
                    direction = grad + sgd["momentum"] * buffer if sgd["nesterov"] else buffer
                    new_buffers[name] = buffer
                new_params[name] = params[name] - sgd["learningRate"] * direction
            return (new_params, new_buffers, count + 1), loss

        step = jax.jit(step, donate_argnums=0)
        buffers = {name: jnp.zeros_like(value) for name, value in params.items()} if sgd["momentum"] else {}
        state = (params, buffers, jnp.int32(0))
        key = jax.random.key(1)

        def launch():
            nonlocal state
            state, loss = step(state, key)
            return lambda: float(loss)

        return launch

    def check(self):
        launch = self.start(False)
        return [launch()() for _ in range(3)]

    def steps(self, count):
        if self.launch is None:
            self.launch = self.start(True)
        return timed(count, self.launch, depth=2)


class Chain:
    """The elementwise chain."""

    def __init__(self, spec):
        self.versions = versions()
        _, inputs, _ = read_arrays(spec)
        self.inputs = [jnp.asarray(value) for value in inputs]
        self.run = jax.jit(
            lambda a, b, c: jnp.sqrt((jax.nn.sigmoid(a * b + c) * jnp.tanh(a) - 0.5 * b) ** 2 + 1)
        )

    def check(self):
        return [float(jax.device_get(self.run(*self.inputs)).mean(dtype="float64"))]

    def steps(self, count):
        def launch():
            y = self.run(*self.inputs)
            return lambda: float(y.block_until_ready() is None)

        return timed(count, launch, depth=2)


def versions():
    return {"jax": jax.__version__, "python": platform.python_version()}


def main():
    spec = read_spec()
    serve(spec, Chain(spec) if spec["sizes"]["kind"] == "chain" else Training(spec))


if __name__ == "__main__":
    main()
