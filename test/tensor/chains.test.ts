/** Chains of eager calls that are computed together: the bits are those of calls that are computed one by one. */
import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { distribute, jit, select, type Tensor } from "../../src/functions/index.ts";
import * as elementwise from "../../src/functions/methods/elementwise.ts";
import { type DType, dtypes } from "../../src/ir/dtype.ts";
import { functionTable } from "../../src/ops/function-table.ts";

type Make = (shape: readonly number[], dtype?: DType) => Tensor;
/** Applied to each result: a result that is read is computed by itself. */
type Look = (x: Tensor) => Tensor;
type Expression = (x: Tensor, y: Tensor, look: Look) => Tensor;

const unread: Look = (x) => x;
const read: Look = (x) => {
  x.dataSync();
  return x;
};

const numbers = (length: number): number[] => Array.from({ length }, (_unused, at) => 1.7 * Math.sin(at * at + 1));
const bits = (x: Tensor): string => Buffer.from((x.dataSync() as Float32Array).buffer).toString("hex");

/** More than the calls and runs after which chains are compiled. */
const many = 200;

/** Runs with tensors of a runtime of its own, whose calls are not yet known; counts programs that run. */
function withRuntime(body: (make: Make, runs: () => number) => void, threads = 1): void {
  const runtime = localRuntime({ executor: "native", threads });
  const { compile } = runtime.executor;
  let runs = 0;
  runtime.executor.compile = (...programs) => {
    const executable = compile(...programs);
    const run: typeof executable.run = (inputs) => {
      runs++;
      return executable.run(inputs);
    };
    return { ...executable, run };
  };
  try {
    body(
      (shape, dtype = "f32") => {
        const count = shape.reduce((product, size) => product * size, 1);
        return distribute(runtime, dtypes[dtype].create(numbers(count)), { shape, dtype }, []);
      },
      () => runs,
    );
  } finally {
    runtime.close();
  }
}

const functions = elementwise as unknown as Readonly<Record<string, (...operands: Tensor[]) => Tensor>>;

const ofTable = functionTable.flatMap(({ kind, function: name }): [string, Expression][] => {
  if (typeof name !== "string" || kind === "comparison") return [];
  const call = functions[name];
  if (call === undefined) return [];
  return [
    [
      name,
      (x, y, look) => {
        const left = look(look(x.mul(0.7)).add(y));
        const result = look(kind === "unary" ? call(left) : call(left, y));
        return result.dtype === x.dtype ? look(look(result.mul(1.3)).sub(x)) : result;
      },
    ],
  ];
});

const row = (x: Tensor): Tensor => x.slice([0, 0], [1, x.shape[1] as number]);

const expressions: Readonly<Record<string, Expression>> = {
  "products and sums": (x, y, look) => look(look(look(x.mul(y)).add(x)).sub(look(y.mul(0.1)))),
  "one result twice": (x, y, look) => {
    const d = look(x.sub(y));
    return look(look(d.mul(d)).add(d));
  },
  "a result that two calls take": (x, y, look) => {
    const e = look(x.exp());
    return look(look(e.add(1)).div(look(e.add(y))));
  },
  "rows and columns, broadcast": (x, y, look) =>
    look(look(look(x.sub(x.sum(1, { keepDims: true }))).mul(row(y))).exp()),
  "a result that is broadcast": (x, y, look) => look(look(look(row(x).tanh()).add(1)).mul(y)),
  "more calls than a chain has": (x, y, look) => {
    let result = x;
    for (let count = 0; count < 40; count++) result = look(look(result.mul(y)).add(0.25));
    return result;
  },
  "more operands than a chain has": (x, y, look) => {
    let result = x;
    for (let count = 0; count < 20; count++) result = look(result.add(look(y.mul(count))));
    return result;
  },
  "a choice": (x, y, look) => look(look(select(x.gt(y), look(x.sqrt()), look(y.neg()))).mul(2)),
  "products of matrices": (x, y, look) => look(look(look(x.add(1)).matmul(look(y.transpose().mul(0.5)))).tanh()),
  "a transposition": (x, y, look) => look(look(look(x.add(y)).transpose()).mul(0.3)).transpose(),
  "minus zero": (x, y, look) => look(look(x.mul(-0)).add(look(y.mul(0)))),
};

const unavailable = "error" in loadNative();

