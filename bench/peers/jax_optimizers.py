"""Optimizers for JAX as PyTorch defines them: from settings to `init(params)` and `update(params, grads, slots, count)`."""

import jax.numpy as jnp


def sgd(settings):
    rate, momentum = settings["learningRate"], settings["momentum"]

    def init(params):
        return {name: jnp.zeros_like(value) for name, value in params.items()} if momentum else {}

    def update(params, grads, slots, count):
        new_params, new_slots = {}, {}
        for name, grad in grads.items():
            direction = grad
            if momentum:
                buffer = momentum * slots[name] + grad
                direction = grad + momentum * buffer if settings["nesterov"] else buffer
                new_slots[name] = buffer
            new_params[name] = params[name] - rate * direction
        return new_params, new_slots

    return init, update


def adam(settings, decay=0.0):
    """Adam, and AdamW where weights decay."""
    rate, first, second, epsilon = settings["learningRate"], 0.9, 0.999, 1e-8

    def init(params):
        return {name: (jnp.zeros_like(value), jnp.zeros_like(value)) for name, value in params.items()}

    def update(params, grads, slots, count):
        new_params, new_slots = {}, {}
        steps = (count + 1).astype(jnp.float32)
        for name, grad in grads.items():
            mean, square = slots[name]
            mean = first * mean + (1 - first) * grad
            square = second * square + (1 - second) * grad * grad
            root = jnp.sqrt(square / (1 - second**steps)) + epsilon
            new_params[name] = params[name] * (1 - rate * decay) - rate * (mean / (1 - first**steps)) / root
            new_slots[name] = (mean, square)
        return new_params, new_slots

    return init, update


def adagrad(settings):
    rate, epsilon = settings["learningRate"], 1e-10

    def init(params):
        return {name: jnp.zeros_like(value) for name, value in params.items()}

    def update(params, grads, slots, count):
        new_slots = {name: slots[name] + grad * grad for name, grad in grads.items()}
        new_params = {
            name: params[name] - rate * grad / (jnp.sqrt(new_slots[name]) + epsilon) for name, grad in grads.items()
        }
        return new_params, new_slots

    return init, update


OPTIMIZERS = {"sgd": sgd, "adagrad": adagrad, "adam": adam, "adamW": lambda settings: adam(settings, 0.01)}
