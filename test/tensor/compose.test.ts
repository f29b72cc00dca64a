/**
 * Transforms in any order: each chain of two and many of three, on functions of all kinds. The outermost transform of a chain
 * is compared with its definition, applied to what the rest of the chain gives: so all follow by induction. `npm run test:processes` runs a part
 * of the chains, `npm run test:grids` all.
 */
import {
  concat,
  cond,
  conv2d,
  customGradient,
  customJvp,
  floor,
  grad,
  jit,
  jvp,
  maxPool2d,
  remat,
  round,
  scan,
  select,
  sin,
  type Tensor,
  tensor,
  valueAndGrad,
  vjp,
  vmap,
  whileLoop,
  zerosLike,
} from "heddle";
import { describe, expect, it } from "vitest";
import { runPasses } from "../../src/compile/index.ts";
import type { HostTensor } from "../../src/ir/node.ts";
import { type Shape, sizeOf } from "../../src/ir/shape.ts";
import { evaluateGraph } from "../../src/ops/index.ts";
import { Tensor as TensorClass } from "../../src/tensor/tensor.ts";
import { traceFunction } from "../../src/tensor/tracing.ts";
import { partOf } from "../support/sample.ts";
import { randoms } from "../support/trees.ts";

type Fn = (x: Tensor) => Tensor;

/** Numbers that look random and are the same for one shape. */
const pattern = (shape: Shape, seed: number): Tensor =>
  tensor(
    Float64Array.from({ length: sizeOf(shape) }, (_unused, at) => 1 + 0.7 * Math.sin(seed + 2.3 * at)),
    { shape },
  );
const weigh = (y: Tensor): Tensor => y.mul(pattern(y.shape, 1)).sum();
const direction = (x: Tensor): Tensor => pattern(x.shape, 2);

interface Transform {
  readonly apply: (fn: Fn) => Fn;
  /** What `apply(fn)` should give, from values of `fn` alone; `by` differentiates `fn` along a direction. */
  readonly means: "same" | "gradient" | "value and gradient" | "tangent" | "batch";
}

const truly = (fn: Fn): Fn =>
  customGradient(fn, ({ inputs: [x], cotangent }) => [vjp(fn, x as Tensor).pullback(cotangent)[0]]);

const transforms: { readonly [name: string]: Transform } = {
  jit: { apply: (fn) => jit(fn), means: "same" },
  remat: { apply: (fn) => remat(fn), means: "same" },
  "remat of products": { apply: (fn) => remat(fn, { policy: "products" }), means: "same" },
  customGradient: { apply: truly, means: "same" },
  customJvp: {
    apply: (fn) => customJvp(fn, ({ inputs: [x], tangents: [dx] }) => jvp(fn, [x as Tensor], [dx as Tensor]).tangent),
    means: "same",
  },
  grad: { apply: (fn) => grad((x: Tensor) => weigh(fn(x))), means: "gradient" },
  vjp: {
    apply: (fn) => (x) => {
      const { value, pullback } = vjp(fn, x);
      return pullback(pattern(value.shape, 1))[0];
    },
    means: "gradient",
  },
  valueAndGrad: {
    apply: (fn) => (x) => {
      const made = valueAndGrad((one: Tensor) => weigh(fn(one)))(x);
      return made.grad.add(made.value);
    },
    means: "value and gradient",
  },
  jvp: { apply: (fn) => (x) => jvp(fn, [x], [direction(x)]).tangent, means: "tangent" },
  vmap: {
    apply: (fn) => (x) => {
      const batch = concat([x, x.mul(0.75)].map((one) => one.reshape([1, ...x.shape])));
      return vmap(fn)(batch).sum(0);
    },
    means: "batch",
  },
};

const kernel = randoms([2, 1, 3, 3], 1);
const matrix = randoms([4, 3], 2);
const image = [1, 1, 4, 4];

interface Case {
  readonly fn: Fn;
  readonly shape: Shape;
  /** Loops of unknown length have no way back. */
  readonly forwardOnly?: true;
  /** In the middle of chains of three; default: all that is tried there. */
  readonly middles?: readonly string[];
}

