/** What loops keep for their gradients, and what they add up behind them, seen in the graphs; gradients against unrolled loops. */
import { describe, expect, it, test } from "vitest";
import {
  grad,
  jit,
  mesh,
  nn,
  planFunction,
  random,
  remat,
  scan,
  type Tensor,
  valueAndGrad,
  vmap,
  zeros,
} from "../../src/index.ts";
import type { Graph, Node } from "../../src/ir/index.ts";
import { topological } from "../../src/ir/walk.ts";
import type { ScanAttrs } from "../../src/ops/index.ts";
import { expectClose } from "../support/close.ts";

type Params = { readonly [name: string]: Tensor };
type Step = (h: Tensor, x: Tensor, p: Params) => Tensor;

const shapes = { w: [6, 6], v: [6, 6], b: [6], s: [] } as const;
const params = Object.fromEntries(
  Object.entries(shapes).map(([name, shape], place) => [name, random.normal(random.key(place), shape).mul(0.4)]),
);
const start = random.normal(random.key(11), [3, 6]);
const sequence = random.normal(random.key(12), [4, 3, 6]);

interface Cell {
  readonly name: string;
  readonly step: Step;
  /** Ops `dot` in the gradient's body, its carries, and its slices named as residuals. */
  readonly dots: number;
  readonly carries: number;
  readonly residuals: number;
}

const cells: readonly Cell[] = [
  {
    name: "a plain network: its tanh is kept, weight and bias are summed behind the loop",
    step: (h, x, { w, b }) =>
      h
        .matmul(w as Tensor)
        .add(b as Tensor)
        .add(x)
        .tanh(),
    dots: 1,
    carries: 1,
    residuals: 1,
  },
  {
    name: "two products on a path: both are kept",
    step: (h, x, { w, v }) =>
      h
        .matmul(w as Tensor)
        .add(x)
        .tanh()
        .matmul((v as Tensor).transpose())
        .sigmoid(),
    dots: 2,
    carries: 1,
    residuals: 2,
  },
  {
    name: "a weight that is used twice: one carry less all the same",
    step: (h, x, { w }) =>
      h
        .matmul(w as Tensor)
        .add(x.matmul(w as Tensor))
        .tanh(),
    dots: 1,
    carries: 1,
    residuals: 1,
  },
  {
    name: "no product: nothing is kept, and sums stay carries",
    step: (h, x, { s, b }) =>
      h
        .mul(s as Tensor)
        .add(x)
        .mul(b as Tensor)
        .sin(),
    dots: 0,
    carries: 3,
    residuals: 0,
  },
  {
    name: "a product of what is the same in every iteration: not kept",
    step: (h, x, { w, v }) =>
      h
        .mul((w as Tensor).matmul(v as Tensor).slice([0, 0], [3, 6]))
        .add(x)
        .tanh(),
    dots: 3,
    carries: 3,
    residuals: 0,
  },
  {
    name: "sums within an iteration: kept, as they cost more than they take",
    step: (h, x, { w }) =>
      h
        .matmul(w as Tensor)
        .add(x)
        .softmax(),
    dots: 1,
    carries: 1,
    residuals: 1,
  },
];

type Iteration = (state: Tensor, x: Tensor) => [Tensor, Tensor];

const looped =
  (step: Step, options: { reverse?: boolean; remat?: boolean } = {}, wrap = (fn: Iteration): Iteration => fn) =>
  (p: Params, h: Tensor, xs: Tensor): Tensor => {
    const iteration = wrap((state, x) => {
      const next = step(state, x, p);
      return [next, next.mul(state)];
    });
    const [last, all] = scan(iteration, h, xs, options);
    return last.sum().add(all.sin().sum());
  };

const unrolled =
  (step: Step, reverse = false) =>
  (p: Params, h: Tensor, xs: Tensor): Tensor => {
    let [state, total] = [h, zeros([])];
    const steps = Array.from({ length: xs.shape[0] as number }, (_unused, place) => place);
    for (const place of reverse ? steps.reverse() : steps) {
      const next = step(state, xs.slice([place, 0, 0], [place + 1, 3, 6]).reshape([3, 6]), p);
      total = total.add(next.mul(state).sin().sum());
      state = next;
    }
    return state.sum().add(total);
  };

const loopsOf = (graph: Graph): ScanAttrs[] =>
  topological(graph.outputs).flatMap(({ op, attrs }) => (op.name === "scan" ? [attrs as ScanAttrs] : []));
const dotsIn = (graph: Graph): number => topological(graph.outputs).filter(({ op }) => op.name === "dot").length;
const residualsIn = ({ inputs }: Graph): number =>
  inputs.filter(({ attrs }: Node) => String(attrs["name"]).startsWith("residual")).length;

/** The loops of a function's plan. */
function planned(fn: (...inputs: never[]) => unknown, inputs: readonly unknown[]): ScanAttrs[] {
  return loopsOf(planFunction(fn as never, inputs as never, mesh({})).plan.local);
}

const close = (one: Tensor, other: Tensor, tolerance: number): void =>
  expectClose(one.dataSync() as Float32Array, other.dataSync() as Float32Array, tolerance);

const gradients = (fn: (p: Params, h: Tensor, xs: Tensor) => Tensor) => (p: Params, h: Tensor, xs: Tensor) =>
  grad((all: { p: Params; h: Tensor; xs: Tensor }) => fn(all.p, all.h, all.xs))({ p, h, xs });

