"""The networks that PyTorch trains or runs as a peer."""

import torch
from torch import nn


def build_model(sizes, dropout, sparse=False):
    """
    The layers of the workload, in the order of its parameters' names. `sparse`: gradients of the parameters that its
    `sparse_names` have, if there are some, have only rows that were looked up.
    """
    if sizes["kind"] == "embedding":
        # Not initialised: the values of the data file are put in.
        values = torch.empty(sizes["rows"], sizes["features"])
        model = nn.Sequential(nn.Embedding(*values.shape, _weight=values, sparse=sparse))
        model.sparse_names = ("0.weight",)
        return model
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


def loss_of(sizes, model, batch):
    """The loss of a batch: its inputs that are floats, and those that are integers."""
    inputs, integers = batch
    if sizes["kind"] == "embedding":
        return nn.functional.mse_loss(model(integers[0]), inputs[0])
    return nn.functional.cross_entropy(model(inputs[0]), integers[0])
