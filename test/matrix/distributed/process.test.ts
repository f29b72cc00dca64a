/** Programs and scripts on matrices in blocks, in real processes: their answers are those of one, also after a worker was killed. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { io, tensor } from "heddle";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadNative } from "../../../src/executors/native/binding.ts";
import { finished, heddle } from "../../e2e/command.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-matrix-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const program = fileURLToPath(new URL("scripts/programs.ts", import.meta.url));

/** Two workers, with all but the smallest matrices in blocks. */
const inBlocks = ["--workers", "2", "--whole", "4096"];

interface Outcome {
  readonly results: Readonly<Record<string, readonly (readonly number[])[]>>;
  readonly how: readonly string[];
  readonly recoveries: number;
  readonly recalled: number;
}

async function run(workers: string, fault = ""): Promise<Outcome> {
  const { status, output } = await finished([
    "run",
    program,
    "--workers",
    workers,
    "--threads",
    "1",
    "--",
    folder,
    fault,
  ]);
  expect({ status, output }).toMatchObject({ status: 0 });
  return JSON.parse(/RESULT (.*)/.exec(output)?.[1] as string) as Outcome;
}

/** The results that differ, and by how much, relative to numbers above 1. */
function differences(one: Outcome["results"], other: Outcome["results"]): Record<string, number> {
  expect(Object.keys(one)).toEqual(Object.keys(other));
  const pairs = Object.entries(one).map(([name, values]): [string, number] => {
    const [left, right] = [values.flat(), other[name]?.flat() ?? []];
    expect(left.length).toBe(right.length);
    const apart = left.map((value, index) => Math.abs(value - (right[index] as number)) / Math.max(1, Math.abs(value)));
    return [name, apart.reduce((most, value) => (value <= most ? most : value), 0)];
  });
  return Object.fromEntries(pairs.filter(([, apart]) => !(apart < 1e-9)));
}

let alone: Outcome;
beforeAll(async () => {
  const columns = 7;
  const x = Float64Array.from(
    { length: 1003 * columns },
    (_unused, index) => ((Math.sin(1 + index * 12.9898) * 43_758.5453) % 1) * (1 + (index % columns)),
  );
  const lines = Array.from({ length: 1003 }, (_unused, row) =>
    [...x.subarray(row * columns, (row + 1) * columns)].join(","),
  );
  // A blank line is no row.
  writeFileSync(join(folder, "x.csv"), `${lines.slice(0, 400).join("\n")}\n\n${lines.slice(400).join("\r\n")}\n`);
  await io.writeNpy(join(folder, "x.npy"), tensor(x, { dtype: "f64", shape: [1003, columns] }));
  alone = await run("1");
  expect(alone.how).toEqual([]);
});

test.each(["2", "4"])("%s workers give the answers of one", async (workers) => {
  const together = await run(workers);
  expect(differences(together.results, alone.results)).toEqual({});
  expect(together.how).toEqual(
    expect.arrayContaining(["mapmm", "mapmmchain", "tsmm", "zipmm", "cpmm", "cellwise", "rand"]),
  );
});

test.each([2, 4])("%i workers send what the formulas say, by the record of the native core", async (workers) => {
  const script = fileURLToPath(new URL("scripts/sent.ts", import.meta.url));
  const flight = join(folder, `${workers}.flight`);
  const { status, output } = await finished(["run", script, "--workers", `${workers}`, "--threads", "1", "--", flight]);
  expect({ status, output }).toMatchObject({ status: 0 });
  const planned = JSON.parse(/RESULT (.*)/.exec(output)?.[1] as string) as number[];
  const native = loadNative();
  if ("error" in native) throw new Error(native.error);
  const ran = native.readFlight(flight).entries.map(({ description }) => description);
  const counts = (kind: RegExp): number[] => ran.flatMap((text) => Number(kind.exec(text)?.[1] ?? 0) || []);
  // The numbers that each worker has of a sum, and of a block.
  const sums = counts(/^allReduce sum f64 x (\d+)/);
  const blocks = counts(/^allGather f64 x (\d+)/);
  expect(sums).toEqual([64, 8 * 40, 8, 8]);
  expect(blocks).toEqual([8192 / workers]);
  const bytes = [
    ...sums.map((count) => 2 * 8 * count * (workers - 1)),
    ...blocks.map((count) => 8 * count * workers * (workers - 1)),
  ];
  const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
  expect(total(planned)).toBe(total(bytes));
});

