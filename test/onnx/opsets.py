"""Writes models of one node, for every op and every opset at which its signature changed, with what ONNX Runtime makes of them.

    python opsets.py FOLDER OLDEST NEWEST OP...

The versions of an op are those of the package onnx (onnx.defs). What a model is made of is in `specs`, by the names that the
schemas have: a value is an input where the version at hand has an input of that name, an attribute where it has one, else left out.
Each FOLDER/OP-OPSET-NUMBER has model.onnx, inputs.npz and outputs.npz; FOLDER/skipped.json tells why others are not there.
"""

import json
import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, defs, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)
random = numpy.random.default_rng(0)


def floats(*shape):
    """Numbers around 0 of both signs, none near it."""
    x = random.uniform(0.1, 0.9, shape)
    return (x * numpy.where(random.uniform(size=shape) < 0.5, -1, 1)).astype(numpy.float32)


def above(low, *shape):
    return (low + random.uniform(0.1, 0.9, shape)).astype(numpy.float32)


def bools(*shape):
    return random.uniform(size=shape) < 0.5


def whole(low, high, *shape, dtype=numpy.int64):
    return random.integers(low, high, shape).astype(dtype)


def scalar(value, dtype=numpy.float32):
    """A known input without dims; as an attribute a number."""
    return ("scalar", numpy.array(value, dtype))


def known(array):
    """An array that shapes depend on."""
    return ("known", numpy.asarray(array))


