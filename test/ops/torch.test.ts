/** Every op, forwards and backwards, against PyTorch and NumPy (test/fixtures/ops_*.py), eagerly and compiled. */
import * as heddle from "heddle";
import {
  cond,
  cummax,
  cummin,
  cumprod,
  cumsum,
  customGradient,
  customJvp,
  flip,
  full,
  jit,
  linalg,
  logcumsumexp,
  matmul,
  nn,
  remat,
  round,
  scan,
  sin,
  sparse,
  Tensor,
  vjp,
  whileLoop,
} from "heddle";
import { describe, expect, test } from "vitest";
import * as finding from "../../src/functions/finding.ts";
import * as functions from "../../src/functions/functions.ts";
import * as order from "../../src/functions/methods/order.ts";
import * as resize from "../../src/functions/resize.ts";
import * as sampling from "../../src/functions/sampling.ts";
import * as spectrum from "../../src/functions/spectrum.ts";
import * as unfold from "../../src/functions/unfold.ts";
import { isAbsent } from "../../src/ir/node.ts";
import { allOps } from "../../src/ir/op.ts";
import { nodesWithin } from "../../src/ir/walk.ts";
import { traceFunction } from "../../src/tensor/tracing.ts";
import {
  type Composed,
  callOf,
  type Described,
  differences,
  type OpCase,
  opCases,
  tensorOf,
  weightsOf,
} from "../support/op-cases.ts";
import { partOf } from "../support/sample.ts";

type Running = (x: Tensor, dim: number) => Tensor;
const back =
  (running: Running) =>
  (x: Tensor): Tensor =>
    flip(running(flip(x, 1), 1), 1);

const composed = {
  full: () => full([2, 3], -1.5),
  embeddingBag: (weight: Tensor, ids: Tensor, mode: "sum" | "mean" | "max") =>
    nn.embeddingBag(4, 3, { mode, dtype: "f64" }).apply({ params: { weight }, state: {} }, ids).y,
  sparseProduct: (values: Tensor, rows: Tensor, columns: Tensor, y: Tensor) =>
    matmul(sparse(values, rows, columns, [3, 4]), y),
  largestRow: (x: Tensor) => linalg.matrixNorm(x, Infinity),
  scan: (carry: Tensor, xs: Tensor, weight: Tensor, reverse: boolean) =>
    scan(
      (held: Tensor, x: Tensor) => {
        const next = matmul(held, weight).add(x).tanh();
        return [next, next.mul(2)] as const;
      },
      carry,
      xs,
      { reverse },
    ),
  while: (x: Tensor, by: Tensor) =>
    whileLoop(
      (y: Tensor) => y.lt(100),
      (y: Tensor) => y.mul(by),
      x,
      { maxIterations: 8 },
    ),
  cond: (x: Tensor, y: Tensor) =>
    cond(
      x.sum().gt(0),
      (a: Tensor, b: Tensor) => sin(a).mul(b),
      (a: Tensor, b: Tensor) => a.exp().add(b.mul(b)),
      x,
      y,
    ),
  remat: remat((x: Tensor) => sin(x.exp()).mul(x)),
  clipped: customGradient(
    (x: Tensor) => x.mul(1),
    ({ cotangent }) => [cotangent.maximum(-0.5).minimum(0.5)],
  ),
  straight: customJvp(
    (x: Tensor) => round(x),
    ({ tangents: [dx] }) => dx.mul(3),
  ),
  single: (x: Tensor) => x.cast("f32").cast("f64").mul(x),
  cumsumBack: back(cumsum),
  cumprodBack: back(cumprod),
  cummaxBack: back(cummax),
  cumminBack: back(cummin),
  logcumsumexpBack: back(logcumsumexp),
} as unknown as Composed;

const files = ["ops-scalar", "ops-reduce", "ops-move", "ops-product", "ops-compose"] as const;

async function compared(one: OpCase, mode: string, found: readonly Tensor[]): Promise<string[]> {
  const [results, slopes] = [found.slice(0, one.outputs.length), found.slice(one.outputs.length)];
  const types = results.map(({ dtype, shape }) => ({ dtype, shape }));
  expect(types).toEqual(one.outputs.map(({ dtype, shape }) => ({ dtype, shape })));
  const wrong: string[] = [];
  for (const [at, expected] of one.outputs.entries()) {
    const data = await (results[at] as Tensor).data();
    wrong.push(...differences(`${mode}, result ${at}`, data, expected, { exact: one.exact, zeros: true }));
  }
  for (const [at, slope] of slopes.entries()) {
    const data = one.gradients?.[at] as number[];
    const expected = { dtype: "f64", shape: slope.shape, data } as const;
    wrong.push(...differences(`${mode}, gradient ${at}`, await slope.data(), expected, { exact: false, zeros: false }));
  }
  return wrong;
}

/** The results of a case, and the gradients of their weighed sum by the f64 inputs. */
function bothWays(one: OpCase): (...inputs: Tensor[]) => Tensor[] {
  const call = callOf(one, composed);
  if (one.gradients === undefined) return call;
  const by = one.inputs.flatMap(({ dtype }, place) => (dtype === "f64" ? [place] : []));
  return (...given) => {
    const fixed = (...floats: Tensor[]): Tensor[] =>
      call(...given.map((input, place) => (by.includes(place) ? (floats[by.indexOf(place)] as Tensor) : input)));
    const { value, pullback } = vjp(fixed, ...by.map((place) => given[place] as Tensor));
    // Cotangents of results that are not f64 count for nothing.
    const weights = value.map((y, k) => (y.dtype === "f64" ? weightsOf(one.outputs[k] as Described, k) : y));
    return [...value, ...pullback(weights)];
  };
}