describe("a worker is killed in the middle", () => {
  test.each([
    ["1@cg", "2:3", 1],
    ["0@cg", "2:3", 1],
    ["2@residual", "2:4", 1],
    ["1@kmeans", "1:2", 1],
  ])("%s of %s", async (fault, workers, recoveries) => {
    const together = await run(workers, fault);
    expect(differences(together.results, alone.results)).toEqual({});
    expect(together.recoveries).toBe(recoveries);
    // What was there before the loss is not computed again, where every worker had it whole.
    if (!fault.startsWith("1@kmeans")) expect(together.recalled).toBeGreaterThan(2);
  });
});

test("workers that compute on other sizes are told so", async () => {
  const differ = fileURLToPath(new URL("scripts/differ.ts", import.meta.url));
  const { status, output } = await finished(["run", differ, "--workers", "2", "--threads", "1"]);
  expect({ status, output }).toMatchObject({ status: 1 });
  expect(output).toMatch(/they compute different things; worker [01] computes\n[\s\S]*500[01]x4/);
  expect(output).toContain("all workers must compute the same");
});

test("a worker that comes later is told how often the program began again", async () => {
  const args = ["--workers", "2:2", "--restarts", "1", "--threads", "1", "--", folder, "1@cg"];
  const { status, output } = await finished(["run", program, ...args]);
  expect({ status, output }).toMatchObject({ status: 0 });
  expect([...output.matchAll(/RECOVERIES (\d)/g)].map(([, count]) => count)).toEqual(["0", "0", "1", "1"]);
});

const cg = `
X = read($1); y = X %*% matrix("1 -2 3 0 0.5 4 -1", 7, 1) + 0.1 * rand(rows=nrow(X), cols=1, seed=3)
w = matrix(0, ncol(X), 1); r = -(t(X) %*% y); p = -r; norm = sum(r ^ 2); i = 0
while (i < 7) {
  q = t(X) %*% (X %*% p) + 0.001 * p
  a = norm / sum(p * q)
  w = w + a * p; r = r + a * q
  before = norm; norm = sum(r ^ 2); p = -r + norm / before * p; i = i + 1
  print("step " + i)
}
write(w, $2, format="csv")
write(X %*% w, $3, format="csv")
print("norm " + (norm < 1e-6))
`;

/** Expects the numbers of two files to agree, relative to numbers above 1. */
function expectSame(name: string, other: string): void {
  const [left, right] = [name, other].map((file) =>
    readFileSync(join(folder, file), "utf8").trim().split(/[\n,]/).map(Number),
  ) as [number[], number[]];
  expect(left.length).toBe(right.length);
  const apart = left.map((value, index) => Math.abs(value - (right[index] as number)) / Math.max(1, Math.abs(value)));
  expect(apart.filter((value) => !(value < 1e-9))).toEqual([]);
}

