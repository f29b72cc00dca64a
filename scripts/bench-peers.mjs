// Installs what `npm run bench` compares Heddle with into .heddle/bench, and prints the path of its Python.
//
// PyPI's PyTorch for Linux on x86 needs 4 GB of CUDA packages to be imported, though a CPU uses none of them. They are
// left out (pip --no-deps with every other package pinned), and without_cuda.py replaces them with a small library.

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals } from "./process.mjs";
import { pythonEnvironment } from "./python.mjs";
import { SetupError } from "./setup.mjs";

const peers = fileURLToPath(new URL("../bench/peers", import.meta.url));

handleSignals();
pythonEnvironment({
  name: "bench",
  requirements: join(peers, "requirements.txt"),
  say: () =>
    console.error(
      "installing PyTorch, JAX, ONNX Runtime and OpenVINO (2.3 GB on disk, 0.8 GB to download) into .heddle/bench",
    ),
  pipArguments: ["--no-deps"],
  finish: [join(peers, "without_cuda.py")],
}).then(
  (python) => console.log(python),
  (error) => {
    console.error(error instanceof SetupError ? `heddle bench: ${error.message}` : error);
    process.exit(2);
  },
);