function closeTrees(one: unknown, other: unknown, tolerance: number): void {
  if (typeof one === "object" && one !== null && !("shape" in one))
    for (const [key, value] of Object.entries(one)) closeTrees(value, (other as never)[key], tolerance);
  else close(one as Tensor, other as Tensor, tolerance);
}

describe.each(cells)("$name", ({ step, dots, carries, residuals }) => {
  it.each([false, true])("the gradient is that of the unrolled loop, reverse: %s", (reverse) => {
    const one = jit(gradients(looped(step, { reverse })))(params, start, sequence);
    closeTrees(one, jit(gradients(unrolled(step, reverse)))(params, start, sequence), 1e-4);
  });

  it("the gradient is the same where the cell is computed again, and another output uses its result", () => {
    const again = gradients(looped((h, x, p) => remat(step)(h, x, p)));
    closeTrees(jit(again)(params, start, sequence), jit(gradients(looped(step)))(params, start, sequence), 1e-5);
  });

  it("in the graph", () => {
    const [forward, backward] = planned(gradients(looped(step)), [params, start, sequence]) as [ScanAttrs, ScanAttrs];
    const seen = [dotsIn(backward.body), backward.carries, residualsIn(backward.body)];
    expect(seen).toEqual([dots, carries, residuals]);
    expect(dotsIn(forward.body)).toBe(dotsIn((planned(looped(step), [params, start, sequence])[0] as ScanAttrs).body));
  });

  it("differentiates twice, as the unrolled loop", () => {
    const twice = (fn: (p: Params, h: Tensor, xs: Tensor) => Tensor) => (p: Params, h: Tensor, xs: Tensor) =>
      gradients((q, g, ys) => {
        const first = gradients(fn)(q, g, ys);
        return first.h
          .mul(first.h)
          .sum()
          .add((first.p["w"] as Tensor).sin().sum());
      })(p, h, xs);
    const one = jit(twice(looped(step)))(params, start, sequence);
    closeTrees(one, jit(twice(unrolled(step)))(params, start, sequence), 1e-3);
  });

  it("for each of a batch", () => {
    const each = vmap((h: Tensor) => gradients(looped(step))(params, h, sequence));
    const states = random.normal(random.key(13), [2, 3, 6]);
    const one = jit(each)(states);
    const second = gradients(unrolled(step))(params, states.slice([1, 0, 0], [2, 3, 6]).reshape([3, 6]), sequence);
    close(one.h.slice([1, 0, 0], [2, 3, 6]).reshape([3, 6]), second.h, 1e-4);
    close((one.p["w"] as Tensor).slice([1, 0, 0], [2, 6, 6]).reshape([6, 6]), second.p["w"] as Tensor, 1e-4);
  });
});

const plain = (cells[0] as Cell).step;

test.each([
  ["the option remat", looped(plain, { remat: true })],
  ["remat of an iteration", looped(plain, {}, remat)],
])("%s: computed again, nothing kept", (_name, fn) => {
  const [forward, backward] = planned(gradients(fn), [params, start, sequence]) as [ScanAttrs, ScanAttrs];
  expect([dotsIn(backward.body), residualsIn(backward.body)]).toEqual([3, 0]);
  expect(forward.body.outputs).toHaveLength(3);
  closeTrees(
    jit(gradients(fn))(params, start, sequence),
    jit(gradients(unrolled(plain)))(params, start, sequence),
    1e-4,
  );
});

test("stacks above the limit are not kept: 4 KiB × 64 × 8192 iterations", () => {
  const type = (...shape: number[]) => ({ dtype: "f32" as const, shape });
  const sized = (steps: number) => {
    const loss = (w: Tensor, h: Tensor, xs: Tensor): Tensor =>
      scan((state: Tensor, x: Tensor) => [state.matmul(w).add(x).tanh(), null], h, xs)[0].sum();
    const backward = planned(grad(loss), [type(1024, 1024), type(64, 1024), type(steps, 64, 1024)])[1] as ScanAttrs;
    return [dotsIn(backward.body), residualsIn(backward.body), backward.carries];
  };
  expect(sized(4096)).toEqual([1, 1, 1]);
  expect(sized(8192)).toEqual([3, 0, 2]);
});

test("a sum stays a carry where its factors are much larger than it", () => {
  const type = (...shape: number[]) => ({ dtype: "f32" as const, shape });
  const loss = (w: Tensor, h: Tensor, xs: Tensor): Tensor =>
    scan((state: Tensor, x: Tensor) => [state.matmul(w).add(x).tanh(), null], h, xs)[0].sum();
  const carriesOf = (rows: number): number =>
    (planned(grad(loss), [type(8, 8), type(rows, 8), type(5, rows, 8)])[1] as ScanAttrs).carries;
  expect([carriesOf(32), carriesOf(33)]).toEqual([1, 2]);
});

test.each(["rnn", "gru", "lstm"] as const)(
  "%s: one product in an iteration of the gradient, two carries at most",
  (kind) => {
    const layer = nn[kind]({ hidden: 5, bidirectional: true });
    const x = random.normal(random.key(3), [2, 7, 4]);
    const variables = layer.init(random.key(4), x);
    const run = (p: typeof variables.params): Tensor =>
      layer
        .apply({ ...variables, params: p }, x)
        .y.sin()
        .sum();
    const loops = planned(valueAndGrad(run), [variables.params]);
    const backward = loops.filter(({ body }) => body.name.startsWith("gradient-of"));
    expect(backward).toHaveLength(2);
    for (const { body, carries } of backward) {
      expect(dotsIn(body)).toBe(1);
      expect(carries).toBe(kind === "lstm" ? 2 : 1);
    }
  },
);