describe("heddle script --workers", () => {
  const script = join(folder, "cg.dml");
  const files = (name: string): string[] => [
    "-args",
    join(folder, "x.csv"),
    join(folder, `${name}.csv`),
    join(folder, `${name}-fit.csv`),
  ];
  beforeAll(async () => {
    writeFileSync(script, cg);
    const { status, output } = await finished(["script", script, ...files("w1")]);
    expect({ status, output }).toMatchObject({ status: 0 });
  });

  test("the answers are those of one process, and one worker prints and writes", async () => {
    const { status, output } = await finished(["script", script, ...inBlocks, "--stats", "--explain", ...files("w2")]);
    expect({ status, output }).toMatchObject({ status: 0 });
    expect(output.match(/^step \d$/gm)).toHaveLength(7);
    for (const suffix of ["", "-fit"]) expectSame(`w2${suffix}.csv`, `w1${suffix}.csv`);
    expect(output).toMatch(/mapmmchain: a sum/);
    const [, sent, predicted] = /2 workers sent (.*?) in programs \((.*?) by the formulas\)/.exec(output) ?? [];
    expect(sent).toBe(predicted);
    expect(sent).not.toBe("0 B");
  });

  test("an error of the script is told once, with its line", async () => {
    writeFileSync(join(folder, "wrong.dml"), "X = read($1)\nprint(sum(X %*% X))\n");
    const { status, output } = await finished([
      "script",
      join(folder, "wrong.dml"),
      ...inBlocks,
      "-args",
      join(folder, "x.csv"),
    ]);
    expect(status).toBe(1);
    expect(output.match(/do not fit/g)).toHaveLength(1);
    expect(output).toMatch(/wrong\.dml:2/);
  });

  test("a malformed row of one worker is told with its line", async () => {
    const text = readFileSync(join(folder, "x.csv"), "utf8").split("\n");
    text[900] = `${text[900]?.trim()},1`;
    writeFileSync(join(folder, "odd.csv"), text.join("\n"));
    writeFileSync(join(folder, "odd.csv.mtd"), '{"rows": -1, "cols": -1}');
    const { status, output } = await finished([
      "script",
      script,
      ...inBlocks,
      "-args",
      join(folder, "odd.csv"),
      "a",
      "b",
    ]);
    expect(status).toBe(1);
    expect(output).toMatch(/odd\.csv:901: 8 columns, where the first row has 7/);
  });

  test("a worker that is killed from outside", async () => {
    const command = heddle(["script", script, "--workers", "2:3", "--whole", "4096", ...files("w3")]);
    await command.seen(/step 2/);
    const children = readFileSync(`/proc/${command.process.pid}/task/${command.process.pid}/children`, "utf8")
      .trim()
      .split(" ");
    process.kill(Number(children.at(-1)), "SIGKILL");
    const { status } = await command.ended();
    expect({ status, output: command.output() }).toMatchObject({ status: 0 });
    expect(command.output().match(/^step \d$/gm)).toHaveLength(7);
    expectSame("w3.csv", "w1.csv");
  });

  test("the worker that prints is lost while the others go on: no line is", async () => {
    const lines = 400;
    const counting = join(folder, "counting.dml");
    writeFileSync(
      counting,
      `X = read($1); s = sum(t(X) %*% X)\nfor (i in 1:${lines}) { print("line " + i) }\nprint(s == sum(t(X) %*% X))\n`,
    );
    const command = heddle(["script", counting, "--workers", "1:2", "--whole", "4096", "-args", join(folder, "x.csv")]);
    await command.seen(/line 200\n/);
    const [first] = readFileSync(`/proc/${command.process.pid}/task/${command.process.pid}/children`, "utf8").split(
      " ",
    );
    process.kill(Number(first), "SIGSTOP");
    // Long enough for the other to come to the end of the loop, if it did not wait.
    await setTimeout(500);
    process.kill(Number(first), "SIGKILL");
    const { status } = await command.ended();
    expect({ status, output: command.output() }).toMatchObject({ status: 0 });
    const seen = [...command.output().matchAll(/line (\d+)$/gm)].map(([, line]) => Number(line));
    expect([...new Set(seen)]).toEqual(Array.from({ length: lines }, (_unused, at) => at + 1));
    // The line at which it was lost may come twice.
    expect(seen.length).toBeLessThanOrEqual(lines + 1);
  });

  test.each([
    [["--workers", "0"], /--workers 0: It must be a whole number/],
    [["--workers"], /--workers needs a value/],
    [["--whole", "x", "--workers", "2"], /--whole x: It must be a whole number/],
  ])("%s", async (flags, message) => {
    const { status, output } = await finished(["script", script, ...flags]);
    expect(status).toBe(2);
    expect(output).toMatch(message);
  });
});
