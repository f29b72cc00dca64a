/** Updates of tables by the rows that were looked up, against the same graph with the whole gradient. */

import fc from "fast-check";
import { any, jit, mesh, optim, type Tensor, type Tensors, take, tensor, valueAndGrad } from "heddle";
import { lowerProgram } from "heddle/lower";
import { describe, expect, test } from "vitest";
import { evalShape, planFunction } from "../../src/functions/index.ts";
import { type Graph, type HostTensor, type Node, traceGraph } from "../../src/ir/index.ts";
import { topological } from "../../src/ir/walk.ts";
import { touchedRows } from "../../src/passes/touched-rows.ts";
import { planGraph } from "../../src/plan/index.ts";
import { executors } from "../support/executors.ts";
import * as ops from "../support/nodes.ts";
import { difference, floats, makeTensor, type Source, scalar } from "../support/tensors.ts";
import { runPlan } from "./run.ts";

const size = 64;
const table = [size, 3];
const small = { fewer: 4, idBytes: 0, leastBytes: 0 };
const rowIds = { dtype: "i32", shape: [5], values: [7, 63, 7, 0, 7] } as const;
const otherIds = { dtype: "i32", shape: [2, 2], values: [1, 63, 63, 2] } as const;

/** What a case is given: a table and a second one, ids with rows for them, again ids with rows, and a rate. */
const sources: readonly Source[] = [
  floats(table),
  floats(table, 0.5, 2),
  rowIds,
  floats([5, 3]),
  otherIds,
  floats([2, 2, 3]),
  scalar("f32", 0.1),
];
const given = sources.map(makeTensor);

interface Given {
  readonly p: Node;
  readonly q: Node;
  /** The gradient of a lookup, and that of another. */
  readonly g: Node;
  readonly h: Node;
  readonly rate: Node;
}

const traced = (make: (given: Given) => readonly Node[]): Graph =>
  traceGraph(
    "update",
    sources.map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } })),
    (...nodes) => {
      const [p, q, ids, u, others, v, rate] = nodes as [Node, Node, Node, Node, Node, Node, Node];
      return make({ p, q, g: ops.scatterAdd(u, ids, size), h: ops.scatterAdd(v, others, size), rate });
    },
  );

const touched = (g: Node): Node => ops.broadcastInDim(ops.any(ops.ne(g, 0), 1), g.shape, [0]);

/** Where a row's gradient is zero the old value. */
const lazily = (g: Node, next: Node, before: Node): Node => ops.select(touched(g), next, before);

const adagrad = (p: Node, q: Node, g: Node, rate: Node): Node[] => {
  const sum = ops.add(q, ops.mul(g, g));
  return [ops.sub(p, ops.div(ops.mul(g, rate), ops.add(ops.sqrt(sum), 1e-10))), sum];
};

const clipped = (g: Node): Node => ops.mul(g, ops.div(1, ops.add(ops.sqrt(ops.sum(ops.mul(g, g))), 1e-6)));

const byRows: { readonly [what: string]: (given: Given) => readonly Node[] } = {
  "gradient descent": ({ p, g, rate }) => [ops.sub(p, ops.mul(g, rate))],
  "two lookups in one table": ({ p, g, h, rate }) => [ops.sub(p, ops.mul(ops.add(g, h), rate))],
  Adagrad: ({ p, q, g, rate }) => adagrad(p, q, g, rate),
  "Adagrad after two lookups": ({ p, q, g, h, rate }) => adagrad(p, q, ops.add(ops.mul(h, 0.5), g), rate),
  "two tables": ({ p, q, g, h, rate }) => [ops.sub(p, ops.mul(g, rate)), ops.add(q, ops.mul(rate, h))],
  "lazy momentum and decay": ({ p, q, g, rate }) => {
    const momentum = ops.add(ops.mul(q, 0.9), ops.add(g, ops.mul(p, 0.01)));
    return [lazily(g, ops.sub(p, ops.mul(momentum, rate)), p), lazily(g, momentum, q)];
  },
  "clipped values": ({ p, g, rate }) => [ops.sub(p, ops.mul(ops.maximum(ops.minimum(g, 0.5), -0.5), rate))],
  "accumulation, then a step": ({ p, q, g, h, rate }) => [
    ops.sub(p, ops.mul(h, rate)),
    ops.add(ops.add(q, g), ops.mul(h, 0.25)),
  ],
  "a step that may be refused": ({ p, g, rate }) => {
    const finite = ops.all(ops.isFinite(g));
    return [ops.select(ops.broadcastTo(finite, p.shape), ops.sub(p, ops.mul(g, rate)), p), ops.cast(finite, "i32")];
  },
  "largest and smallest": ({ g, h }) => [
    ops.max(ops.abs(g)),
    ops.min(g, 0),
    ops.max(ops.sub(ops.mul(h, h), 9), [0, 1]),
    ops.cast(ops.any(ops.gt(g, 1)), "i32"),
  ],
  "a step made of the last one": ({ p, g, h, rate }) => {
    const once = ops.sub(p, ops.mul(g, rate));
    return [ops.sub(once, ops.mul(h, rate)), ops.sum(once)];
  },
};

