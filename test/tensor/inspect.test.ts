import { inspect } from "node:util";
import { jit, mesh, Tensor, tensor, zeros } from "heddle";
import { describe, expect, test } from "vitest";
import { distributedValue } from "../../src/compile/value.ts";
import { localRuntime } from "../../src/executors/runtime.ts";

const matrix = tensor([
  [1, 2.5],
  [-3, 1 / 3],
]);

describe("a tensor in console.log and in a REPL", () => {
  test.each([
    ["a scalar", tensor(2.5), "tensor<f32[]> 2.5"],
    ["a vector", tensor([1, 2, 3], { dtype: "i32" }), "tensor<i32[3]> [1, 2, 3]"],
    ["a matrix, a row to a line", matrix, "tensor<f32[2,2]> [[1, 2.5],\n                  [-3, 0.333333]]"],
    ["bool", tensor([1, 2]).gt(1), "tensor<bool[2]> [false, true]"],
    ["special values", tensor([Number.NaN, -Infinity, -0]), "tensor<f32[3]> [NaN, -Infinity, -0]"],
    ["nothing at all", zeros([0]), "tensor<f32[0]> []"],
  ])("%s", (_name, value, text) => {
    expect(inspect(value)).toBe(text);
    expect(inspect({ deep: { deeper: { deepest: value } } }, { depth: 0 })).not.toContain("shards");
  });

  test("an empty line separates matrices, and large tensors are abbreviated to three elements at each end", () => {
    expect(
      inspect(zeros([2, 1, 2]))
        .split("\n")
        .map((line) => line.trim()),
    ).toEqual(["tensor<f32[2,1,2]> [[[0, 0]],", "", "[[0, 0]]]"]);
    const lines = inspect(zeros([100, 100])).split("\n");
    expect(lines).toHaveLength(7);
    expect(lines[0]).toBe("tensor<f32[100,100]> [[0, 0, 0, ..., 0, 0, 0],");
    expect(lines[3]?.trim()).toBe("...,");
    expect(inspect(zeros([1000])).split(",")).toHaveLength(1000);
  });

  test("what has no values says why, and is neither read nor waited for", () => {
    let traced = "";
    jit((x: Tensor) => {
      traced = inspect(x);
      return x.add(1);
    })(matrix);
    expect(traced).toBe("tensor<f32[2,2]> (part of a function being traced)");

    const disposed = tensor([1]);
    disposed.dispose();
    expect(inspect(disposed)).toBe("tensor<f32[1]> (it was disposed)");
    expect(inspect(zeros([3000, 3000]))).toBe("tensor<f32[3000,3000]> (too large to show; await data())");

    const shards = [{ ...heldBuffer, ready: false }];
    const pending = { ...matrix.value, shards };
    expect(inspect(Tensor.ofValue(pending))).toBe("tensor<f32[2,2]> (being computed; await data())");
  });

  test("values cut over virtual devices are put together; over other processes they are not fetched", () => {
    const { axes } = mesh({ data: 2 });
    const runtime = localRuntime({ axes, executor: "reference" });
    const type = { dtype: "f32", shape: [2] } as const;
    const value = distributedValue(runtime, type, [{ kind: "shard", dim: 0 }], Float32Array.of(1, 2));
    expect(inspect(Tensor.ofValue(value))).toBe("tensor<f32[2]> [1, 2]");
    const part = {
      ...value,
      runtime: { ...runtime, local: runtime.local.slice(0, 1) },
      shards: value.shards.slice(0, 1),
    };
    expect(inspect(Tensor.ofValue(part))).toBe("tensor<f32[2]> (S(0): this process holds a part)");
  });
});

/** A buffer whose contents cannot be had: reading it would fail the test. */
const fail = (): never => {
  throw new Error("it was read");
};
const heldBuffer = { bytes: 16, ready: true, write: fail, read: fail, readSync: fail, dispose: () => undefined };
