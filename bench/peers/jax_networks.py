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
        elif value.ndim == 2 and sizes["kind"] in ("mlp", "lenet"):
            value = value.T
        params[name] = jnp.asarray(value)
    return params, [jnp.asarray(x.transpose(0, 2, 3, 1) if x.ndim == 4 else x) for x in inputs]


def forward_lstm(sizes, params, x, key):
    gates = x @ params["lstm.weight_ih_l0"].T + params["lstm.bias_ih_l0"] + params["lstm.bias_hh_l0"]
    weight = params["lstm.weight_hh_l0"].T

    def step(state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + h @ weight, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((len(x), sizes["hidden"]), x.dtype)
    _, y = jax.lax.scan(step, (zeros, zeros), gates.swapaxes(0, 1))
    return y.swapaxes(0, 1) @ params["head.weight"].T + params["head.bias"]


def linear(params, name, x):
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def layer_norm(params, name, x):
    centred = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * params[f"{name}.weight"] + params[f"{name}.bias"]


def attention(sizes, params, name, x):
    batch, steps, width = x.shape
    projected = x @ params[f"{name}.in_proj_weight"].T + params[f"{name}.in_proj_bias"]
    q, k, v = projected.reshape(batch, steps, 3, sizes["heads"], -1).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(2, 3) / jnp.sqrt(q.shape[-1]).astype(x.dtype)
    scores = jnp.where(jnp.tril(jnp.ones((steps, steps), bool)), scores, -jnp.inf)
    y = jax.nn.softmax(scores) @ v
    return linear(params, f"{name}.out_proj", y.transpose(0, 2, 1, 3).reshape(x.shape))


def forward_gpt(sizes, params, tokens, key):
    x = params["embedding.weight"][tokens] + params["positions.weight"]
    for index in range(sizes["layers"]):
        name = f"blocks.{index}"
        x = x + attention(sizes, params, f"{name}.self_attn", layer_norm(params, f"{name}.norm1", x))
        hidden = linear(params, f"{name}.linear1", layer_norm(params, f"{name}.norm2", x))
        x = x + linear(params, f"{name}.linear2", jax.nn.gelu(hidden, approximate=True))
    return layer_norm(params, "norm", x) @ params["embedding.weight"].T


def batch_norm(params, state, next_state, name, x):
    """x normalised by its own statistics, which the running ones follow as PyTorch's do."""
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    size = x.size // x.shape[-1]
    old_mean, old_variance = state[name]
    next_state[name] = (0.9 * old_mean + 0.1 * mean, 0.9 * old_variance + 0.1 * variance * size / (size - 1))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * params[f"{name}.weight"] + params[f"{name}.bias"]


def convolution(x, weight, stride):
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def forward_resnet(sizes, params, state, x):
    """The logits, and the next statistics of the batch norms."""
    next_state = {}

    def normed(conv, norm, x, stride=1):
        return batch_norm(params, state, next_state, norm, convolution(x, params[f"{conv}.weight"], stride))

    x = jax.nn.relu(normed("conv", "norm", x))
    for index in range(len(sizes["channels"]) * sizes["blocks"]):
        stride = 2 if index and index % sizes["blocks"] == 0 else 1
        name = f"blocks.{index}"
        y = jax.nn.relu(normed(f"{name}.conv1", f"{name}.norm1", x, stride))
        y = normed(f"{name}.conv2", f"{name}.norm2", y)
        if stride > 1:
            extra = (y.shape[-1] - x.shape[-1]) // 2
            x = jnp.pad(x[:, ::2, ::2], ((0, 0), (0, 0), (0, 0), (extra, extra)))
        x = jax.nn.relu(y + x)
    return linear(params, "head", x.mean((1, 2))), next_state


def initial_state(sizes, params):
    """The statistics of batch norms at first; none for other networks."""
    if sizes["kind"] != "resnet":
        return {}
    norms = [name.removesuffix(".weight") for name, value in params.items() if name.endswith(".weight") and value.ndim == 1]
    return {name: (jnp.zeros_like(params[f"{name}.weight"]), jnp.ones_like(params[f"{name}.weight"])) for name in norms}


FORWARD = {"lstm": forward_lstm, "gpt": forward_gpt, "mlp": forward_mlp, "lenet": forward_lenet}


def cross_entropy(logits, labels):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()


def logistic_loss(logits, targets):
    return (jax.nn.softplus(logits) - logits * targets).mean()


def loss_of(sizes, params, state, batch, key):
    """
    The loss of a batch (its inputs that are floats, and those that are integers), and the next state. `key`: for dropout,
    or None.
    """
    inputs, integers = batch
    if sizes["kind"] == "resnet":
        logits, state = forward_resnet(sizes, params, state, inputs[0])
        return cross_entropy(logits, integers[0]), state
    return stateless_loss(sizes, params, batch, key), state


def stateless_loss(sizes, params, batch, key):
    inputs, integers = batch
    if sizes["kind"] == "embed":
        hidden = jax.nn.relu(linear(params, "hidden", params["table.weight"][integers[0]].sum(1)))
        return logistic_loss(linear(params, "head", hidden)[:, 0], inputs[0])
    if sizes["kind"] == "embedding":
        return jnp.mean((params["0.weight"][integers[0]] - inputs[0]) ** 2)
    x = (inputs or integers)[0]
    return cross_entropy(FORWARD[sizes["kind"]](sizes, params, x, key), integers[-1])