describe.skipIf(unavailable)("chains have the bits of single calls", () => {
  test.each(["f32", "f64"] as const)("elementwise functions of %s", (dtype) =>
    withRuntime((make) => {
      const [x, y] = [make([5, 7], dtype), make([5, 7], dtype).mul(1.9)];
      let known = 0;
      for (const [name, expression] of ofTable) {
        let wanted: string;
        try {
          wanted = bits(expression(x, y, read));
        } catch {
          // Not defined for floats.
          continue;
        }
        for (let count = 0; count < many; count++) expression(x, y, unread).dataSync();
        expect(bits(expression(x, y, unread)), name).toBe(wanted);
        known++;
      }
      expect(known).toBeGreaterThan(40);
    }),
  );

  test.each(Object.entries(expressions))("%s", (_name, expression) =>
    withRuntime((make) => {
      const [x, y] = [make([6, 6]), make([6, 6]).mul(0.9)];
      const wanted = bits(expression(x, y, read));
      for (let count = 0; count < many; count++) expect(bits(expression(x, y, unread))).toBe(wanted);
    }),
  );
});

/** Repeats a call until it is computed as a chain. */
function warm(body: () => Tensor): void {
  for (let count = 0; count < many; count++) body().dataSync();
}

describe.skipIf(unavailable)("chains", () => {
  test("are one program, and so is each piece of a long one", () =>
    withRuntime((make, runs) => {
      const [x, y] = [make([4, 4]), make([4, 4])];
      const short = (): Tensor => x.add(y).mul(0.5).tanh().sub(y).relu();
      const long = (): Tensor => {
        let z = x;
        for (let count = 0; count < 32; count++) z = z.add(y);
        return z;
      };
      for (const [body, programs] of [
        [short, 1],
        [long, 2],
      ] as const) {
        warm(body);
        const before = runs();
        body().dataSync();
        expect(runs() - before).toBe(programs);
      }
    }));

  test("results that are dropped are not computed, and calls on much memory run at once", () =>
    withRuntime((make, runs) => {
      const [x, large] = [make([4, 4]), make([256, 256])];
      warm(() => x.add(1));
      warm(() => large.add(1));
      const before = runs();
      x.add(1);
      expect(runs() - before).toBe(0);
      large.add(1);
      expect(runs() - before).toBe(1);
    }));

  test("keep what they read: operands may be disposed and donated", () =>
    withRuntime((make) => {
      const y = make([4, 4]);
      const chain = (x: Tensor): Tensor => x.mul(3).add(y).exp();
      const step = jit((w: Tensor) => w.mul(0), { donate: [0] });
      const wanted = bits(chain(make([4, 4])));
      warm(() => chain(make([4, 4])));
      const [disposed, donated] = [make([4, 4]), make([4, 4])];
      const results = [chain(disposed), chain(donated), chain(disposed).add(0)];
      disposed.dispose();
      expect(() => disposed.add(1)).toThrow("disposed");
      expect(new Set(step(donated).dataSync())).toEqual(new Set([0, -0]));
      expect(() => donated.dataSync()).toThrow("donated");
      for (const result of results) expect(bits(result)).toBe(wanted);
    }));

  test("results on the way can be read, donated and disposed, before and after", () =>
    withRuntime((make) => {
      const [x, y] = [make([4, 4]), make([4, 4])];
      const parts = (): Tensor[] => {
        const made = [x.sub(y.mul(0.3))];
        for (let count = 0; count < 5; count++) made.push((made.at(-1) as Tensor).mul(y).add(1));
        return made;
      };
      const wanted = parts().map((part) => bits(read(part)));
      warm(() => parts().at(-1) as Tensor);
      const forwards = parts();
      expect(forwards.map(bits)).toEqual(wanted);
      expect(parts().reverse().map(bits).reverse()).toEqual(wanted);
      const donated = parts();
      const step = jit((w: Tensor) => w.add(1), { donate: [0] });
      step(donated[2] as Tensor).dataSync();
      (donated[4] as Tensor).dispose();
      for (const at of [0, 1, 3, 5]) expect(bits(donated[at] as Tensor)).toBe(wanted[at]);
      expect(() => (donated[4] as Tensor).dataSync()).toThrow("disposed");
    }));

  test("errors are told at the call", () =>
    withRuntime((make) => {
      const [x, y] = [make([4, 4]), make([4, 5])];
      warm(() => x.add(1));
      expect(() => x.add(1).add(y)).toThrow("add: ");
      expect(() => x.add(1).matmul(y.add(1).transpose())).toThrow("matmul: ");
    }));
});
