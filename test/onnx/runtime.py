"""Runs ONNX models on inputs by ONNX Runtime: each FOLDER has model.onnx and inputs.npz; outputs.npz is written beside them.

    python runtime.py FOLDER...
"""

import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime

for folder in map(Path, sys.argv[1:]):
    onnx.checker.check_model(onnx.load(folder / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, dict(numpy.load(folder / "inputs.npz")))
    numpy.savez(folder / "outputs.npz", **dict(zip(names, outputs)))