const cases: { readonly [name: string]: Case } = {
  "a layer": { fn: (x) => x.matmul(matrix).tanh().mul(2), shape: [4] },
  convolution: { fn: (x) => conv2d(x, kernel, { padding: "same" }).sigmoid(), shape: image },
  "max pooling": { fn: (x) => maxPool2d(x.mul(x), 2), shape: image },
  softmax: { fn: (x) => x.mul(2).softmax().mul(x), shape: [2, 3] },
  scan: {
    fn: (x) => {
      const [last, all] = scan((h: Tensor, part: Tensor) => [sin(h.mul(part).add(part)), h.mul(h)], x.sum(), x);
      return all.add(last);
    },
    shape: [4],
  },
  cond: {
    fn: (x) =>
      cond(
        x.sum().gt(0.2),
        (y: Tensor) => y.mul(y).mul(y),
        (y: Tensor) => y.exp(),
        x,
      ),
    shape: [3],
  },
  while: {
    fn: (x) =>
      whileLoop(
        (y: Tensor) => y.abs().max().lt(4),
        (y) => y.mul(1.5).add(sin(y)),
        x,
      ),
    shape: [3],
    forwardOnly: true,
  },
  "while with a bound": {
    fn: (x) =>
      whileLoop(
        (y: Tensor) => y.abs().max().lt(4),
        (y, index) =>
          y
            .mul(1.5)
            .add(sin(y.mul(x)))
            .add(index.cast("f64")),
        x,
        { maxIterations: 7 },
      ),
    shape: [3],
    middles: ["grad"],
  },
  "steps and comparisons": {
    fn: (x) => {
      const at = x.argMax().cast("f64");
      return select(x.gt(0), x.mul(x), floor(x.mul(3)))
        .add(round(x))
        .add(x.cast("i32").cast("f64"))
        .mul(at.add(x));
    },
    shape: [5],
  },
};

const backward = new Set(["grad", "vjp", "valueAndGrad", "customGradient"]);

/** Values without a compile: the trace by the reference; after the passes where asked. */
function run(fn: Fn, x: HostTensor, passes = false): HostTensor {
  const traced = traceFunction<Tensor>("chain", [{ name: "x", type: { dtype: x.dtype, shape: x.shape } }], ([node]) => [
    fn(TensorClass.ofNode(node as never)).node,
  ]);
  const captured = (traced.captured as Tensor[]).map((one): HostTensor => {
    return { dtype: one.dtype, shape: one.shape, data: one.dataSync() };
  });
  const graph = passes ? runPasses(traced.graph) : traced.graph;
  return evaluateGraph(graph, [x, ...captured])[0] as HostTensor;
}

const host = (shape: Shape, data: Iterable<number>): HostTensor => ({
  dtype: "f64",
  shape,
  data: Float64Array.from(data),
});
const numbers = ({ data }: HostTensor): number[] => Array.from(data, Number);
const moved = (x: HostTensor, along: readonly number[], by: number): HostTensor =>
  host(
    x.shape,
    numbers(x).map((value, at) => value + by * (along[at] as number)),
  );
const patternNumbers = (shape: Shape, seed: number): number[] =>
  Array.from({ length: sizeOf(shape) }, (_unused, at) => 1 + 0.7 * Math.sin(seed + 2.3 * at));
const inner = (x: readonly number[], y: readonly number[]): number =>
  x.reduce((total, value, at) => total + value * (y[at] as number), 0);

/** Central differences along a direction. */
function differences(fn: Fn, x: HostTensor, along: readonly number[]): number[] {
  const step = 1e-5;
  const [above, below] = [step, -step].map((by) => numbers(run(fn, moved(x, along, by)))) as [number[], number[]];
  return above.map((value, at) => (value - (below[at] as number)) / (2 * step));
}

function expectClose(found: readonly number[], expected: readonly number[], tolerance: number): void {
  expect(found.length).toBe(expected.length);
  const scale = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 1);
  found.forEach((value, at) => {
    const off = Math.abs(value - (expected[at] as number)) / scale;
    if (!(off <= tolerance)) expect.fail(`element ${at}: ${value} for ${expected[at]}`);
  });
}

/** Compares a transform of `fn` with what it means. */
function check({ apply, means }: Transform, fn: Fn, x: HostTensor, passes: boolean): void {
  const found = numbers(run(apply(fn), x, passes));
  if (means === "gradient" || means === "value and gradient") {
    checkAsGradient(found, fn, x, means === "gradient" ? 0 : 1);
    return;
  }
  if (means === "tangent") {
    expectClose(found, differences(fn, x, patternNumbers(x.shape, 2)), 1e-6);
    return;
  }
  const value = numbers(run(fn, x));
  const other = means === "batch" ? numbers(run(fn, moved(x, numbers(x), -0.25))) : [];
  expectClose(
    found,
    value.map((one, at) => one + (other[at] ?? 0)),
    1e-11,
  );
}

