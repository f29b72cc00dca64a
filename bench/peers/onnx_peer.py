"""ONNX Runtime as a peer of inference: runs the model that Heddle wrote."""

import platform

import onnxruntime
from link import Outputs, read_arrays, read_spec, serve


class Inference(Outputs):
    """A session of the model."""

    def __init__(self, spec):
        super().__init__(spec)
        self.versions = {"onnxruntime": onnxruntime.__version__, "python": platform.python_version()}
        _, inputs, _ = read_arrays(spec)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = spec["threads"]
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(spec["onnx"], options, providers=["CPUExecutionProvider"])
        feed = {"x": inputs[0]}
        self.run = lambda: session.run(None, feed)[0]


def main():
    spec = read_spec()
    serve(spec, Inference(spec))


if __name__ == "__main__":
    main()