/** Sums over rows round in another order. */
const rounded: { readonly [what: string]: (given: Given) => readonly Node[] } = {
  "clipped by the norm": ({ p, g, rate }) => [ops.sub(p, ops.mul(clipped(g), rate)), ops.sum(g), ops.sum(g, 0)],
};

/** What is of the table's shape and neither given nor a copy with some rows replaced. */
const wholes = (graph: Graph): Node[] =>
  topological(graph.outputs).filter(
    ({ op, shape, attrs }) =>
      op.name !== "parameter" && attrs["op"] !== "replace" && shape.length === 2 && shape[0] === size,
  );

const bits = ({ dtype, data }: HostTensor): unknown => [dtype, ...data];

describe.each([...Object.entries(byRows), ...Object.entries(rounded)])("%s", (what, make) => {
  const whole = traced(make);
  const rows = touchedRows(whole, small);
  test("makes nothing of the table's size", () => {
    expect(wholes(whole)).not.toHaveLength(0);
    expect(wholes(rows)).toEqual([]);
  });

  test.each(executors)("has the same bits, $name", async ({ make: executor }) => {
    const [expected, found] = await Promise.all(
      [whole, rows].map((graph) => runPlan(planGraph(graph, mesh({})), given, executor)),
    );
    expected?.forEach((value, index) => {
      const other = found?.[index] as HostTensor;
      if (what in rounded) expect(difference(other.data, value.data, 1e-6)).toBeUndefined();
      else expect(bits(other)).toEqual(bits(value));
    });
  });
});

test.each<[string, (given: Given) => readonly Node[]]>([
  [
    "Adam moves rows without a gradient",
    ({ p, q, g, rate }) => {
      const average = ops.add(ops.mul(q, 0.9), ops.mul(g, 0.1));
      return [ops.sub(p, ops.mul(average, rate)), average];
    },
  ],
  ["weight decay does so too", ({ p, g, rate }) => [ops.sub(p, ops.mul(ops.add(g, ops.mul(p, 0.1)), rate))]],
  ["the gradient is a result", ({ p, g, rate }) => [ops.sub(p, ops.mul(g, rate)), g]],
  [
    "the gradient goes into a product",
    ({ p, g, rate }) => [ops.sub(p, ops.mul(g, rate)), ops.matmul(g, ops.transpose(g))],
  ],
  ["what is added is not zero", ({ p, g }) => [ops.add(p, ops.exp(g))]],
])("nothing changes where %s", (_why, make) => {
  const graph = traced(make);
  expect(touchedRows(graph, small)).toBe(graph);
});

test.each(Object.entries(byRows))("a row that is written several times gets the same each time: %s", (_what, make) => {
  const rows = touchedRows(traced(make), small);
  const writes = topological(rows.outputs).filter(({ attrs, shape }) => attrs["op"] === "replace" && shape[0] === size);
  const outputs = writes.flatMap(({ inputs: [, indices, updates] }) => [indices as Node, updates as Node]);
  const found = ops.evaluateGraph({ ...rows, outputs }, given);
  for (let write = 0; write < found.length; write += 2) {
    const [indices, updates] = [found[write] as HostTensor, found[write + 1] as HostTensor];
    indices.data.forEach((id, place) => {
      if (id === indices.data[0])
        expect(updates.data.slice(place * 3, place * 3 + 3)).toEqual(updates.data.slice(0, 3));
    });
    expect(new Set(indices.data).size).toBeLessThan(indices.data.length);
  }
});

