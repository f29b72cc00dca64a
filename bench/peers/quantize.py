"""Writes a perceptron as ONNX and quantises it, as ONNX Runtime's users do: `quantize.py MODEL QUANTISED`, for HEDDLE_BENCH_SPEC."""

import logging
import sys

import onnx
from link import read_arrays, read_spec
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic


def perceptron(sizes, parameters):
    """Products, biases and relus of the network, by name `x` to `y`."""
    nodes, values, x = [], [], "x"
    last = len(sizes["widths"]) - 2
    for index in range(last + 1):
        weight, bias = (parameters[f"{2 * index}.{name}"] for name in ("weight", "bias"))
        values += [
            numpy_helper.from_array(weight.T.copy(), f"weight{index}"),
            numpy_helper.from_array(bias, f"bias{index}"),
        ]
        y = "y" if index == last else f"sum{index}"
        nodes += [
            helper.make_node("MatMul", [x, f"weight{index}"], [f"product{index}"]),
            helper.make_node("Add", [f"product{index}", f"bias{index}"], [y]),
        ]
        if index < last:
            x = f"relu{index}"
            nodes.append(helper.make_node("Relu", [y], [x]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [sizes["batch"], sizes["widths"][place]])
        for name, place in (("x", 0), ("y", -1))
    ]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def main(model, quantised):
    spec = read_spec()
    parameters, _, _ = read_arrays(spec)
    onnx.save(perceptron(spec["sizes"]["network"], parameters), model)
    # Otherwise it recommends steps that are for other networks.
    logging.disable(logging.WARNING)
    quantize_dynamic(model, quantised, weight_type=QuantType.QInt8)
    made = sum(node.op_type == "MatMulInteger" for node in onnx.load(quantised).graph.node)
    if made != len(parameters) // 2:
        sys.exit(f"{made} of {len(parameters) // 2} products are quantised")


if __name__ == "__main__":
    main(*sys.argv[1:])