/** Cases side by side in one program, as to compile each alone takes longer than all else here. */
const together = 48;
const programs = new Map<string, Tensor[][]>();

function compiled(file: string, cases: readonly OpCase[], at: number): Tensor[] {
  const first = at - (at % together);
  const key = `${file} ${first}`;
  let results = programs.get(key);
  if (results === undefined) {
    const some = cases.slice(first, first + together);
    const inputs = some.map((one) => one.inputs.map(tensorOf));
    results = jit((all: Tensor[][]) => some.map((one, place) => bothWays(one)(...(all[place] as Tensor[]))))(inputs);
    programs.set(key, results);
  }
  return results[at - first] as Tensor[];
}

/** Ops that neither PyTorch nor NumPy has, and why. */
const withoutPeer: { readonly [op: string]: string } = {
  parameter: "stands for an input of a graph",
  element: "picks a result of another op",
  randomBits:
    "is of the Philox of 32-bit words; NumPy's is of 64-bit words, PyTorch's gives no bits: known answers are in test/ops",
  refuseGradient: "is x itself, without a gradient",
  entriesDot: "is what products of sparse become, which torch.sparse.mm is compared with",
  sampledDot: "is what elements of a product become, which are compared as sampled",
  axisIndex: "is the coordinate of a device",
  allReduce: "needs several devices",
  allGather: "needs several devices",
  reduceScatter: "needs several devices",
  allToAll: "needs several devices",
  exchange: "needs several devices",
  contributions: "is a sum that several devices have not added up",
  wholeOnAll: "is x itself, whole on every device",
  placed: "is x itself, split as asked",
  send: "needs two devices",
  receive: "needs two devices",
  withinBound: "tells of a loop that runs past its bound",
  scatterOthers: "is the gradient of scatter by prod, which has cases",
  gatherPart: "is of a part of a table that a device holds",
  scatterAddPart: "is of a part of a table that a device holds",
};

/** Functions of tensors that no case calls, and why. */
const uncalled: { readonly [name: string]: string } = {
  tensor: "makes the inputs of every case",
  allClose: "gives a promise of a boolean; test/tensor/pick.test.ts",
  linspace: "is NumPy's, whose numbers are in test/tensor/create.test.ts",
};

const all = files.flatMap((file) => opCases(file));

/** The ops of a case, forwards and backwards. */
function opsOf(one: OpCase): Set<string> {
  const specs = one.inputs.map((type, place) => ({
    name: `x${place}`,
    type: { dtype: type.dtype, shape: type.shape },
  }));
  const { graph } = traceFunction("case", specs, (nodes) =>
    bothWays(one)(...nodes.map(Tensor.ofNode)).map(({ node }) => node),
  );
  return new Set(nodesWithin(graph).map(({ op }) => op.name));
}

describe("every op", () => {
  const due = allOps().flatMap(({ name }) => (name in withoutPeer ? [] : [name]));

  test.each(due)("%s has a case, which uses it", (name) => {
    const claiming = all.filter(({ op }) => op.includes(name));
    expect(claiming.some((one) => opsOf(one).has(name))).toBe(true);
  });

  test("that takes floats and has a gradient has a case with one", () => {
    const checked = new Set(all.filter(({ gradients }) => gradients !== undefined).flatMap(({ op }) => op));
    const takesFloats = (name: string): boolean =>
      all.some(
        ({ op, inputs, outputs }) =>
          op.includes(name) && [inputs, outputs].every((some) => some.some(({ dtype }) => dtype === "f64")),
      );
    const rules = allOps().filter(
      ({ name, gradient, body }) => takesFloats(name) && !(isAbsent(gradient) && isAbsent(body)),
    );
    expect(rules.map(({ name }) => name).filter((name) => !checked.has(name))).toEqual([]);
  });

  test("that is excused exists, and has no case", () => {
    const names = new Set(allOps().map(({ name }) => name));
    expect(
      Object.keys(withoutPeer).filter((name) => !names.has(name) || all.some(({ op }) => op.includes(name))),
    ).toEqual([]);
    expect(all.flatMap(({ op }) => op).filter((name) => !names.has(name))).toEqual([]);
  });

  test("and every function of tensors is called", () => {
    const called = new Set(all.map((one) => one.call));
    const modules = [finding, functions, order, resize, sampling, spectrum, unfold];
    const named = modules.flatMap((module) => Object.keys(module)).filter((name) => name in heddle);
    const matrices = Object.keys(linalg).map((name) => `linalg.${name}`);
    expect([...named, ...matrices].filter((name) => !called.has(name) && !(name in uncalled))).toEqual([]);
  });
});

describe.each(files)("%s", (file) => {
  const cases = partOf(opCases(file), 2);
  test.each(cases.map((one, at) => [one.title, one, at] as const))("%s", async (_title, one, at) => {
    const eager = callOf(one, composed)(...one.inputs.map(tensorOf));
    expect([
      ...(await compared(one, "eager", eager)),
      ...(await compared(one, "compiled", compiled(file, cases, at))),
    ]).toEqual([]);
  });
});