describe.each(executors)("at the edge, $name", ({ make: executor }) => {
  const run = (graph: Graph, values: readonly HostTensor[]) => runPlan(planGraph(graph, mesh({})), values, executor);

  test("rows that are left over add nothing to what is combined, whatever the first row is multiplied by", async () => {
    const whole = traced(({ q, g }) => [ops.sum(ops.abs(ops.mul(g, q))), ops.max(ops.abs(ops.mul(g, q)), 0)]);
    const rows = touchedRows(whole, small);
    expect(wholes(rows)).toEqual([]);
    const endless = makeTensor(floats(table, 1, 1));
    endless.data.fill(Infinity, 0, 3);
    const values = given.with(1, endless);
    const [expected, found] = [await run(whole, values), await run(rows, values)];
    expect(found.map(bits)).toEqual(expected.map(bits));
    expect(found[0]?.data[0]).toBe(Infinity);
  });

  test.each<[string, (given: Given) => readonly Node[]]>([
    ["an update", ({ p, g, rate }) => [ops.sub(p, ops.mul(g, rate))]],
    ["a norm alone", ({ g }) => [ops.sum(ops.mul(g, g))]],
    ["a bound alone", ({ g }) => [ops.max(g)]],
  ])("an id outside the table is the error that it was: %s", async (_what, make) => {
    const rows = touchedRows(traced(make), small);
    expect(wholes(rows)).toEqual([]);
    for (const id of [size, -1, 1 << 30]) {
      const outside = makeTensor({ ...rowIds, values: [7, 63, id, 0, 7] });
      await expect(run(rows, given.with(2, outside))).rejects.toThrow(
        new RegExp(`index ${id} at position 2 is outside \\[0, ${size}\\)`),
      );
    }
  });
});

test("a division by zero that no run reaches is no error of the plan", () => {
  const graph = traced(({ g }) => [ops.max(ops.div(ops.full("i32", table, 7), ops.cast(g, "i32")))]);
  expect(touchedRows(graph, small)).toBe(graph);
});

test("tables that are small, or of which many rows are looked up, are updated whole", () => {
  const graph = traced(byRows["gradient descent"] as (given: Given) => Node[]);
  expect(touchedRows(graph)).toBe(graph);
  expect(touchedRows(graph, { ...small, fewer: size / 5 + 1 })).toBe(graph);
  expect(touchedRows(graph, { ...small, fewer: size / 5 })).not.toBe(graph);
  // A row has twelve bytes, so that one is updated in the time in which an id is sorted.
  expect(touchedRows(graph, { ...small, fewer: size / 5 - 1, idBytes: 12 })).not.toBe(graph);
  expect(touchedRows(graph, { ...small, fewer: size / 5 - 1, idBytes: 13 })).toBe(graph);
});

test("a program does not grow with the square of the steps that one momentum leads through", () => {
  const sizes = (count: number): number[] => {
    const graph = traced(({ p, rate }) => {
      const tables = [p];
      let momentum: Node | undefined;
      for (let step = 0; step < count; step++) {
        const before = tables[step] as Node;
        const gradient = ops.scatterAdd(ops.slice(before, [0, 0], [1, 3]), ops.full("i32", [1], step), size);
        momentum = momentum === undefined ? gradient : ops.add(ops.mul(momentum, 0.9), gradient);
        tables.push(ops.sub(before, ops.mul(momentum, rate)));
      }
      return tables;
    });
    return [graph, touchedRows(graph, { ...small, fewer: 1 })].map(({ outputs }) => topological(outputs).length);
  };
  const [many, few] = [sizes(50), sizes(8)] as [[number, number], [number, number]];
  expect(few[1]).toBeGreaterThan(2 * few[0]);
  expect(many[1]).toBeLessThan(2 * many[0]);
});

/** Functions of values of the table's shape: the index says which of those before are the operands. */
type Instruction = readonly [name: string, x: number, y: number];
const functions: { readonly [name: string]: (x: Node, y: Node, z: Node) => Node } = {
  add: ops.add,
  sub: ops.sub,
  mul: ops.mul,
  div: ops.div,
  abs: ops.abs,
  tanh: ops.tanh,
  maximum: ops.maximum,
  select: (x, y, z) => ops.select(ops.gt(x, 0.1), y, z),
  touched: (x, y, z) => ops.select(touched(x), y, z),
  norm: (x, y) => ops.mul(y, ops.broadcastInDim(ops.sum(ops.mul(x, x), 1), y.shape, [0])),
  clip: (x, y) => ops.mul(ops.max(ops.abs(x)), y),
};

