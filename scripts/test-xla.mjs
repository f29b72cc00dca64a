// `npm run test:xla`: compares every op, and whole graphs, with XLA on this machine's processor. Its packages go into their own
// virtual environment, .heddle/xla; nothing else on the machine changes.
//
//   npm run test:xla                    all of it
//   npm run test:xla -- --every 3       each third row of the tables in other dtypes and of batched inputs
//   npm run test:xla -- graphs -t LeNet arguments go to vitest

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { pythonEnvironment } from "./python.mjs";
import { SetupError, setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

async function main(args) {
  const at = args.indexOf("--every");
  const every = at < 0 ? "1" : args[at + 1];
  if (!/^[1-9]\d*$/.test(every)) throw new SetupError("--every takes a whole number of at least 1");
  const rest = at < 0 ? args : args.toSpliced(at, 2);
  await setup({ only: ["packages"] });
  const python = await pythonEnvironment({
    name: "xla",
    requirements: join(root, "test", "xla", "requirements.txt"),
    say: () => console.log("installing XLA (600 MB on disk) into .heddle/xla"),
  });
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const { status } = await run(
    process.execPath,
    [vitest, "run", "--root", root, "--config", "test/xla/vitest.config.ts", ...rest],
    { cwd: root, env: { ...process.env, HEDDLE_XLA_PYTHON: python, XLA_EVERY: every } },
  );
  return status;
}

handleSignals();
main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error) => {
    console.error(error instanceof SetupError ? `heddle test:xla: ${error.message}` : error);
    process.exit(2);
  },
);
