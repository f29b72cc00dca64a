/** `heddle plan`: what is printed, and what is said when there is nothing to plan. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { passesAfterPlanning, passesBeforePlanning } from "../../src/compile/index.ts";
import "../../src/functions/composites/index.ts";
import { allocatedBytes } from "../../src/executors/native/allocation.ts";
import { parseGraph } from "../../src/ir/index.ts";
import { parseLayouts, parsePlan, printLayouts } from "../../src/plan/index.ts";
import { parseProgram } from "../../src/program/index.ts";
import type { PlanReport } from "../../src/report/index.ts";
import { workerScript } from "../launch/launcher.ts";
import { heddle, script } from "./heddle-process.ts";

const trains = script("trains.ts");
const plan = (mesh: string, ...flags: string[]) => heddle(["plan", trains, "--mesh", mesh, ...flags]);

/** Weights [3, 4], [2, 3] and biases [3], [2] in f32. */
const parameterBytes = 4 * (12 + 3 + 6 + 2);
/** Rows of four f32 and one i32. */
const rowBytes = 20;

describe("the summary", () => {
  test("has five lines and a paragraph each for layouts, collectives, memory and cost; no graph", () => {
    const { status, stdout, stderr } = plan("data=2");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "before train\n" });
    const [lines, layouts, collectives, memory, cost, ...more] = stdout.split("\n\n");
    expect(more).toEqual([]);
    expect(lines?.split("\n").map((line) => line.split(" ")[0])).toEqual([
      "plan",
      "sharded",
      "all-reduce",
      "memory",
      "model",
    ]);
    expect(layouts).toMatch(/\n {2}params\.0\.weight +f32\[3,4\] +R +48 B\n/);
    expect(layouts).toMatch(/\n {2}optimizer\.momentumBuffer\.\* +as params +″ +92 B\n/);
    expect(layouts).toMatch(/\n {2}batch\.x +f32\[12,4\] +S\(0\) +96 B\n/);
    // Four gradients, loss and accuracy, and whether to end.
    expect(collectives).toMatch(/\n {2}allReduce 0 +data +7 +104 B +104 B +[\d.]+ us$/);
    expect(memory).toMatch(/\n {2}all +\d/);
    expect(cost).toMatch(/^Cost of a step: [\d.]+ us\n/);
  });

  test.each([
    {
      mesh: "data=16",
      says: [/^unused +axis data=16: .*the 12 rows of x f32\[12,4\], y i32\[12\] are too few for 16 devices/m],
    },
    {
      mesh: "data=2,foo=3",
      says: [
        /^unused +axis foo=3: train splits batches over the axes 'data' and 'hosts', and nothing over 'foo'; the 3 devices/m,
      ],
    },
    { mesh: "data=16,foo=3", says: [/^unused +axis data=16/m, /^unused +axis foo=3/m] },
  ])("an axis of $mesh that is of no use is named with the reason", ({ mesh, says }) => {
    const { stdout } = plan(mesh);
    for (const pattern of says) expect(stdout).toMatch(pattern);
  });

  test("axes that are used, or of one device, are not complained of", () => {
    expect(plan("data=2,model=1").stdout).not.toContain("unused");
    expect(plan("data=5").stdout).not.toContain("unused");
  });
});

test.each([1, 2])("a run on %i devices says the memory of its plan, where an evaluation needs the most", (workers) => {
  const file = script("evaluates.ts");
  const memoryOf = (text: string): string | undefined => /memory +(\S.*)/.exec(text)?.[1];
  const planned = heddle(["plan", file, "--mesh", `data=${workers}`]);
  const ran = heddle(["run", file, "--workers", String(workers)]);
  expect([planned.status, ran.status]).toEqual([0, 0]);
  expect(memoryOf(planned.stdout)).toMatch(/predicted/);
  expect(memoryOf(ran.stdout)).toBe(memoryOf(planned.stdout));
  // The hidden values of an evaluation alone: 256 rows of 64 numbers, on so many devices.
  const { memory } = JSON.parse(heddle(["plan", file, "--mesh", `data=${workers}`, "--json"]).stdout) as PlanReport;
  expect(memory.step).toBeGreaterThanOrEqual((4 * 256 * 64) / workers);
});

