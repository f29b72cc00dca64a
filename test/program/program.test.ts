import { type HostTensor, type Node, type TensorType, traceGraph } from "heddle/ir";
import { checkLowered, lowerProgram } from "heddle/lower";
import * as ops from "heddle/ops";
import { costOf, type Program, parseProgram, printProgram, type Step, splitGraph, verifyProgram } from "heddle/program";
import { describe, expect, test } from "vitest";
import { lenetStep, mlpStep, valuesFor } from "../lower/graphs.ts";
import { simulateMesh } from "../lower/simulate.ts";
import { chain, dataParallelStep, wholeStep } from "./graphs.ts";

const data = (size: number) => [{ name: "data", size }];
const grid = [
  { name: "data", size: 2 },
  { name: "model", size: 2 },
];
const kinds = (program: Program): string[] =>
  program.steps
    .filter((step) => step.kind !== "free")
    .map((step) => (step.kind === "collective" ? step.op : step.kind));

describe("splitGraph", () => {
  test("issues each gradient's collective before the rest of the backward pass", () => {
    const program = splitGraph(dataParallelStep(3, 4, 8, 2), data(2));
    verifyProgram(program);
    const labels = program.steps.flatMap((step) => (step.kind === "collective" ? [step.label] : []));
    expect(labels).toEqual(["loss", "gradients 0", "gradients 1", "gradients 2"]);
    expect(kinds(program)).toEqual([
      "run",
      "allReduce",
      "run",
      "allReduce",
      "run",
      "allReduce",
      "run",
      "allReduce",
      "run",
    ]);
  });

  test("makes no region between collectives without compute between them", () => {
    const program = splitGraph(chain(2), grid);
    verifyProgram(program);
    expect(kinds(program)).toEqual(["allReduce", "allGather", "reduceScatter", "allToAll", "run"]);
  });

  test("makes views and constants again in each region instead of passing them on", () => {
    const graph = traceGraph("views", [{ name: "x", type: { dtype: "f32", shape: [2, 3] } }], (x) => {
      const y = ops.exp(x as Node);
      const turned = ops.transpose(y);
      const first = ops.call("allReduce", [ops.add(turned, 1)], {
        axis: "data",
        parts: 2,
        reduction: "sum",
        label: "",
      });
      return [ops.add(ops.mul(first, turned), 1)];
    });
    const program = splitGraph(graph, data(2));
    const runs = program.steps.filter((step) => step.kind === "run");
    expect(runs.map((run) => run.results.map((value) => program.values[value]?.shape))).toEqual([
      [
        [2, 3],
        [3, 2],
      ],
      [[3, 2]],
    ]);
  });

  test("takes programs without compute, and outputs that are inputs", () => {
    const graph = traceGraph("same", [{ name: "x", type: { dtype: "f32", shape: [2] } }], (x) => [
      x as Node,
      x as Node,
    ]);
    const program = splitGraph(graph, []);
    verifyProgram(program);
    expect(program.steps).toEqual([]);
  });

  test("refuses a collective on an axis that does not exist", () => {
    expect(() => splitGraph(chain(2), data(2))).toThrow("allToAll: the axis 'model' is not among data");
  });
});