bytes8 = numpy.uint8
image = dict(X=floats(1, 2, 6, 7))
pool = dict(image, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
axis = dict(data=floats(2, 3, 4), axes=[1])
recurrent = dict(X=floats(4, 2, 3), hidden_size=4)
gates = {"RNN": 1, "GRU": 3, "LSTM": 4}
quantised = dict(
    a=whole(0, 255, 3, 4, dtype=bytes8), a_scale=scalar(0.02), a_zero_point=scalar(120, bytes8),
    b=whole(0, 255, 4, 2, dtype=bytes8), b_scale=scalar(0.03), b_zero_point=scalar(110, bytes8),
    y_scale=scalar(0.05), y_zero_point=scalar(130, bytes8),
)
convolved = dict(
    x=whole(0, 255, 1, 2, 5, 5, dtype=bytes8), x_scale=scalar(0.02), x_zero_point=scalar(120, bytes8),
    w=whole(0, 255, 3, 2, 2, 2, dtype=bytes8), w_scale=scalar(0.03), w_zero_point=scalar(110, bytes8),
    y_scale=scalar(0.05), y_zero_point=scalar(130, bytes8),
)
def normed(*shape):
    """What a batch norm takes, with statistics of a shape."""
    (scale, var), (mean, bias) = [above(0, *shape) for _ in range(2)], [floats(*shape) for _ in range(2)]
    return dict(X=floats(2, 4, 3, 2), scale=scale, B=bias, mean=mean, input_mean=mean, var=var, input_var=var)


branch = helper.make_graph(
    [helper.make_node("Add", ["x", "x"], ["z"])], "branch", [], [helper.make_tensor_value_info("z", 1, None)])
body = helper.make_graph(
    [helper.make_node("Add", ["held", "held"], ["next"]), helper.make_node("Identity", ["more"], ["go"])],
    "body",
    [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("more", 9, []),
     helper.make_tensor_value_info("held", 1, [2])],
    [helper.make_tensor_value_info("go", 9, []), helper.make_tensor_value_info("next", 1, [2])])
step = helper.make_graph(
    [helper.make_node("Add", ["held", "one"], ["sum"]), helper.make_node("Identity", ["sum"], ["out"])],
    "step",
    [helper.make_tensor_value_info("held", 1, [3]), helper.make_tensor_value_info("one", 1, [3])],
    [helper.make_tensor_value_info("sum", 1, [3]), helper.make_tensor_value_info("out", 1, [3])])

specs = {
    **{op: dict(input=above(0, 2, 3), X=above(0, 2, 3)) for op in ("Log", "Sqrt", "Reciprocal")},
    "Acosh": dict(input=above(1, 2, 3)),
    "Add": dict(A=floats(2, 3), B=floats(3)),
    "AffineGrid": dict(theta=floats(2, 2, 3), size=[2, 3, 4, 5]),
    **{op: dict(A=bools(2, 3), B=bools(3)) for op in ("And", "Or", "Xor")},
    **{op: [dict(data=floats(2, 3, 4), axis=1), dict(data=floats(2, 3))] for op in ("ArgMax", "ArgMin")},
    "Attention": dict(Q=floats(1, 2, 3, 4), K=floats(1, 2, 5, 4), V=floats(1, 2, 5, 4)),
    "AveragePool": [pool, dict(pool, count_include_pad=1), dict(pool, ceil_mode=1)],
    "BatchNormalization": lambda opset: [normed(4), *([dict(normed(4, 3, 2), spatial=0)] if opset < 9 else [])],
    "BitCast": dict(input=floats(2, 3), to=TensorProto.INT32),
    "BitShift": dict(X=whole(0, 9, 3, dtype=bytes8), Y=whole(0, 3, 3, dtype=bytes8), direction="LEFT"),
    **{op: dict(A=whole(0, 99, 3), B=whole(0, 99, 3)) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitwiseNot": dict(X=whole(0, 99, 3)),
    **{op: dict(size=scalar(7, numpy.int64)) for op in ("BlackmanWindow", "HammingWindow", "HannWindow")},
    "Cast": [dict(input=3 * floats(2, 3), to=TensorProto.INT32), dict(input=whole(0, 2, 3), to=TensorProto.BOOL)],
    "CastLike": dict(input=3 * floats(2, 3), target_type=whole(0, 2, 1)),
    "CenterCropPad": dict(input_data=floats(4, 5), shape=[2, 7]),
    "Clip": [dict(input=floats(2, 3), min=scalar(-0.3), max=scalar(0.4)), dict(input=floats(2, 3))],
    "Col2Im": dict(input=floats(1, 4, 9), image_shape=[4, 4], block_shape=[2, 2]),
    "Compress": dict(input=floats(3, 4), condition=known([True, False, True]), axis=0),
    "Concat": dict(inputs=[floats(2, 3), floats(2, 1)], axis=1),
    "Constant": dict(value=numpy_helper.from_array(floats(2, 3))),
    "ConstantOfShape": dict(input=[2, 3], value=numpy_helper.from_array(numpy.array([4], numpy.int64))),
    "Conv": [dict(image, W=floats(3, 2, 2, 3), B=floats(3), pads=[1, 0, 0, 1]), dict(image, W=floats(3, 2, 2, 2), auto_pad="SAME_LOWER")],
    "ConvInteger": dict(x=convolved["x"], w=convolved["w"], x_zero_point=scalar(9, bytes8)),
    "ConvTranspose": dict(image, W=floats(2, 3, 2, 3), strides=[2, 2], output_padding=[1, 0]),
    "CumProd": dict(x=floats(2, 3), axis=scalar(1, numpy.int64)),
    "CumSum": dict(x=floats(2, 3), axis=scalar(1, numpy.int64), exclusive=1),
    "DFT": [dict(input=floats(1, 5, 4, 2), axis=scalar(1, numpy.int64)), dict(input=floats(1, 6, 1), onesided=1, axis=scalar(1, numpy.int64))],
    "DeformConv": dict(image, W=floats(2, 2, 2, 2), offset=floats(1, 8, 5, 6)),
    "DepthToSpace": dict(input=floats(1, 8, 2, 3), blocksize=2),
    "DequantizeLinear": dict(x=whole(0, 255, 2, 3, dtype=bytes8), x_scale=scalar(0.1), x_zero_point=scalar(7, bytes8)),
    "Det": dict(X=floats(2, 3, 3)),
    "Div": dict(A=floats(2, 3), B=above(0, 3)),
    # Of the mask of nothing dropped ONNX says what it is from opset 12 on.
    "Dropout": lambda opset: dict(data=floats(2, 3), ratio=scalar(0.3), _outputs=1 if opset < 12 else 2),
    "DynamicQuantizeLinear": dict(x=floats(2, 3), _outputs=3),
    "Einsum": dict(Inputs=[floats(2, 3), floats(3, 4)], equation="ij,jk->ki"),
    "Equal": dict(A=whole(0, 2, 2, 3), B=whole(0, 2, 3)),
    "Expand": dict(input=floats(3, 1), shape=[2, 1, 4]),
    "EyeLike": dict(input=floats(3, 4), k=1),
    "Flatten": [dict(input=floats(2, 3, 4)), dict(input=floats(2, 3, 4), axis=0)],
    "GRU": dict(recurrent, W=floats(1, 12, 3), R=floats(1, 12, 4), B=floats(1, 24), _outputs=2),
    "Gather": dict(data=floats(3, 4), indices=whole(0, 3, 2), axis=1),
    "GatherElements": dict(data=floats(3, 4), indices=whole(0, 3, 3, 2), axis=1),
    "GatherND": dict(data=floats(3, 4), indices=whole(0, 3, 2, 1)),
    "Gemm": dict(A=floats(4, 2), B=floats(3, 4), C=floats(3), transA=1, transB=1, alpha=0.5, beta=2.0),
    **{op: dict(A=floats(2, 3), B=floats(3)) for op in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    "GridSample": [dict(X=floats(1, 2, 4, 5), grid=floats(1, 3, 2, 2)), dict(X=floats(1, 2, 4, 5), grid=2 * floats(1, 3, 2, 2), padding_mode="reflection", align_corners=1)],
    "GroupNormalization": lambda opset: dict(
        X=floats(2, 4, 3), num_groups=2, scale=floats(2 if opset < 21 else 4), bias=floats(2 if opset < 21 else 4)),
    "If": dict(cond=known(True), then_branch=branch, else_branch=branch, _free=dict(x=floats(2))),
    "InstanceNormalization": dict(input=floats(2, 3, 4), scale=floats(3), B=floats(3)),
    "IsInf": dict(X=numpy.array([1, numpy.inf, -numpy.inf], numpy.float32)),
    "IsNaN": dict(X=numpy.array([1, numpy.nan], numpy.float32)),
    "LRN": dict(image, size=3),
    "LSTM": dict(recurrent, W=floats(1, 16, 3), R=floats(1, 16, 4), B=floats(1, 32), P=floats(1, 12), _outputs=3),
    "LayerNormalization": dict(X=floats(2, 3, 4), Scale=floats(4), B=floats(4)),
    "Loop": dict(M=scalar(3, numpy.int64), cond=known(True), v_initial=[floats(2)], body=body),
    "LpPool": [pool, dict(pool, p=3)],
    "MatMul": dict(A=floats(2, 3, 4), B=floats(4, 2)),
    "MatMulInteger": dict(A=quantised["a"], B=quantised["b"], a_zero_point=scalar(9, bytes8)),
    **{op: dict(data_0=[floats(2, 3), floats(2, 3)]) for op in ("Max", "Mean", "Min", "Sum")},
    "MaxPool": [pool, dict(pool, ceil_mode=1), dict(pool, storage_order=1, _outputs=2)],
    "MaxUnpool": dict(X=floats(1, 1, 2, 2), I=numpy.array([[[[0, 3], [8, 15]]]]), kernel_shape=[2, 2], strides=[2, 2]),
    "MeanVarianceNormalization": dict(X=floats(2, 3, 4, 5)),
    "MelWeightMatrix": dict(num_mel_bins=scalar(4, numpy.int64), dft_length=scalar(16, numpy.int64), sample_rate=scalar(8192, numpy.int64), lower_edge_hertz=scalar(0.0), upper_edge_hertz=scalar(4096.0)),
    "Mod": dict(A=whole(-9, 9, 2, 3), B=whole(1, 5, 3)),
    **{op: dict(A=floats(2, 3), B=floats(3)) for op in ("Mul", "Sub")},
    "NegativeLogLikelihoodLoss": dict(input=floats(2, 3, 4), target=whole(0, 3, 2, 4)),
    "NonZero": dict(X=known(whole(0, 2, 3, 4))),
    "Not": dict(X=bools(3)),
    "OneHot": dict(indices=whole(0, 3, 2), depth=scalar(3, numpy.int64), values=floats(2)),
    "PRelu": dict(X=floats(2, 3), slope=floats(3)),
    "Pad": [dict(data=floats(2, 3), pads=[1, 0, 2, 1], constant_value=scalar(1.5)), dict(data=floats(3, 4), pads=[1, 2, 0, 1], mode="reflect"), dict(data=floats(3, 4), pads=[1, 2, 0, 1], mode="edge")],
    "Pow": dict(X=above(0, 2, 3), Y=floats(3)),
    "QLinearConv": convolved,
    "QLinearMatMul": quantised,
    "QuantizeLinear": dict(x=floats(2, 3), y_scale=scalar(0.01), y_zero_point=scalar(120, bytes8)),
    "RMSNormalization": dict(X=floats(2, 3, 4), scale=floats(4)),
    "RNN": dict(recurrent, W=floats(1, 4, 3), R=floats(1, 4, 4), B=floats(1, 8), _outputs=2),
    "Range": dict(start=scalar(1.0), limit=scalar(4.0), delta=scalar(0.5)),
    **{"Reduce" + kind: [axis, dict(axis, keepdims=0), dict(data=above(0, 2, 3))] for kind in ("L1", "L2", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")},
    "ReduceLogSum": dict(axis, data=above(0, 2, 3, 4)),
    "Reshape": [dict(data=floats(2, 3, 4), shape=[0, -1])],
    "Resize": [dict(X=floats(1, 1, 3, 4), scales=known(numpy.array([1, 1, 2, 1.5], numpy.float32)), roi=known(numpy.zeros(0, numpy.float32)), mode=mode) for mode in ("nearest", "linear")],
    "ReverseSequence": dict(input=floats(4, 3), sequence_lens=numpy.array([2, 4, 1])),
    "RoiAlign": dict(image, rois=numpy.array([[0, 0, 4, 5], [1, 1, 3, 3]], numpy.float32), batch_indices=numpy.zeros(2, numpy.int64), output_height=2, output_width=2, sampling_ratio=2),
    "RotaryEmbedding": dict(X=floats(1, 2, 3, 4), cos_cache=floats(5, 2), sin_cache=floats(5, 2), position_ids=whole(0, 5, 1, 3)),
    "STFT": dict(signal=floats(1, 16, 1), frame_step=scalar(4, numpy.int64), frame_length=scalar(8, numpy.int64)),
    "Scan": dict(initial_state_and_scan_inputs=[floats(3), floats(4, 3)], body=step, num_scan_inputs=1, _outputs=2),
    **{op: dict(data=floats(3, 4), indices=numpy.array([[0, 2, 1, 0]]), updates=floats(1, 4)) for op in ("Scatter", "ScatterElements")},
    "ScatterND": dict(data=floats(3, 4), indices=numpy.array([[2], [0]]), updates=floats(2, 4)),
    "Slice": [dict(data=floats(4, 5), starts=[1, -3], ends=[3, 2**31 - 1]), dict(data=floats(4, 5), starts=[1], ends=[-1], axes=[1], steps=[2])],
    "SoftmaxCrossEntropyLoss": dict(scores=floats(2, 3), labels=whole(0, 3, 2)),
    **{op: lambda opset: [
        dict(input=floats(2, 3, 4)), *[dict(input=floats(2, 3, 4), axis=axis) for axis in (0, 1, 2, *((-1, -2) if opset >= 11 else ()))]]
       for op in ("Softmax", "LogSoftmax", "Hardmax")},
    "SpaceToDepth": dict(input=floats(1, 2, 4, 6), blocksize=2),
    "Split": [dict(input=floats(2, 6), split=[2, 4], axis=1, _outputs=2), dict(input=floats(4, 3), num_outputs=2, _outputs=2)],
    "Squeeze": [dict(data=floats(1, 3, 1), axes=[2]), dict(data=floats(1, 3, 1))],
    "SwiGLU": dict(X=floats(2, 3), Y=floats(2, 3)),
    "TensorScatter": dict(past_cache=floats(2, 1, 5, 3), update=floats(2, 1, 2, 3), write_indices=numpy.array([1, 2])),
    "Tile": dict(input=floats(2, 3), repeats=[2, 1]),
    "TopK": [dict(X=floats(3, 5), K=[2], _outputs=2), dict(X=floats(3, 5), K=[2], largest=0, axis=0, _outputs=2)],
    "Transpose": dict(data=floats(2, 3, 4), perm=[1, 0, 2]),
    "Trilu": dict(input=floats(3, 4), k=scalar(1, numpy.int64)),
    "Unique": dict(X=known(numpy.array([3, 1, 3, 2])), _outputs=4),
    "Unsqueeze": dict(data=floats(2, 3), axes=[0, 2]),
    "Upsample": [dict(X=floats(1, 1, 2, 3), scales=known(numpy.array([1, 1, 2, 3], numpy.float32)), mode=mode) for mode in ("nearest", "linear")],
    "Where": dict(condition=bools(2, 3), X=floats(2, 3), Y=floats(3)),
}
# Names that older versions have.
older = {"constant_value": "value", "data": "input", "K": "k", "X": "input", "W": "weights"}


def attribute_of(value, kind):
    if isinstance(value, tuple):
        value = value[1].tolist()
    if kind == defs.OpSchema.AttrType.INT and isinstance(value, list):
        return value[0]
    return value


class Model:
    """One node of a version of its op, with its inputs."""

    def __init__(self, schema, opset, spec):
        self.feeds, self.initial, self.infos, self.names = {}, [], [], []
        attributes = {}
        taken = {"_outputs", "_free"}
        values = {**spec, **{new: spec[old] for old, new in older.items() if old in spec and new not in spec}}
        for formal in schema.inputs:
            if formal.name in values:
                self.add(formal.name, values[formal.name])
            elif formal.option == defs.OpSchema.FormalParameterOption.Optional:
                self.names.append("")
            else:
                self.add(formal.name, floats(2, 3, 4))
        inputs = {formal.name for formal in schema.inputs}
        for name, value in values.items():
            if name in schema.attributes and name not in inputs and name not in taken:
                attributes[name] = attribute_of(value, schema.attributes[name].type)
        for name, value in spec.get("_free", {}).items():
            self.feed(name, value)
        while self.names and self.names[-1] == "":
            self.names.pop()
        self.outputs = [f"y{index}" for index in range(min(schema.max_output, spec.get("_outputs", 1)))]
        node = helper.make_node(schema.name, self.names, self.outputs, **attributes)
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph([node], "g", self.infos, outputs, self.initial)
        imports = [helper.make_opsetid("", opset)]
        self.proto = helper.make_model(graph, opset_imports=imports, ir_version=helper.find_min_ir_version_for(imports))
        self.proto = onnx.shape_inference.infer_shapes(self.proto)

    def add(self, name, value):
        if isinstance(value, tuple):
            self.hold(name, value[1])
        elif isinstance(value, list) and isinstance(value[0], numpy.ndarray):
            for index, one in enumerate(value):
                self.names.append(f"{name}{index}")
                self.feed(f"{name}{index}", one)
        elif isinstance(value, list):
            self.hold(name, numpy.array(value, numpy.int64))
        else:
            self.names.append(name)
            self.feed(name, value)

    def hold(self, name, value):
        self.names.append(name)
        self.initial.append(numpy_helper.from_array(value, name))

    def feed(self, name, value):
        self.feeds[name] = value
        self.infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))


def versions(op, oldest, newest):
    """Schemas of an op with the first and the last opset in which each is the op's meaning."""
    schemas = [one for one in defs.get_all_schemas_with_history() if one.name == op and one.domain == ""]
    schemas.sort(key=lambda one: one.since_version)
    for schema, following in zip(schemas, [*schemas[1:], None]):
        last = newest if following is None else following.since_version - 1
        first = max(schema.since_version, oldest)
        if first <= last and first <= newest and not schema.deprecated:
            yield schema, sorted({first, min(last, newest)})


def write(folder, model):
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(model.proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    made = session.run(model.outputs, model.feeds)
    folder.mkdir()
    (folder / "model.onnx").write_bytes(model.proto.SerializeToString())
    numpy.savez(folder / "inputs.npz", **model.feeds)
    numpy.savez(folder / "outputs.npz", **dict(zip(model.outputs, made)))


folder, oldest, newest = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
newest = min(newest, defs.onnx_opset_version())
skipped = {}
for op in sys.argv[4:]:
    given = specs.get(op, {})
    for schema, opsets in versions(op, oldest, newest):
        for opset in opsets:
            made = given(opset) if callable(given) else given
            for number, spec in enumerate(made if isinstance(made, list) else [made]):
                name = f"{op}-{opset}-{number}"
                try:
                    write(folder / name, Model(schema, opset, spec))
                except Exception as error:
                    skipped[name] = str(error).split("\n")[0]
(folder / "skipped.json").write_text(json.dumps(skipped))
