"""Writes the node tests of the package onnx, which are made by its code: a model and files of inputs and outputs for each.

    python cases.py FOLDER
"""

import sys
import warnings
from pathlib import Path

import numpy
import onnx
from onnx import numpy_helper

warnings.simplefilter("ignore")
from onnx.backend.test.case.node import collect_testcases  # noqa: E402


def proto(value, name, kind):
    """What the test's runner would read: a tensor, or nothing for sequences and optional values."""
    if isinstance(value, onnx.TensorProto):
        return value
    if kind != "tensor_type" or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    return numpy_helper.from_array(numpy.asarray(value), name)


def write(folder, case):
    place = folder / case.name
    place.mkdir(parents=True)
    (place / "model.onnx").write_bytes(case.model.SerializeToString())
    (place / "tolerance.txt").write_text(f"{case.rtol} {case.atol}")
    graph = case.model.graph
    for number, (inputs, outputs) in enumerate(case.data_sets):
        for kind, values, infos in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for index, (value, info) in enumerate(zip(values, infos)):
                made = proto(value, info.name, info.type.WhichOneof("value"))
                if made is not None:
                    (place / f"{number}-{kind}-{index}.pb").write_bytes(made.SerializeToString())


folder = Path(sys.argv[1])
cases = collect_testcases(None)
for case in cases:
    write(folder, case)
print(f"{len(cases)} cases of onnx {onnx.__version__}")
