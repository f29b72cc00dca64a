/** What `heddle launch slurm` writes. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
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
  [{ nodes: "many" }, /--nodes 'many' is not a number of hosts/],
  [{ nodes: "0" }, /--nodes '0' is not a number of hosts/],
  [{ cpus: "1.5" }, /--cpus '1.5' is not a number of processors/],
  [{ time: "soon" }, /--time 'soon' is not a time of Slurm/],
  [{ time: "1-" }, /--time '1-' is not a time of Slurm/],
  [{ engineArgs: "mem=8G" }, /--engine-args: 'mem=8G' is neither a flag of sbatch nor the value of one/],
  [{ engineArgs: "--mem=8G lab" }, /--engine-args: 'lab' is neither/],
  [{ engineArgs: "--account lab two" }, /--engine-args: 'two' is neither/],
])("%o is refused", (options, says) => expect(() => write(options as Record<string, string>)).toThrow(says));

test.each([
  [{ nodes: "2-4" }, ["--nodes=2-4"]],
  [{ nodes: "1,5-9:4" }, ["--nodes=1,5-9:4"]],
  [{ time: "90" }, ["--time=90"]],
  [{ time: "1-12" }, ["--time=1-12"]],
  [{ time: "1-12:30:00" }, ["--time=1-12:30:00"]],
  [{ time: "UNLIMITED" }, ["--time=UNLIMITED"]],
  [{ cpus: "16" }, ["--cpus-per-task=16"]],
  [
    { engineArgs: "-A lab --exclusive --comment='two words' -p long" },
    ["-A lab", "--exclusive", "--comment='two words'", "-p long"],
  ],
])("%o becomes the directives %j", (options, directives) => {
  const lines = write(options as unknown as Record<string, string>).split("\n");
  expect(lines.filter((line) => directives.includes(line.replace("#SBATCH ", "")))).toHaveLength(directives.length);
});

test.each([
  [undefined, "there is no srun here"],
  [
    "echo 'srun: fatal: Could not establish a configuration source' >&2; exit 1",
    "srun cannot be used here: srun: fatal: Could not establish a configuration source",
  ],
  ["exit 3", "srun cannot be used here: it ends with status 3"],
  ["echo slurm 22.05.8", undefined],
])("an srun that does '%s' is reported as '%s'", async (script, message) => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-srun-"));
  if (script !== undefined) writeFileSync(join(folder, "srun"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  vi.stubEnv("PATH", folder);
  const missing = await findEngine("slurm").missing();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
  expect(missing?.message).toBe(message);
});

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
