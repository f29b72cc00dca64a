"""The networks that PyTorch trains or runs as a peer."""

import torch
from torch import nn
from torch.nn import functional


class Lstm(nn.Module):
    """An LSTM with a class at each step."""

    def __init__(self, sizes):
        super().__init__()
        self.lstm = nn.LSTM(sizes["inputs"], sizes["hidden"], batch_first=True)
        self.head = nn.Linear(sizes["hidden"], sizes["classes"])

    def forward(self, x):
        return self.head(self.lstm(x)[0])


class Projections(nn.Module):
    """Attention with the parameters of `nn.MultiheadAttention`, by the fused function."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, steps, width = x.shape
        projected = functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = projected.view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(batch, steps, width))


class Block(nn.Module):
    """A decoder's block with its norms first."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.self_attn = Projections(width, heads)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.linear2(functional.gelu(self.linear1(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """A decoder of tokens whose last product is by the embedding's table."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["width"]
        self.embedding = nn.Embedding(sizes["vocabulary"], width)
        self.positions = nn.Embedding(sizes["steps"], width)
        self.blocks = nn.ModuleList(Block(width, sizes["heads"]) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.embedding.weight)


class ResidualBlock(nn.Module):
    """Two convolutions; where the first has a stride, the shortcut takes every second pixel and pads the channels (option A)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.extra = stride, (outputs - inputs) // 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        if self.stride > 1:
            x = functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.extra, self.extra))
        return (y + x).relu()


class Resnet(nn.Module):
    """ResNet-20, and smaller ones."""

    def __init__(self, sizes):
        super().__init__()
        channels = sizes["channels"]
        self.conv = nn.Conv2d(3, channels[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels[0])
        blocks, before = [], channels[0]
        for stage, width in enumerate(channels):
            for index in range(sizes["blocks"]):
                blocks.append(ResidualBlock(before, width, 2 if stage and not index else 1))
                before = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, sizes["classes"])

    def forward(self, x):
        return self.head(self.blocks(self.norm(self.conv(x)).relu()).mean((2, 3)))


class Embed(nn.Module):
    """Sums of bags of a table's rows, a hidden layer, and a number."""

    sparse_names = ("table.weight",)

    def __init__(self, sizes, sparse):
        super().__init__()
        values = torch.empty(sizes["rows"], sizes["features"])
        self.table = nn.EmbeddingBag(*values.shape, mode="sum", _weight=values, sparse=sparse)
        self.hidden = nn.Linear(sizes["features"], sizes["hidden"])
        self.head = nn.Linear(sizes["hidden"], 1)

    def forward(self, ids):
        return self.head(self.hidden(self.table(ids)).relu()).squeeze(1)


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
    if sizes["kind"] == "embed":
        return Embed(sizes, sparse)
    if sizes["kind"] in NETWORKS:
        return NETWORKS[sizes["kind"]](sizes)
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


NETWORKS = {"lstm": Lstm, "gpt": Gpt, "resnet": Resnet}


def loss_of(sizes, model, batch):
    """The loss of a batch: its inputs that are floats, and those that are integers."""
    inputs, integers = batch
    if sizes["kind"] == "embedding":
        return functional.mse_loss(model(integers[0]), inputs[0])
    if sizes["kind"] == "embed":
        return functional.binary_cross_entropy_with_logits(model(integers[0]), inputs[0])
    if sizes["kind"] in ("lstm", "gpt"):
        x = (inputs or integers)[0]
        return functional.cross_entropy(model(x).flatten(0, 1), integers[-1].flatten())
    return functional.cross_entropy(model(inputs[0]), integers[0])
