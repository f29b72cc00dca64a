"""JAX as a peer: one jitted step whose state is donated; images in NHWC, as XLA likes them."""

import platform

import jax
import jax.numpy as jnp
import numpy as np
from jax_networks import FORWARD, cross_entropy, initial_state, loss_of, to_jax
from jax_optimizers import OPTIMIZERS
from link import Outputs, digest, read_arrays, read_spec, serve, timed


def read_jax(spec, sizes):
    parameters, inputs, integers = read_arrays(spec)
    params, inputs = to_jax(sizes, parameters, inputs)
    return params, inputs, [jnp.asarray(value) for value in integers]


def by_rows(name, updated):
    """An update of those rows alone that the ids of a batch look up, of the table and of its slots."""

    def updated_by_rows(params, slots, network, count, batch, key):
        inputs, (ids,) = batch
        table, slot = params[name], slots[name]
        rows, places = jnp.unique(ids.ravel(), size=ids.size, fill_value=len(table), return_inverse=True)
        part = inputs, [places.reshape(ids.shape)]
        params, slots = params | {name: table[rows]}, slots | {name: slot[rows]}
        params, slots, network, loss = updated(params, slots, network, count, part, key)
        # Places that no id fills lie behind the table.
        params = params | {name: table.at[rows].set(params[name], mode="drop")}
        slots = slots | {name: slot.at[rows].set(slots[name], mode="drop")}
        return params, slots, network, loss

    return updated_by_rows


class Training:
    """A training workload."""

    def __init__(self, spec):
        self.spec = spec
        self.launch = None

    def start(self, dropout):
        sizes, settings = self.spec["sizes"], self.spec["optimizer"]
        params, inputs, integers = read_jax(self.spec, sizes)
        drops = dropout and sizes.get("dropout", 0) > 0
        init, update = OPTIMIZERS[settings["kind"]](settings)

        def updated(params, slots, network, count, batch, key):
            def loss_and_state(params):
                return loss_of(sizes, params, network, batch, key)

            (loss, network), grads = jax.value_and_grad(loss_and_state, has_aux=True)(params)
            return *update(params, grads, slots, count), network, loss

        if sizes["kind"] == "embed":
            updated = by_rows("table.weight", updated)

        def step(state, key, batch):
            params, slots, network, count = state
            step_key = jax.random.fold_in(key, count) if drops else None
            params, slots, network, loss = updated(params, slots, network, count, batch, step_key)
            return (params, slots, network, count + 1), loss

        step = jax.jit(step, donate_argnums=0)
        state = (params, init(params), initial_state(sizes, params), jnp.int32(0))
        key = jax.random.key(1)
        batch = (inputs, integers)

        def launch():
            nonlocal state
            state, loss = step(state, key, batch)
            return lambda: float(loss)

        return launch

    def check(self):
        launch = self.start(False)
        return [launch()() for _ in range(3)]

    def steps(self, count):
        if self.launch is None:
            self.launch = self.start(True)
        return timed(count, self.launch, depth=2)


def chain(a, b, c):
    return [jnp.sqrt((jax.nn.sigmoid(a * b + c) * jnp.tanh(a) - 0.5 * b) ** 2 + 1)]


def layer_norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


FUNCTIONS = {
    "chain": chain,
    "gemm": lambda a, b: [a @ b],
    "softmax": lambda x: [jax.nn.softmax(x)],
    "layer-norm": lambda x: [layer_norm(x)],
    "sum": lambda x: [x.sum(-1)],
    "argmax": lambda x: [x.argmax(-1)],
    "cross-entropy": lambda x, labels: jax.value_and_grad(cross_entropy)(x, labels),
}


class Function:
    """A function that is not trained: a list of results."""

    def __init__(self, spec):
        sizes = spec["sizes"]
        _, inputs, integers = read_jax(spec, sizes)
        function = jax.jit(FUNCTIONS[sizes.get("operation", sizes["kind"])])
        self.run = lambda: function(*inputs, *integers)

    def check(self):
        return [digest(jax.device_get(result)) for result in self.run()]

    def steps(self, count):
        def launch():
            results = self.run()
            return lambda: float(jax.block_until_ready(results) is None)

        return timed(count, launch, depth=2)


class Inference(Outputs):
    """A network that is not trained."""

    def __init__(self, spec):
        super().__init__(spec)
        network = spec["sizes"]["network"]
        params, inputs, _ = read_jax(spec, network)
        forward = jax.jit(lambda params, x: FORWARD[network["kind"]](network, params, x, None))
        self.run = lambda: np.asarray(forward(params, inputs[0]))


PEERS = {"chain": Function, "gemm": Function, "reduce": Function, "infer": Inference}


def main():
    spec = read_spec()
    peer = PEERS.get(spec["sizes"]["kind"], Training)(spec)
    peer.versions = {"jax": jax.__version__, "python": platform.python_version()}
    serve(spec, peer)


if __name__ == "__main__":
    main()
