// npm run bench:data: records from files to batches beside PyTorch's DataLoader and tf.data (docs/data.md). Installs them on the first run.

import { at, runBeside } from "./bench-beside.mjs";

await runBeside(
  "bench/data.ts",
  (peers) => ({
    name: "data",
    requirements: at("bench/peers/data-requirements.txt"),
    say: () => console.error("installing polars, pyarrow and TensorFlow (1.9 GB on disk) into .heddle/data"),
    // PyTorch is that of `npm run bench`.
    finish: [at("bench/peers/beside.py"), peers],
  }),
  (_peers, own) => [own],
);
