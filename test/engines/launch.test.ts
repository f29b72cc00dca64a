/** What `heddle launch slurm` writes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { engines, findEngine } from "../../src/launch/engines/table.ts";
import { restartsBefore } from "../../src/launch/restarts.ts";

let file: string;
beforeAll(() => {
  file = join(mkdtempSync(join(tmpdir(), "heddle-launch-")), "my train.ts");
  writeFileSync(file, "");
});
afterAll(() => rmSync(join(file, ".."), { recursive: true, force: true }));

const write = (options: Record<string, string>, args: string[] = []): string =>
  findEngine("slurm").job?.write({ file, args, workers: 8, options }) ?? "";

test("directives come first, and words are quoted as the shell reads them", () => {
  const text = write({ nodes: "2", time: "2:00:00", notice: "60", engineArgs: "--mem=8G --account lab" }, [
    "it's",
    "--lr",
  ]);
  expect(text.split("\n").slice(0, 12)).toEqual([
    "#!/bin/bash",
    "#SBATCH --job-name=my_train.ts",
    "#SBATCH --ntasks=8",
    "#SBATCH --nodes=2",
    "#SBATCH --time=2:00:00",
    "#SBATCH --output=my_train.ts-%j.out",
    "#SBATCH --open-mode=append",
    "#SBATCH --requeue",
    "#SBATCH --signal=B:USR2@60",
    "#SBATCH --mem=8G",
    "#SBATCH --account lab",
    "",
  ]);
  expect(text).toContain(`heddle.js run '${file}' --with slurm --workers 8 -- 'it'\\''s' --lr &\n`);
});

test.each([
  [{ name: "a b" }, /--name 'a b' is not a name of a job/],
  [{ notice: "soon" }, /--notice 'soon' is not a number of seconds/],
  [{ partition: "a\nrm" }, /--partition has several lines/],
])("%o is refused", (options, says) => expect(() => write(options as Record<string, string>)).toThrow(says));

test("engines are found by name, or all are named", () => {
  for (const engine of engines) expect(findEngine(engine.name)).toBe(engine);
  expect(() => findEngine("pbs")).toThrow(/there is no engine 'pbs'.*mpi, slurm, ray, k8s/s);
});

test.each([
  [{}, 0],
  [{ SLURM_RESTART_COUNT: "2" }, 2],
  [{ TORCHELASTIC_RESTART_COUNT: "1" }, 1],
  [{ SLURM_RESTART_COUNT: "many" }, 0],
])("a scheduler that says %o has started the job before: %i times", (variables, count) =>
  expect(restartsBefore(variables)).toBe(count),
);
