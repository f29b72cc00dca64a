import { describe, expect, test } from "vitest";
import { concat, jit, random, type Tensor, tensor } from "../../src/functions/index.ts";

describe("programs are told apart by their static arguments", () => {
  test("eager functions called with other static arguments", () => {
    const [a, b] = [tensor([[1, 2]]), tensor([[3, 4]])];
    expect(concat([a, b], 0).shape).toEqual([2, 2]);
    expect(concat([a, b], 1).shape).toEqual([1, 4]);
    const key = random.key(1);
    const one = [1, 2].map((bound) => random.uniform(key, [1], { min: bound, max: bound }).itemSync());
    expect(one).toEqual([1, 2]);
  });

  test("jit with static arguments that print alike", () => {
    class Setting {
      readonly factor: number;
      constructor(factor: number) {
        this.factor = factor;
      }
    }
    const scaled = jit((x: Tensor, setting: Setting) => x.mul(setting.factor));
    expect([2, 3].map((factor) => scaled(tensor(1), new Setting(factor)).itemSync())).toEqual([2, 3]);
    const counted = jit((x: Tensor, names: readonly string[]) => x.mul(names.length));
    expect([["a,string:b"], ["a", "b"]].map((names) => counted(tensor(1), names).itemSync())).toEqual([1, 2]);
    const divided = jit((x: Tensor, by: number) => x.div(by));
    expect([0, -0].map((by) => divided(tensor(1), by).itemSync())).toEqual([Infinity, -Infinity]);
  });

  test("a tensor in a comparison is an error, not false", () => {
    const branch = jit((x: Tensor) => ((x as unknown as number) > 0 ? x : x.neg()));
    expect(() => branch(tensor(1))).toThrow("cannot be used as a number or in a comparison");
    expect(`${tensor([1, 2])}`).toBe("Tensor(f32[2])");
  });
});
