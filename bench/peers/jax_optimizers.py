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


OPTIMIZERS = {"sgd": sgd}
