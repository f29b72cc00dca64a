// `npm run test:xla`: compares every op, and whole graphs, with XLA on this machine's processor. What it needs goes into a
// virtual environment of its own, .heddle/xla; nothing else on the machine changes.
//
//   npm run test:xla                    all of it
//   npm run test:xla -- graphs -t LeNet arguments go to vitest

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { handleSignals, run } from "./process.mjs";
import { SetupError, setup } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, ".heddle", "xla");
const requirements = join(root, "test", "xla", "requirements.txt");
const inFolder = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
const oldest = [3, 11];

/** A Python that the pinned packages run on: HEDDLE_PYTHON, or the first that is new enough. */
function findPython() {
  const names = process.env.HEDDLE_PYTHON !== undefined ? [process.env.HEDDLE_PYTHON] : ["python3", "python"];
  for (const name of names) {
    const { status, stdout } = spawnSync(name, ["-c", "import sys, venv; print(*sys.version_info[:2])"], {
      encoding: "utf8",
    });
    const [major, minor] = (stdout ?? "").split(" ").map(Number);
    if (status === 0 && (major > oldest[0] || (major === oldest[0] && minor >= oldest[1]))) return name;
  }
  throw new SetupError(
    `XLA needs Python ${oldest.join(".")} or newer with venv, and ${names.join(", ")} is not one\n` +
      "  install it (Debian: apt-get install python3-venv), or name one in HEDDLE_PYTHON",
  );
}

/** Makes the environment, unless it is there with these very packages. Returns its Python. */
async function environment() {
  const python = join(folder, ...inFolder);
  const stamp = join(folder, "requirements.txt");
  const wanted = readFileSync(requirements, "utf8");
  if (existsSync(python) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return python;
  rmSync(folder, { recursive: true, force: true });
  console.log("installing XLA (600 MB on disk) into .heddle/xla");
  const steps = [
    [findPython(), ["-m", "venv", folder]],
    [python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]],
  ];
  for (const [command, args] of steps) {
    const { status, output } = await run(command, args, { cwd: root, stdio: "capture" });
    if (status !== 0) throw new SetupError(`${command} ${args.join(" ")} failed (status ${status})\n${output}`);
  }
  // Last, so that an install that was cut off is done again.
  writeFileSync(stamp, wanted);
  return python;
}

async function main(args) {
  await setup({ only: ["packages"] });
  const python = await environment();
  const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
  const { status } = await run(
    process.execPath,
    [vitest, "run", "--root", root, "--config", "test/xla/vitest.config.ts", ...args],
    { cwd: root, env: { ...process.env, HEDDLE_XLA_PYTHON: python } },
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