test("random updates have the same bits wherever they are finite", () => {
  const instruction = fc.tuple(fc.constantFrom(...Object.keys(functions)), fc.nat(30), fc.nat(30));
  let changed = 0;
  fc.assert(
    fc.property(fc.array(instruction, { minLength: 2, maxLength: 12 }), fc.nat(30), (list: Instruction[], last) => {
      const whole = traced(({ p, q, g, h, rate }) => {
        const known = [p, g, q, h, ops.broadcastTo(rate, p.shape)];
        const at = (index: number): Node => known[index % known.length] as Node;
        for (const [name, x, y] of list)
          known.push((functions[name] as (typeof functions)[string])(at(x), at(y), at(x + y)));
        // All that a rule may find to be an update is asked for as one.
        return [ops.sub(p, ops.mul(g, at(last))), ...known.slice(-3).map((one) => ops.sub(q, ops.mul(g, one)))];
      });
      const rows = touchedRows(whole, small);
      if (rows !== whole) changed++;
      const [expected, found] = [whole, rows].map((graph) => ops.evaluateGraph(graph, given)) as [
        HostTensor[],
        HostTensor[],
      ];
      expected.forEach(({ data }, index) => {
        const other = found[index] as HostTensor;
        data.forEach((value, place) => {
          if (Number.isFinite(value) && !Object.is(other.data[place], value))
            expect.fail(`result ${index} at ${place}: ${other.data[place]} is not ${value}`);
        });
      });
    }),
    { seed: 5, numRuns: 200 },
  );
  expect(changed).toBeGreaterThan(100);
});

/** Of `rows` rows, with what is looked up in them. */
interface Embedding {
  readonly table: Tensor;
  readonly bias: Tensor;
  readonly [name: string]: Tensor;
}

const [rows, width] = [40_000, 8];
const ids = [
  [3, 39_999, 3],
  [17, 0, 3],
];

const loss = (params: Embedding, where: Tensor): Tensor => {
  const found = take(params.table, where);
  return found.mul(found).sum().add(take(params.bias, where).sum());
};

const start = (): Embedding => ({
  table: tensor(
    Float32Array.from({ length: rows * width }, (_unused, index) => Math.sin(index)),
    { shape: [rows, width] },
  ),
  bias: tensor(
    Float32Array.from({ length: rows * 8 }, (_unused, index) => Math.cos(index)),
    { shape: [rows * 8] },
  ),
});

const everything = (): boolean => true;
const optimizers: { readonly [name: string]: optim.Optimizer } = {
  sgd: optim.sgd({ learningRate: 0.1 }),
  adagrad: optim.adagrad({ learningRate: 0.1, initialAccumulator: 0.1 }),
  "lazy momentum": optim.lazy(optim.sgd({ learningRate: 0.1, momentum: 0.9, weightDecay: 0.1 }), everything),
  "lazy adam": optim.lazy(optim.adam({ learningRate: 0.1, amsgrad: true }), everything),
  "lazy adamW": optim.lazy(optim.adamW({ learningRate: 0.1 }), everything),
  "lazy rmsProp": optim.lazy(optim.rmsProp({ learningRate: 0.1, centered: true, momentum: 0.5 }), everything),
};

