/** Conditions outside of "use heddle", in a file that is transformed as `heddle run` transforms it. */
import assert from "node:assert";
import { all, gt, jit, type Tensor, tensor } from "heddle";
import { describe, expect, it, test } from "vitest";
import { transformSource } from "../../src/adapters/autograph/index.ts";

const x = tensor([1, -2]);
/** A tensor as TypeScript takes it for a condition. */
const bool = (test: Tensor): boolean => test as unknown as boolean;
// biome-ignore lint/suspicious/noExplicitAny: what JavaScript takes
type Any = any;
const none: unknown = undefined;

describe("a tensor that decides is refused by its line", () => {
  const over = x.gt(0);
  const held = { done: x.gt(0), loss: 1 };
  it.each<[string, () => unknown]>([
    ["? :", () => (x.gt(0) ? x : x.neg())],
    ["? :", () => (over ? 1 : 2)],
    ["? :", () => ((all(x.gt(0)) as Any) ? 1 : 2)],
    ["? :", () => (bool(gt(x, 0)) ? 1 : 2)],
    ["? :", () => ((x as Tensor | undefined)?.lt(1) ? 1 : 2)],
    ["&&", () => x.lt(1) && 1],
    ["||", () => x.lt(1) || 1],
    ["||", () => none || x.lt(1) || 1],
    ["!", () => !x.eq(1)],
    ["===", () => (x.ne(1) as Any) === true],
    ["Boolean", () => Boolean(x.ge(1))],
    ["&&", () => held.done && 1],
    [".filter", () => [1].filter((one) => bool(x.gt(one)))],
    [".some", () => [1].some((one) => bool(x.gt(one)) || one > 2)],
    [
      ".findIndex",
      () =>
        [1].findIndex((one) => {
          const y = x.mul(one);
          return bool(y.gt(0));
        }),
    ],
    ["assert", () => assert(x.le(1))],
    ["assert.ok", () => assert.ok(over)],
  ])("%s", (what, decide) => {
    const message = new RegExp(
      `^${what.replace(/[?|.]/g, "\\$&")} on bool\\[2?\\]: a tensor is an object.*conditions\\.test\\.ts:\\d+:\\d+`,
      "s",
    );
    expect(decide).toThrow(message);
    expect(
      jit(() => {
        decide();
        return x;
      }),
    ).toThrow(message);
  });

  it("not a call that says it may give nothing", () => {
    const causal = (n: number): Tensor | undefined => (n > 1 ? x.gt(0) : undefined);
    class Store {
      mask(): Tensor | null {
        return causal(2) ?? null;
      }
    }
    expect([causal(2) ? 1 : 0, causal(1) ? 1 : 0, new Store().mask() ? 1 : 0]).toEqual([1, 0, 1]);
  });

  it("not a name that stands for something else, too", () => {
    const mask = x.gt(0);
    const attend = (mask?: Tensor): string => (mask ? "masked" : "whole");
    let later: Tensor | undefined = x.gt(1);
    const seen = [attend(mask), attend(), later ? 1 : 0];
    later = undefined;
    expect([...seen, later ? 1 : 0]).toEqual(["masked", "whole", 1, 0]);
  });

  it("statements too, also those that wait", async () => {
    const later = async (): Promise<Tensor> => x.gt(0);
    const said = (run: () => unknown): string => {
      try {
        run();
      } catch (error) {
        return `${(error as Error).message}`.replaceAll(/ on [\s\S]*/g, "");
      }
      return "";
    };
    const statements = [
      () => {
        if (x.lt(1)) return;
      },
      () => {
        while (bool(x.lt(1))) break;
      },
      () => {
        let count = 0;
        do count++;
        while (count < 1 || bool(x.lt(1)));
      },
      () => {
        for (; bool(x.lt(1)); ) break;
      },
      () => {
        switch (bool(x.lt(1))) {
        }
      },
    ];
    expect(statements.map(said)).toEqual(["if", "while", "do", "for", "switch"]);
    await expect(async () => ((await later()) ? 1 : 2)).rejects.toThrow(/\? : on bool\[2\]/);
  });
});

test("members that may be left out, and results that are only asked for, stay JavaScript's", () => {
  const given: { mask?: Tensor } = { mask: x.gt(0) };
  const later = { mask: x.gt(0) as Tensor | undefined };
  const gone = { mask: x.gt(0) as Any };
  const seen = [given.mask ? 1 : 0, later.mask ? 1 : 0, gone.mask ? 1 : 0];
  later.mask = undefined;
  delete gone.mask;
  const masks = new Map([["a", x.gt(0)]]);
  expect([...seen, later.mask ? 1 : 0, ["a", "b"].filter((name) => masks.get(name))]).toEqual([1, 1, 1, 0, ["a"]]);
  expect([[1].filter((one) => one > 0), [x].find((one) => one.shape[0] === 2)]).toEqual([[1], x]);
});

test("what is no truth of a tensor stays JavaScript's", () => {
  const masks = new Map([["a", x.gt(0)]]);
  const bias = (): Tensor | undefined => x;
  class Version {
    gt(other: number): boolean {
      return other < 1;
    }
    equals = (): Version => this;
  }
  const version = new Version();
  const newer = version.gt(0);
  expect(masks.get("a") ? 1 : 2).toBe(1);
  expect(bias() ? 1 : 2).toBe(1);
  expect([version.gt(0) ? 1 : 2, version.gt(1) ? 1 : 2, newer ? 1 : 2, version.equals() && 1]).toEqual([1, 2, 1, 1]);
  expect(none || [1].find((one) => one > 0)).toBe(1);
});

test("files that do not import from heddle, cannot be parsed or have no condition stay as they are", () => {
  const decides = "if (x.gt(0)) y();";
  expect(transformSource(decides, "a.ts")).toBeUndefined();
  expect(transformSource('import "heddle"; if (', "a.ts")).toBeUndefined();
  expect(transformSource('import { x } from "heddle"; if (x) y();', "a.ts")).toBeUndefined();
  const made = transformSource(`import { x } from "heddle/nn";\n${decides}`, "a.ts")?.code;
  expect(made).toContain('\nif ($condition(x.gt(0), "if", $at("2:5"))) y();\nfunction $condition(');
  expect(made).not.toContain("heddle/autograph");
});