test("--json counts memory part by part", () => {
  const { memory, values, collectives, mesh, cost } = JSON.parse(plan("data=2", "--json").stdout) as PlanReport;
  expect(mesh).toEqual({ data: 2 });
  expect(memory).toMatchObject({
    parameters: parameterBytes,
    optimizer: parameterBytes,
    state: 0,
    // The epoch has two batches, and each device half of each.
    batchCount: 2,
    batches: 2 * 6 * rowBytes,
    // Four floats and a label a row, each column as the allocator rounds it.
    dataset: allocatedBytes(24 * 16) + allocatedBytes(24 * 4),
    host: 24 * rowBytes,
  });
  const { parameters, optimizer, batches, scalars, step, dataset, rounding } = memory;
  expect(memory.total).toBe(parameters + optimizer + batches + scalars + (step ?? Number.NaN) + dataset + rounding);
  expect(values.filter(({ layout }) => layout[0] === "S(0)").map(({ name }) => name)).toEqual(["batch.x", "batch.y"]);
  // A ring of two sends each byte once.
  expect(collectives.map(({ payload, sent }) => ({ payload, sent }))).toEqual([
    { payload: parameterBytes + 12, sent: parameterBytes + 12 },
  ]);
  expect(cost.communicationSeconds).toBeCloseTo(collectives[0]?.seconds as number, 12);
});

test("--graph and --program print what reads back", () => {
  expect(parsePlan(plan("data=2", "--graph").stdout).mesh.axes).toEqual([{ name: "data", size: 2 }]);
  expect(parseProgram(plan("data=2", "--program").stdout).name).toBe("trainStep");
});

describe("--compression", () => {
  const planned = (...flags: string[]): number =>
    (
      JSON.parse(heddle(["plan", trains, "--mesh", "data=2", "--json", ...flags, "--", "wide"]).stdout) as PlanReport
    ).collectives.reduce((sum, { sent }) => sum + sent, 0);

  test("compresses the gradients of a file that says nothing about it, and refuses unknown names", () => {
    const [plain, signs] = [planned(), planned("--compression", "sign")];
    // Weights are [512,4] and [2,512]: a bit for each element, and a mean for each weight, instead of 4 bytes.
    expect(plain - signs).toBe(4 * 3072 - (3072 / 8 + 2 * 4));
    const run = heddle(["run", trains, "--mesh", "data=2", "--compression", "sign", "--", "wide"]);
    expect(run.stdout).toContain(`sent ${signs}`);
    const { status, stderr } = plan("data=2", "--compression", "topk");
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/there is no compressor 'topk'[\s\S]*did you mean 'topK'\?/);
  });
});

test.each([
  ["data=2,model=2", /--mesh data=2,model=2 does not go with --servers[\s\S]*--mesh data=4/],
  ["model=2", /--mesh model=2 does not go with --servers/],
])("--servers with --mesh %s is refused", (axes, message) => {
  const { status, stderr } = plan(axes, "--servers", "2");
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(message) });
});