describe.each(Object.entries(optimizers))("an embedding's step by %s", (_name, optimizer) => {
  const step = (params: Embedding, state: Tensors, where: Tensor, count: Tensor) => {
    const { value, grad } = valueAndGrad(loss)(params, where);
    const { grads, norm } = optim.clipByGlobalNorm(grad, 1);
    return { ...optimizer.update(grads, state, params, { step: count }), value, norm };
  };

  test("takes rows from the table and is the same as the eager one", async () => {
    const compiled = jit(step, { donate: [0, 1] });
    let [fast, slow] = [start(), start()];
    let [ofFast, ofSlow] = [optimizer.init(fast), optimizer.init(slow)];
    for (let count = 0; count < 3; count++) {
      const where = tensor(
        ids.map((row) => row.map((id) => (id + count * 3) % rows)),
        { dtype: "i32" },
      );
      const at = tensor(count, { dtype: "i32" });
      const [one, other] = [compiled(fast, ofFast, where, at), step(slow, ofSlow, where, at)];
      expect(difference(await one.norm.data(), await other.norm.data(), 1e-5)).toBeUndefined();
      [fast, ofFast, slow, ofSlow] = [one.params, one.state, other.params, other.state];
    }
    for (const name of ["table", "bias"] as const) {
      const found = await (fast[name] as Tensor).data();
      expect(difference(found, await (slow[name] as Tensor).data(), 1e-5)).toBeUndefined();
      const before = await (start()[name] as Tensor).data();
      // Twelve ids, some of them several times.
      const changed = new Set([...found.keys()].filter((place) => found[place] !== before[place]));
      expect(changed.size).toBeGreaterThan(name === "table" ? 40 : 5);
      expect(changed.size).toBeLessThanOrEqual(name === "table" ? 12 * width : 12);
    }
  });

  test("holds the table and its state once", () => {
    const f32 = { dtype: "f32" } as const;
    const params = { table: { ...f32, shape: [rows, width] }, bias: { ...f32, shape: [rows * 8] } };
    const state = evalShape(
      (table: Tensor, bias: Tensor) => optimizer.init({ table, bias }),
      params.table,
      params.bias,
    );
    const i32 = { dtype: "i32" } as const;
    const { program } = planFunction(
      step,
      [params, state, { ...i32, shape: [2, 3] }, { ...i32, shape: [] }],
      mesh({}),
      {
        donate: [0, 1],
      },
    );
    const lowered = lowerProgram(program, { slots: 2 });
    expect(lowered.workBytes).toBeLessThan(1 << 16);
  });
});

test("lazy leaves rows without a gradient as they are, in all else it is the optimizer", async () => {
  const adam = optim.adam({ learningRate: 0.1 });
  const lazy = optim.lazy(adam, ({ name }) => name === "table");
  const params = {
    table: tensor([
      [1, 2],
      [3, 4],
    ]),
    weight: tensor([
      [1, 2],
      [3, 4],
    ]),
  };
  const grads = [
    tensor([
      [1, 0],
      [0, 0],
    ]),
    tensor([
      [0, 0],
      [0, Number.NaN],
    ]),
    tensor([
      [0, 0],
      [0, 0],
    ]),
  ];
  let [one, other] = [params, params];
  let [ofOne, ofOther] = [lazy.init(params), adam.init(params)];
  for (const [step, grad] of grads.entries()) {
    const given = { table: grad, weight: grad };
    const [next, whole] = [lazy.update(given, ofOne, one, { step }), adam.update(given, ofOther, other, { step })];
    const rows = await any(grad.ne(0), [1]).data();
    const expected = async (before: Tensor, after: Tensor): Promise<number[]> => {
      const [old, fresh] = [await before.data(), await after.data()];
      return [...fresh.keys()].map((place) => (rows[place >> 1] === 1 ? fresh : old)[place] as number);
    };
    const own = adam.update(given, ofOne, one, { step });
    expect([...(await next.params.table.data())]).toEqual(await expected(one.table, own.params.table));
    for (const slot of ["expAvg", "expAvgSq"]) {
      const at = (tree: Tensors): Tensor =>
        (tree as { readonly [slot: string]: { table: Tensor } })[slot]?.table as Tensor;
      expect([...(await at(next.state).data())]).toEqual(await expected(at(ofOne), at(own.state)));
    }
    expect([...(await next.params.weight.data())]).toEqual([...(await whole.params.weight.data())]);
    [one, ofOne, other, ofOther] = [next.params, next.state, whole.params, whole.state];
  }
});

test("lazy refuses what it cannot be", () => {
  expect(() => optim.lazy(optim.lbfgs({ learningRate: 1 }), everything)).toThrow(/lbfgs steps along all parameters/);
  const named = optim.lazy(optim.sgd({ learningRate: 1 }), ({ name }) => name === "tabel");
  expect(() => named.init({ table: tensor([1]), bias: tensor(1) })).toThrow(/no parameter is lazy: table, bias/);
  expect(() => optim.lazy(undefined as never, everything)).toThrow(/takes an optimizer, .* got undefined/);
  expect(() => optim.lazy(optim.sgd({ learningRate: 1 }), "tabel").init({ table: tensor([1]) })).toThrow(
    /lazy: no parameter is lazy: table\n.*\n.*pattern of names/,
  );
});
