import { describe, expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { localRuntime } from "../../src/executors/runtime.ts";
import { compileFunction, distribute, div, jit, type Tensor, take, tensor } from "../../src/functions/index.ts";
import { type DType, dtypes, type TypedArray } from "../../src/ir/dtype.ts";
import { sizeOf } from "../../src/ir/shape.ts";
import { mesh, shardedOn } from "../../src/plan/index.ts";
import { HeddleError } from "../../src/util/errors.ts";

type Make = (shape: readonly number[], value: number, dtype?: DType) => Tensor;

/** The code of the error that a body ends with, at once or later; else the first element of its result. */
async function outcomeOf(body: () => Promise<TypedArray> | TypedArray): Promise<string | number | undefined> {
  try {
    return (await body())[0];
  } catch (error) {
    expect(error).toBeInstanceOf(HeddleError);
    expect((error as HeddleError).where, String(error)).toMatch(/executors\.test\.ts:\d+:\d+$/);
    return (error as HeddleError).code;
  }
}

const small = [4];
// Long enough to be queued.
const large = [2 ** 21];

/** One after another: no two are the same operand. */
const numbersApart = [0, -0, 1, -1, Infinity, -Infinity, Number.NaN];

const rows: readonly (readonly [
  what: string,
  run: (make: Make) => Promise<TypedArray> | TypedArray,
  outcome: string | number,
])[] = [
  ...[small, large].flatMap((shape): [string, (make: Make) => Promise<TypedArray> | TypedArray, string | number][] => {
    const zero = (make: Make): Tensor => div(make(shape, 1, "i32"), make(shape, 0, "i32"));
    return [
      [`division of integers ${shape} by zero, awaited`, (make) => zero(make).data(), "value"],
      [`division of integers ${shape} by zero, read in place`, (make) => zero(make).dataSync(), "value"],
      [`what is made of a division ${shape} by zero`, (make) => zero(make).add(1).data(), "value"],
      [`an index outside ${shape}`, (make) => take(make(shape, 1), make(shape, 2 ** 30, "i32")).data(), "value"],
      [
        `data() of ${shape}, then dispose`,
        (make) => {
          const x = make(shape, 1).add(1);
          const data = x.data();
          x.dispose();
          return data;
        },
        2,
      ],
      [
        `dispose of ${shape}, then data()`,
        (make) => {
          const x = make(shape, 1).add(1);
          x.dispose();
          return x.data();
        },
        "disposed",
      ],
      [
        `data() of ${shape}, then donated`,
        (make) => {
          const x = make(shape, 1).add(1);
          const data = x.data();
          jit((y: Tensor) => y.add(1), { donate: [0] })(x);
          return data;
        },
        2,
      ],
      [
        `${shape} donated by its name; what is beside it stays`,
        async (make) => {
          const given = { state: { a: make(shape, 1) }, x: make(shape, 2) };
          const step = jit(({ state, x }: typeof given) => ({ a: state.a.add(x) }), { donate: ["state"] });
          step(given);
          expect(await given.x.data()).toContain(2);
          return given.state.a.data();
        },
        "disposed",
      ],
      [
        `${shape} donated, and used as another argument`,
        (make) => {
          const x = make(shape, 1);
          return jit((y: Tensor, z: Tensor) => y.add(z), { donate: [0] })(x, x).data();
        },
        "donation",
      ],
      [
        `${shape} used after it was donated`,
        (make) => {
          const x = make(shape, 1);
          const step = jit((y: Tensor) => y.add(1), { donate: [0] });
          step(x);
          return step(x).data();
        },
        "disposed",
      ],
    ];
  }),
];

describe.each(["reference", "native"] as const)("%s", (executor) => {
  const unavailable = executor === "native" && "error" in loadNative();
  test.skipIf(unavailable).each(rows)("%s", async (_what, run, outcome) => {
    const runtime = localRuntime({ executor });
    const make: Make = (shape, value, dtype = "f32") => {
      const data = dtypes[dtype].create(sizeOf(shape)).fill(value);
      return distribute(runtime, data, { shape, dtype }, []);
    };
    try {
      expect(await outcomeOf(() => run(make))).toBe(outcome);
    } finally {
      runtime.close();
    }
  });

  test.skipIf(unavailable)("numbers that are much alike are told apart", () => {
    const runtime = localRuntime({ executor });
    const x = distribute(runtime, Float32Array.of(2), { shape: [1], dtype: "f32" }, []);
    const products = (): number[] => numbersApart.map((number) => x.mul(number).dataSync()[0] as number);
    const expected = numbersApart.map((number) => 2 * number);
    expect(products()).toEqual(expected);
    expect(products()).toEqual(expected);
    runtime.close();
  });

  test.skipIf(unavailable)("what does not fit into memory is named", () => {
    const runtime = localRuntime({ executor });
    const x = distribute(runtime, Float32Array.of(1), { shape: [1], dtype: "f32" }, []);
    let caught: unknown;
    try {
      x.broadcastTo([2 ** 20, 2 ** 22]);
    } catch (error) {
      caught = error;
    }
    runtime.close();
    expect(caught).toBeInstanceOf(HeddleError);
    expect((caught as HeddleError).code).toBe("memory");
    for (const part of ["broadcastTo", "f32[1048576,4194304]", "executors.test.ts"])
      expect((caught as HeddleError).message).toContain(part);
  });
});

test("a value in another layout than a program was compiled for is an error that names both", () => {
  const axes = mesh({ data: 2 });
  const runtime = localRuntime({ axes: axes.axes, executor: "reference" });
  const x = tensor([1, 2, 3, 4]);
  const whole = compileFunction((value: Tensor) => value.sum(), [x], runtime);
  const split = compileFunction((value: Tensor) => value.sum(), [x], runtime, {
    layouts: () => shardedOn(axes, { data: 0 }),
  });
  const parts = distribute(runtime, x.dataSync(), { dtype: "f32", shape: [4] }, shardedOn(axes, { data: 0 }));
  expect([split.run(parts).itemSync(), whole.run(x).itemSync()]).toEqual([10, 10]);
  expect(() => split.run(x)).toThrow(/'0' f32\[4\] is R, and was compiled as S\(0\)[\s\S]*distribute\(/);
  expect(() => whole.run(parts)).toThrow(/'0' f32\[4\] is S\(0\), and was compiled as R/);
  runtime.close();
});
