"""The networks that JAX trains or runs as a peer."""

import jax
import jax.numpy as jnp


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


def to_jax(sizes, parameters, inputs):
    """Weights and inputs in the forward functions' order of dims."""
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
    return params, [jnp.asarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x) for x in inputs]


FORWARD = {"mlp": forward_mlp, "lenet": forward_lenet}


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def loss_of(sizes, params, batch, key):
    """The loss of a batch: its inputs that are floats, and those that are integers. `key`: for dropout, or None."""
    inputs, integers = batch
    if sizes["kind"] == "embedding":
        return jnp.mean((params["0.weight"][integers[0]] - inputs[0]) ** 2)
    return cross_entropy(FORWARD[sizes["kind"]](sizes, params, inputs[0], key), integers[0])