describe("text", () => {
  const programs: { readonly [name: string]: () => Program } = {
    "data parallel": () => splitGraph(dataParallelStep(2, 4, 8, 2), data(2), { donated: [0, 1, undefined] }),
    chain: () => splitGraph(chain(2), grid, { outputNames: ["a sum", "b"] }),
    lenet: () => splitGraph(lenetStep().graph, [], lenetStep()),
    "no steps": () =>
      splitGraph(
        traceGraph("same", [{ name: "x y", type: { dtype: "f32", shape: [] } }], (x) => [x as Node]),
        [],
      ),
  };
  for (const [name, make] of Object.entries(programs)) {
    test(`${name} reads back as itself`, () => {
      const program = make();
      const text = printProgram(program);
      const again = parseProgram(text);
      verifyProgram(again);
      expect(printProgram(again)).toBe(text);
      expect(lowerProgram(again, { slots: 2 }).text).toBe(lowerProgram(program, { slots: 2 }).text);
    });
  }

  test("looks like this", () => {
    expect(
      printProgram(
        splitGraph(dataParallelStep(1, 2, 4, 2), data(2), { donated: [0, undefined], outputNames: ["w0", "loss"] }),
      ),
    ).toMatchInlineSnapshot(`
      "program @dataParallel {
        axis data 2
        input %0 f64[2,2] w0
        input %1 f64[2,2] x
        %2 f64[2,2], %3 f64[2,2], %4 f64[] = run(%0, %1)
          graph @region0(%0 w0: f64[2,2], %1 x: f64[2,2]) {
            %2 = dot %1, %0 {xBatch: [], xContract: [1], yBatch: [], yContract: [0]} : f64[2,2]
            %3 = tanh %2 : f64[2,2]
            %4 = mul %3, %3 : f64[2,2]
            %5 = reduce %4 {dims: [0,1], op: "sum"} : f64[]
            %6 = constant {dtype: "f64", value: 4} : f64[]
            %7 = div %5, %6 : f64[]
            return %3, %4, %7
          }
        %5 f64[] = allReduce(%4) {"axis":"data","label":"loss","parts":2,"reduction":"sum"}
        free %4
        %6 f64[2,2] = run(%1, %2, %3)
          graph @region2(%0 x: f64[2,2], %1 v2: f64[2,2], %2 v3: f64[2,2]) {
            %3 = constant {dtype: "f64", value: 1} : f64[]
            %4 = constant {dtype: "f64", value: 4} : f64[]
            %5 = div %3, %4 : f64[]
            %6 = broadcast %5 {dims: [], shape: [2,2]} : f64[2,2]
            %7 = mul %6, %1 : f64[2,2]
            %8 = add %7, %7 : f64[2,2]
            %9 = broadcast %3 {dims: [], shape: [2,2]} : f64[2,2]
            %10 = sub %9, %2 : f64[2,2]
            %11 = mul %8, %10 : f64[2,2]
            %12 = dot %0, %11 {xBatch: [], xContract: [0], yBatch: [], yContract: [0]} : f64[2,2]
            return %12
          }
        free %2, %3
        %7 f64[2,2] = allReduce(%6) {"axis":"data","label":"gradients 0","parts":2,"reduction":"sum"}
        free %6
        %8 f64[2,2] = run(%0, %7)
          graph @region4(%0 w0: f64[2,2], %1 v7: f64[2,2]) {
            %2 = constant {dtype: "f64", value: 0.1} : f64[]
            %3 = broadcast %2 {dims: [], shape: [2,2]} : f64[2,2]
            %4 = mul %1, %3 : f64[2,2]
            %5 = sub %0, %4 : f64[2,2]
            return %5
          }
        free %7
        output %8 w0 <- %0
        output %5 loss
      }
      "
    `);
  });

  test.each([
    ["program @x {", "line 2: program ends without '}'"],
    ["nothing", "line 1: expected 'program @name {'"],
    ['program @" {\n}', "line 1: expected 'program @name {'"],
    ['program @"x {\n}', "line 1: expected 'program @name {'"],
    ['program @"\\q" {\n}', "line 1: expected 'program @name {'"],
    ['program @"\\u12" {\n}', "line 1: expected 'program @name {'"],
    ['program @"\t" {\n}', "line 1: expected 'program @name {'"],
    ["program @x {\n  input %1 f32[2] x\n}", "line 2: expected %0, got %1"],
    ["program @x {\n  input %0 f33[2] x\n}", "line 2: 'f33[2]' is not a type"],
    ["program @x {\n  output %0 x\n}", "line 2: %0 is not defined"],
    ["program @x {\n  what\n}", "line 2: malformed line 'what'"],
    [
      "program @x {\n  input %0 f32[2] x\n  %1 f32[2] = allReduce(%0) {oops}\n}",
      "line 3: malformed attributes '{oops}'",
    ],
  ])("%j is refused", (text, message) => {
    expect(() => parseProgram(text)).toThrow(message);
  });
});

describe("verifyProgram refuses", () => {
  const good = splitGraph(dataParallelStep(1, 2, 8, 2), data(2), { donated: [0, undefined] });
  const withSteps = (change: (steps: Step[]) => Step[]): Program => ({ ...good, steps: change([...good.steps]) });
  const cases: readonly (readonly [string, Program, RegExp])[] = [
    ["a use before the definition", withSteps((steps) => steps.reverse()), /used before it is defined/],
    [
      "a use after the free",
      withSteps(([first, ...rest]) => [first as Step, { kind: "free", values: [2] }, ...rest]),
      /%2 is used after it is freed/,
    ],
    ["a free of an input", withSteps((steps) => [...steps, { kind: "free", values: [0] }]), /%0 is an input/],
    ["a second definition", withSteps((steps) => [...steps.slice(0, 1), ...steps]), /is defined twice/],
    ["another number of parts", { ...good, axes: data(3) }, /has 2 parts on an axis of 3/],
    [
      "a donation that does not fit",
      { ...good, donated: [1, undefined] },
      /'output 0' f64\[2,2\] cannot take over 'x' f64\[4,2\]/,
    ],
    [
      "two outputs in one buffer",
      { ...good, outputs: [good.outputs[0], good.outputs[0]] as Program["outputs"], donated: [0, 0] },
      /two outputs take over input 0/,
    ],
    ["a missing donation", { ...good, donated: [] }, /2 outputs but 0 donations/],
  ];
  test.each(cases)("%s", (_name, program, message) => {
    expect(() => verifyProgram(program)).toThrow(message);
  });
});

