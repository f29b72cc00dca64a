// Python packages for comparisons: each use gets its own virtual environment under .heddle; nothing else changes.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "./process.mjs";
import { SetupError } from "./setup.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
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
    `Python ${oldest.join(".")} or newer with venv is needed, and ${names.join(", ")} is not one\n` +
      "  install it (Debian: apt-get install python3-venv), or name one in HEDDLE_PYTHON",
  );
}

/**
 * Makes the environment .heddle/<name>, unless it exists with exactly these packages; calls `say` before. `finish` are the
 * arguments of the environment's Python for a last step, such as a script. Returns the path of the Python.
 */
export async function pythonEnvironment({ name, requirements, say, pipArguments = [], finish }) {
  const folder = join(root, ".heddle", name);
  const python = join(folder, ...inFolder);
  const stamp = join(folder, "requirements.txt");
  const expected = readFileSync(requirements, "utf8") + (finish === undefined ? "" : readFileSync(finish[0], "utf8"));
  if (existsSync(python) && existsSync(stamp) && readFileSync(stamp, "utf8") === expected) return python;
  rmSync(folder, { recursive: true, force: true });
  say();
  const install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
  const steps = [
    [findPython(), ["-m", "venv", folder]],
    [python, [...install, ...pipArguments, "-r", requirements]],
    ...(finish === undefined ? [] : [[python, finish]]),
  ];
  for (const [command, args] of steps) {
    const { status, output } = await run(command, args, { cwd: root, stdio: "capture" });
    if (status !== 0) throw new SetupError(`${command} ${args.join(" ")} failed (status ${status})\n${output}`);
  }
  // Written last, so that an interrupted install is repeated.
  writeFileSync(stamp, expected);
  return python;
}