/** Compares a gradient, to which `times` the value was added, along two directions. */
function checkAsGradient(found: readonly number[], fn: Fn, x: HostTensor, times: number): void {
  const y = run(fn, x);
  const weights = patternNumbers(y.shape, 1);
  const offset = times * inner(weights, numbers(y));
  expect(found.length).toBe(sizeOf(x.shape));
  for (const seed of [3, 4]) {
    const along = patternNumbers(x.shape, seed);
    const own = inner(
      found.map((one) => one - offset),
      along,
    );
    expectClose([own], [inner(differences(fn, x, along), weights)], 2e-6);
  }
}

const inputOf = (shape: Shape): HostTensor =>
  host(
    shape,
    Array.from({ length: sizeOf(shape) }, (_unused, at) => 0.9 * Math.sin(1 + 1.7 * at) + 0.05),
  );

const names = Object.keys(transforms);
const allowed = (chain: readonly string[], { forwardOnly }: Case): boolean =>
  forwardOnly !== true || !chain.some((name) => backward.has(name));
const build = (chain: readonly string[], fn: Fn): Fn =>
  chain.reduceRight((inner, name) => (transforms[name] as Transform).apply(inner), fn);

describe("chains of two transforms", () => {
  describe.each(Object.entries(cases))("of %s", (_name, one) => {
    it.each(names)("%s of each", (outer) => {
      for (const second of partOf(names, 5, names.indexOf(outer))) {
        if (!allowed([outer, second], one)) continue;
        try {
          check(transforms[outer] as Transform, build([second], one.fn), inputOf(one.shape), true);
        } catch (error) {
          throw new Error(`${outer} of ${second}`, { cause: error });
        }
      }
    });
  });
});

describe("chains of three transforms", () => {
  // Of what may go wrong only where three meet, the derivatives and what changes how they are made.
  const outers = ["grad", "jvp", "vmap"];
  const middles = ["remat", "customGradient", "vmap", "jvp", "grad"];
  const inners = ["remat of products", "customJvp", "vmap", "grad", "jit"];
  const small = ["a layer", "scan", "cond", "while", "while with a bound", "max pooling"];
  describe.each(small.map((name) => [name, cases[name] as Case] as const))("of %s", (_name, one) => {
    it.each(outers)("%s of each of each", (outer) => {
      for (const [at, middle] of (one.middles ?? middles).entries())
        for (const third of partOf(inners, 4, at + outers.indexOf(outer))) {
          if (!allowed([outer, middle, third], one)) continue;
          try {
            check(transforms[outer] as Transform, build([middle, third], one.fn), inputOf(one.shape), false);
          } catch (error) {
            throw new Error(`${outer} of ${middle} of ${third}`, { cause: error });
          }
        }
    });
  });
});

describe("what is flat has derivative zero", () => {
  const flat: { readonly [name: string]: Fn } = {
    comparisons: (x) => x.gt(0.1).cast("f64").add(x.eq(x).cast("f64")),
    floor: (x) => floor(x.mul(3)),
    round: (x) => round(x.mul(3)),
    argMax: (x) => x.argMax().cast("f64").mul(2),
    "a cast to integers": (x) => x.mul(5).cast("i32").cast("f64"),
  };
  it.each(Object.entries(flat))("%s", (_name, fn) => {
    const x = inputOf([4]);
    const zero = [0, 0, 0, 0];
    expect(
      numbers(
        run(
          grad((y: Tensor) => weigh(fn(y))),
          x,
        ),
      ),
    ).toEqual(zero);
    expect(
      numbers(
        run(
          grad((y: Tensor) => weigh(jvp(fn, [y], [y]).tangent)),
          x,
        ),
      ),
    ).toEqual(zero);
    const tangent = numbers(run((y) => jvp(fn, [y], [direction(y)]).tangent, x));
    expect(tangent.every((value) => value === 0)).toBe(true);
    expect(numbers(run((y) => zerosLike(y), x))).toEqual(zero);
  });
});
