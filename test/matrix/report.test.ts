// What `heddle script --explain` and `--stats` print of the programs that were made.

import { entries, evaluate, matrixPrograms, ones, rand } from "heddle/matrix";
import { expect, test } from "vitest";
import { explainPrograms, programStatistics } from "../../src/matrix/report/report.ts";

const rows = 9_000;
const x = rand(rows, 40, { seed: 1 });
const v = ones(40, 1);
const at = Int32Array.from({ length: rows }, (_unused, row) => row);
const s = entries(ones(rows, 1).dataSync(), at, at, [rows, rows]);
evaluate(x, v);

/** The programs that a function makes. */
function programsOf(run: () => void) {
  const before = new Set(matrixPrograms());
  run();
  return matrixPrograms().filter((program) => !before.has(program));
}

test("steps with sizes and estimates, passes over rows, rules, memory", () => {
  const programs = programsOf(() => evaluate(x.T.matmul(x.matmul(v)).add(0)));
  const text = explainPrograms(programs);
  expect(text).toMatch(/^1 program, each a block of the script\nprogram 1: 1 run, compiled, [\d,]+ operations\n/);
  expect(text).toContain(`  inputs f64 ${rows}x40, f64 40x1, f64 1x1\n`);
  expect(text).toMatch(/\n {2}4 = matmul\(0,1\) 9000x1 +72\.0 KB +9,000 not 0\n/);
  expect(text).toContain(`pass over rows: 3 4 5 in blocks of the ${rows} rows of 0, summed up to 5\n`);
  expect(text).toMatch(
    /rules used: dot of transpose \d\n {2}memory: 2\.88 MB of inputs, [\d.]+ \w+ of values between them$/,
  );
});

test("the format of a matrix of entries", () => {
  const programs = programsOf(() => evaluate(s.matmul(x)));
  expect(explainPrograms(programs)).toContain(
    `format: ${rows}x${rows} of ${rows.toLocaleString("en")} entries: entries`,
  );
});

test("a small program is interpreted, and has no rules to tell of", () => {
  const programs = programsOf(() => evaluate(v.mul(3)));
  expect(explainPrograms(programs)).toMatch(/program 1: 1 run, interpreted/);
});

test("what took the most time stands first", () => {
  const programs = programsOf(() => {
    evaluate(v.mul(4).add(v));
    evaluate(x.matmul(v).mul(7));
  });
  const [total, head, ...lines] = programStatistics(programs, 1.5).split("\n");
  expect(total).toMatch(/^1\.50 s: 2 programs \d+\.\d\d s, of which first runs of compiled ones \d+\.\d\d s$/);
  expect(head?.trim().split(/\s+/)).toEqual(["ms", "share", "runs", "first", "operators"]);
  expect(lines).toHaveLength(2);
  const times = lines.map((line) => Number(line.trim().split(/\s+/)[0]));
  expect(times[0]).toBeGreaterThanOrEqual(times[1] as number);
  expect(lines.find((line) => line.endsWith("matmul mul"))).toBeDefined();
});
