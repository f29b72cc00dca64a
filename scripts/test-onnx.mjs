// `npm run test:onnx`: ONNX's own tests of its operators, run on Heddle's import; and Heddle's exports, run by ONNX
// Runtime. It is a separate command, since its first run installs onnx and onnxruntime (200 MB on disk).
//
//   npm run test:onnx               all of it: a minute or so
//   npm run test:onnx -- -t export  further arguments go to vitest
//   npm run test:onnx -- --write     updates the table of docs/onnx.md

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { pythonEnvironment } from "./python.mjs";
import { SetupError, setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

async function main(args) {
  const write = args.includes("--write");
  await setup({ only: ["packages"] });
  const script = join(root, "test", "onnx", "cases.py");
  const python = await pythonEnvironment({
    name: "onnx",
    requirements: join(root, "test", "onnx", "requirements.txt"),
    say: () => console.log("installing onnx and ONNX Runtime (200 MB on disk) into .heddle/onnx"),
    // The package's code generates the tests; the same version generates the same tests.
    finish: [script, join(root, ".heddle", "onnx", "cases")],
  });
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const { status } = await run(
    process.execPath,
    [
      vitest,
      "run",
      "--root",
      root,
      "--config",
      "test/onnx/vitest.config.ts",
      ...args.filter((arg) => arg !== "--write"),
    ],
    {
      cwd: root,
      env: {
        ...process.env,
        HEDDLE_ONNX_PYTHON: python,
        HEDDLE_ONNX_CASES: join(root, ".heddle", "onnx", "cases"),
        HEDDLE_ONNX_UPDATE: write ? "1" : "0",
      },
    },
  );
  return status;
}

handleSignals();
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error instanceof SetupError ? `heddle test:onnx: ${error.message}` : error);
    process.exit(2);
  },
);