describe("--machine", () => {
  const written = (fields: object): string => {
    const file = join(mkdtempSync(join(tmpdir(), "heddle-machine-")), "machine.json");
    writeFileSync(file, JSON.stringify({ flops: 1e9, memory: 1e9, latency: 1e-3, bandwidth: 1e6, ...fields }));
    return file;
  };

  test("meshes are ranked by what it can do", () => {
    const meshes = ["--mesh", "data=2", "--json", "--mesh", "data=1"];
    const ranked = (fields: object): string[] => {
      const { stdout } = heddle(["plan", trains, ...meshes, "--machine", written(fields)]);
      return (JSON.parse(stdout) as PlanReport[]).map(({ mesh }) => JSON.stringify(mesh));
    };
    // What one device computes in microseconds is no reason to wait a millisecond for another; unless computing is slow.
    expect(ranked({})).toEqual(['{"data":1}', '{"data":2}']);
    expect(ranked({ flops: 1e3 })).toEqual(['{"data":2}', '{"data":1}']);
    const { stdout } = heddle(["plan", trains, ...meshes.filter((one) => one !== "--json"), "--machine", written({})]);
    expect(stdout).toMatch(
      /^Meshes by the predicted time of a step\n {2}mesh +step .*\n {2}data=1 .*\n {2}data=2 .*\n {2}assumed/,
    );
  });

  test("a file that describes none is refused", () => {
    const refused = (args: string[]): string => {
      const { status, stderr } = heddle(["plan", trains, "--mesh", "data=2", ...args]);
      expect(status).toBe(2);
      return stderr;
    };
    expect(refused(["--machine", written({ flop: 1 })])).toMatch(/machine\.json: unknown option 'flop'/);
    expect(refused(["--machine", "nowhere.json"])).toMatch(/--machine: nowhere\.json cannot be read: ENOENT/);
    expect(refused(["--mesh", "data=1", "--graph"])).toMatch(/several meshes are ranked: give one --mesh/);
  });
});