describe("costOf", () => {
  test("counts what travels by the ring formulas", () => {
    const count = costOf(splitGraph(chain(2), grid));
    const [n, y] = [4 * 6 * 8, 3 * 8];
    expect(count.collectives.map(({ name, axis, sent }) => ({ name, axis, sent }))).toEqual([
      { name: "allReduce", axis: "data", sent: 2 * (n + y) * (1 / 2) },
      { name: "allGather", axis: "data", sent: 2 * n * (1 / 2) },
      { name: "reduceScatter", axis: "data", sent: 2 * n * (1 / 2) },
      { name: "allToAll", axis: "model", sent: n / 2 },
    ]);
  });

  test("counts arithmetic and memory traffic", () => {
    const count = costOf(splitGraph(mlpStep().graph, [], mlpStep()));
    const products = 3 * 2 * 128 * 784 * 512 - 2 * 128 * 784 * 512 + 3 * 2 * 128 * 512 * 10;
    expect(count.flops).toBeGreaterThan(products);
    expect(count.flops).toBeLessThan(1.1 * products);
    expect(count.bytes).toBeGreaterThan(4 * 784 * 512 * 4);
    expect(count.collectives).toEqual([]);
  });

  test("takes milliseconds for 64 devices", () => {
    const program = splitGraph(dataParallelStep(20, 64, 128, 64), data(64));
    const start = performance.now();
    const count = costOf(program);
    console.log(`count of ${program.steps.length} steps for 64 devices: ${(performance.now() - start).toFixed(2)} ms`);
    expect(count.sent).toBeCloseTo((2 * (20 * 64 * 64 + 1) * 8 * 63) / 64, 6);
  });
});

describe("lowered on several devices", () => {
  const split = (tensor: HostTensor, rank: number, parts: number): HostTensor => {
    const length = tensor.data.length / parts;
    return {
      ...tensor,
      shape: [(tensor.shape[0] as number) / parts, ...tensor.shape.slice(1)],
      data: tensor.data.slice(rank * length, (rank + 1) * length),
    };
  };

  test("a data-parallel step equals the whole one", () => {
    const parts = 4;
    const whole = wholeStep(3, 6, 8);
    const inputs = whole.inputs.map((input, index) => valuesFor(input.types[0] as TensorType, index + 1));
    const expected = simulateMesh(
      lowerProgram(splitGraph(whole, data(1)), { slots: 1 }),
      [1],
      [inputs],
    )[0] as HostTensor[];
    const program = splitGraph(dataParallelStep(3, 6, 8, parts), data(parts), { donated: [0, 1, 2, undefined] });
    const lowered = lowerProgram(program, { slots: 1 });
    checkLowered(lowered, [parts]);
    const batch = inputs.at(-1) as HostTensor;
    const ranks = Array.from({ length: parts }, (_unused, rank) => [...inputs.slice(0, -1), split(batch, rank, parts)]);
    for (const outputs of simulateMesh(lowered, [parts], ranks)) {
      outputs.forEach((output, index) => {
        output.data.forEach((value, place) => {
          expect(value).toBeCloseTo(expected[index]?.data[place] as number, 12);
        });
      });
    }
  });

  test("collectives with dims that are not the first", () => {
    const lowered = lowerProgram(splitGraph(chain(2), grid), { slots: 1 });
    checkLowered(lowered, [2, 2]);
    const types = chain(2).inputs.map((input) => input.types[0] as TensorType);
    const inputs = [0, 1, 2, 3].map((rank) => types.map((type, index) => valuesFor(type, 10 * rank + index)));
    const outputs = simulateMesh(lowered, [2, 2], inputs);
    // Along data both ranks hold the same sum, gathered twice, scattered in halves and summed again.
    const sum = (model: number): number[] =>
      [...(inputs[model]?.[0]?.data ?? [])].map(
        (value, place) => value + (inputs[2 + model]?.[0]?.data[place] as number),
      );
    const expected = (rank: number): number[] => {
      const [row, model] = [Math.floor(rank / 2), rank % 2];
      const half = (other: number): number[][] =>
        [0, 1].map((r) => {
          const line = sum(other)
            .slice((2 * row + r) * 6, (2 * row + r + 1) * 6)
            .map((value) => 2 * value);
          return [...line, ...line].slice(6 * model, 6 * model + 6);
        });
      return [...half(0), ...half(1)].flat().map((value) => value + 1);
    };
    outputs.forEach((output, rank) => {
      expect(output[0]?.shape).toEqual([4, 6]);
      [...(output[0]?.data ?? [])].forEach((value, place) => {
        expect(value).toBeCloseTo(expected(rank)[place] as number, 12);
      });
    });
  });
});
