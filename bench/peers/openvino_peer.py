"""OpenVINO as a peer of inference: runs the model that Heddle wrote."""

import platform

import openvino
from link import Outputs, read_arrays, read_spec, serve


class Inference(Outputs):
    """A compiled model."""

    def __init__(self, spec):
        super().__init__(spec)
        self.versions = {"openvino": openvino.__version__.split("-")[0], "python": platform.python_version()}
        _, inputs, _ = read_arrays(spec)
        # By itself OpenVINO computes in bf16 on processors with AMX.
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": spec["threads"],
            "INFERENCE_PRECISION_HINT": "f32",
        }
        request = openvino.Core().compile_model(spec["onnx"], "CPU", options).create_infer_request()
        self.run = lambda: request.infer({0: inputs[0]}, share_inputs=True, share_outputs=True)[0]


def main():
    spec = read_spec()
    serve(spec, Inference(spec))


if __name__ == "__main__":
    main()