describe("a file with nothing to plan", () => {
  test("is told so, with what to do", () => {
    const { status, stdout, stderr } = heddle(["plan", workerScript, "--mesh", "data=2", "--", "env:HEDDLE_PLAN"]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(/^HEDDLE_PLAN=data=2\nheddle: .*worker\.mjs ended without calling train\(\)/);
    expect(stderr).toMatch(/hint: .*give the file that calls train\(\), or use planFunction/);
  });

  test("its own failure comes first", () => {
    const { status, stderr } = heddle(["plan", workerScript, "--mesh", "data=2", "--", "exit:5"]);
    expect({ status, stderr }).toEqual({ status: 5, stderr: "heddle: the script ended with exit status 5\n" });
  });
});

describe("a plan as a file", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-plan-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const kept = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const axes = "data=2,model=2";
  const layouts = kept("layouts", plan(axes, "--layouts").stdout);
  const text = readFileSync(layouts, "utf8");
  const moved = kept("moved", text.replace("params.2.weight: f32[2,3] R R", "params.2.weight: f32[2,3] R S(1)"));
  const run = (path: string, ...flags: string[]) => {
    const { status, stdout, stderr } = heddle(["run", trains, "--plan", path, ...flags, "--", "lines"]);
    return { status, said: `${stdout}${stderr}`, loss: /loss [\d.]+/.exec(stdout)?.[0] };
  };

  test("says where values live, but for what follows from that", () => {
    expect(text).toMatch(/^plan @trainStep of [0-9a-f]+ on data=2,model=2\ninput params\.0\.weight: f32\[3,4\] R R\n/);
    expect(text).toMatch(/\ninput batch\.x: f32\[12,4\] S\(0\) R\n/);
    expect(text).not.toMatch(/optimizer\.|output params/);
    expect(printLayouts(parseLayouts(text))).toBe(text);
  });

  test("has the mesh; another option for it is refused", () => {
    const { status, said } = run(layouts, "--mesh", "data=4");
    expect({ status, said }).toEqual({
      status: expect.any(Number),
      said: expect.stringContaining("the plan of --plan has a mesh"),
    });
    expect(status).not.toBe(0);
  });

  test("cut short, is refused; without a fingerprint it may name some values alone", () => {
    const lines = text.split("\n").slice(0, 3).join("\n");
    const cut = run(kept("cut", `${lines}\n`));
    expect(cut.said).toMatch(/plan 'trainStep' \(\S+cut\) does not name params\.\S+.*: it was cut short/);
    expect(cut.status).not.toBe(0);
    expect(run(kept("some", `${lines.replace(/ of [0-9a-f]+/, "")}\n`))).toMatchObject({ status: 0 });
  });

  test("that nothing ran on a mesh is told", () => {
    const { status, stderr } = heddle(["run", workerScript, "--mesh", "data=1"]);
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringMatching(/^heddle: the mesh data=1 was not used: train\(\), /),
    });
    expect(heddle(["run", trains, "--mesh", "data=2"]).stderr).toBe("");
  });

  test("that no training went by is told", () => {
    const { status, stderr } = heddle(["run", workerScript, "--plan", layouts]);
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringMatching(/^heddle: the plan \S+layouts was not used: /),
    });
  });

  test("edited, is trained by, in one process and in several", () => {
    const whole = run(layouts);
    expect(whole).toMatchObject({ status: 0, loss: expect.stringMatching(/loss 0\.\d+/) });
    expect(whole.said).toContain("all else on every device");
    for (const flags of [[], ["--workers", "4"]]) {
      const { status, said, loss } = run(moved, ...flags);
      expect({ status, loss }).toEqual({ status: 0, loss: whole.loss });
      expect(said).toContain("2.weight f32[2,3]");
    }
  });

  test.each([
    [
      "of another model",
      text.replace("f32[3,4]", "f32[3,5]"),
      / \(\S+wrong\) is of .* 'params\.0\.weight' \(line 2\) is f32\[3,5\] in the plan and f32\[3,4\] here/,
    ],
    ...[text, text.replace(/ of \w+ on/, " on")].map((whole, index): [string, string, RegExp] => [
      `with a misspelt name, ${["with", "without"][index]} a fingerprint,`,
      whole.replace("params.0.weight", "params.0.wieght"),
      /\(\S+wrong:2\) names 'params\.0\.wieght', which .*; did you mean 'params\.0\.weight'\?\n/,
    ]),
    [
      "with a former name",
      text.replace("batch.x:", "end.wish:"),
      /\(\S+wrong:\d+\) names 'end\.wish', which is called 'end\.request' now\n/,
    ],
    ["of another step", text.replace(/of \w+ on/, "of 123 on"), /graph 123 there, \w+ here\): the values are the same/],
    [
      "with its batch elsewhere",
      text.replace("batch.x: f32[12,4] S(0) R", "batch.x: f32[12,4] R R"),
      /\(\S+wrong:\d+\) has 'batch\.x' as R R; train has it as S\(0\) R/,
    ],
    ["of another language", "hello\n", /wrong: line 1: expected 'plan @name on mesh'/],
  ])("one %s is refused", (_what, wrong, message) => {
    const { status, said } = run(kept("wrong", wrong));
    expect(status).toBe(1);
    expect(said).toMatch(message);
  });

  test("differs from another by", () => {
    const { status, stdout } = heddle(["plan", "--diff", layouts, moved]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/\n {2}params\.2\.weight +f32\[2,3\] +R R +R S\(1\)\n {2}10 others are alike\n/);
    // What the layouts leave out is placed as what it follows.
    const whole = kept("whole", plan(axes, "--graph").stdout);
    const same = heddle(["plan", "--diff", layouts, whole]).stdout;
    expect(same).toMatch(
      /\nLayouts: all \d+ values are alike\n\nCollectives and cost: a has no graph to compare with\n$/,
    );
    expect(heddle(["plan", "--diff", whole, moved]).stdout).toMatch(
      /\n {2}params\.2\.weight .*\n {2}optimizer\.momentumBuffer\.2\.weight +f32\[2,3\] +R R +R S\(1\)\n {2}\d+ others/,
    );
    const { stderr, status: failed } = heddle(["plan", "--diff", layouts, trains]);
    expect({ failed, stderr }).toMatchObject({
      failed: 2,
      stderr: expect.stringContaining("trains.ts: line 1: expected 'plan"),
    });
  });

  test("--passes has a line for each, --after a graph", () => {
    const { stdout } = plan("data=2", "--passes");
    expect(stdout.split("\n").flatMap((line) => line.split(" ").filter((word) => word !== "")[0] ?? [])).toEqual([
      "pass",
      ...[...passesBeforePlanning, ...passesAfterPlanning].map(({ name }) => name),
    ]);
    expect(stdout).toMatch(/simplify +before planning +[\d.]+ ms +\d+ +\d+ +transpose of dot 2/);
    expect(parseGraph(plan("data=2", "--after", "simplify").stdout).name).toBe("trainStep");
    expect(plan("data=2", "--after", "nothing").stderr).toContain("passes are open, prune");
  });
});
