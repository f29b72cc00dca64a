/** Transformed functions give the same on numbers (where they are plain JavaScript), on tensors, and on traced tensors. */
import { readFileSync } from "node:fs";
import { grad, HeddleError, jit, type Tensor, tensor, vmap } from "heddle";
import { describe, expect, it, test } from "vitest";
import { transformSource } from "../../src/adapters/autograph/index.ts";
import { effects } from "./effects.ts";
import { functions } from "./functions.ts";

// biome-ignore lint/suspicious/noExplicitAny: numbers and tensors alike
type Any = any;

// The same file, which the transform leaves alone.
const { functions: written } = (await import("./functions.ts?plain" as string)) as { functions: typeof functions };
const { effects: effectsPlain } = (await import("./effects.ts?plain" as string)) as { effects: typeof effects };

const cases: readonly (readonly [number, number])[] = [
  [-3, 2],
  [0.5, 3],
  [1.5, 4],
];
const number = (x: unknown): number => (typeof x === "number" ? x : (x as Tensor).itemSync());
const asTensor = (x: unknown): Tensor => (typeof x === "number" ? tensor(x) : (x as Tensor).cast("f32"));

describe("the same on numbers, on tensors and in a trace", () => {
  it.each(Object.keys(functions))("%s", (name) => {
    const [fn, plain] = [functions[name], written[name]] as [(typeof functions)[string], (typeof functions)[string]];
    expect(String(fn)).not.toBe(String(plain));
    const compiled = jit((x: Tensor, n: Tensor) => asTensor(fn(x, n)));
    for (const [x, n] of cases) {
      const expected = plain(x, n);
      expect(fn(x, n)).toBe(expected);
      expect(number(fn(tensor(x), tensor(n)))).toBeCloseTo(expected, 4);
      expect(number(compiled(tensor(x), tensor(n)))).toBeCloseTo(expected, 4);
    }
  });
});

describe("with other transforms", () => {
  it("gradients go through branches, and through rows of a tensor", () => {
    const branch = grad((x: Tensor) => asTensor(functions["an early return"]?.(x, 0)));
    // -x; x² + x; x² + 1.
    expect([-3, 1, 3].map((x) => branch(tensor(x)).itemSync())).toEqual([-1, 3, 6]);
    const rows = grad((x: Tensor) => asTensor(functions["rows of a tensor"]?.(x, tensor(3))));
    expect(rows(tensor(2)).itemSync()).toBe(4);
  });

  it("gradients go through a count that a tensor ends, and not through a while on a tensor", () => {
    const slope = (name: string) => grad((x: Tensor) => asTensor(functions[name]?.(x, tensor(2))));
    const counted = written["for with break and continue"] as (x: number, n: number) => number;
    for (const x of [-3.5, 0.5, 1.5]) {
      const quotient = (counted(x + 1e-4, 2) - counted(x - 1e-4, 2)) / 2e-4;
      expect(slope("for with break and continue")(tensor(x)).itemSync()).toBeCloseTo(quotient, 3);
    }
    expect(() => slope("while")(tensor(1)).itemSync()).toThrow(/has no gradient.*maxIterations/s);
  });

  it("batches take each its own way", () => {
    const xs = [-3, -0.5, 0.5, 1.5, 2.5];
    for (const name of [
      "an early return",
      "while",
      "for with break and continue",
      "a return alone from an endless while",
      "a return alone from an endless do",
    ]) {
      const fn = functions[name] as (typeof functions)[string];
      const found = vmap((x: Tensor) => asTensor(fn(x, tensor(2))))(tensor(xs)).dataSync();
      for (const [at, x] of xs.entries()) expect(found[at]).toBeCloseTo(written[name]?.(x, 2), 3);
    }
  });
});

describe("what cannot be turned is named, with its line", () => {
  const failure = (run: () => unknown): string => {
    try {
      run();
    } catch (error) {
      expect(error).toBeInstanceOf(HeddleError);
      return (error as HeddleError).message;
    }
    return "no error";
  };
  const one = tensor(1);

  const grows = (x: Tensor): Tensor => {
    "use heddle";
    let y = x.reshape([1]);
    while (y.sum().lt(8) as unknown as boolean)
      y = y
        .reshape([-1, 1])
        .broadcastTo([y.shape[0] as number, 2])
        .reshape([-1]);
    return y;
  };
  const writes = (x: Tensor): Tensor => {
    "use heddle";
    const box = { x };
    if (x.gt(0) as unknown as boolean) box.x = x.neg();
    return box.x;
  };
  const differs = (x: Tensor): unknown => {
    "use heddle";
    let kind = "none";
    if (x.gt(0) as unknown as boolean) kind = "some";
    return kind;
  };
  const nothing = (x: Tensor): Tensor | undefined => {
    "use heddle";
    if (x.gt(0) as unknown as boolean) return x;
    return undefined;
  };
  const switched = (x: Tensor): Tensor => {
    "use heddle";
    switch (1) {
      default:
        if (x.gt(0) as unknown as boolean) break;
        return x.neg();
    }
    return x;
  };
  const cases = (x: Any): Any => {
    "use heddle";
    switch (x) {
      case 1:
        return x * 10;
      default:
        return x * 20;
    }
  };
  const counted = (x: Any): Any => {
    "use heddle";
    let i = 0;
    while (i < x) i++;
    switch (i) {
      case 1:
        return x * 10;
    }
    return x;
  };
  const tested = (x: Any): Any => {
    "use heddle";
    switch (true) {
      case x > 5:
        return x * 10;
      case x > 0:
        return x * 20;
    }
    return x;
  };
  const recursive = (x: Any): Any => {
    "use heddle";
    if (x <= 1) return x;
    return x * recursive(x - 1);
  };
  const old = (x: Any): Any => {
    "use heddle";
    while (x > 1) {
      // biome-ignore lint/correctness/noInnerDeclarations: what is told of it is the matter
      var half = x / 2;
      x = half;
    }
    return x;
  };
  const wide = (x: Tensor): Tensor => {
    "use heddle";
    return (x.broadcastTo([2]).gt(0) as unknown as boolean) ? x : x.neg();
  };

  it.each([
    ["a shape that changes", grows, "'y' is f32[1] before an iteration and f32[2] after it"],
    ["a write to a property", writes, "a write to a property or an element (line"],
    ["a text", differs, `'kind' is `],
    ["a value in one case only", nothing, "has no value where it does not"],
    ["a break out of a switch", switched, "this if cannot depend on a tensor"],
    ["a switch", cases, "switch on f32[]: switch compares identity, and a tensor is not a number"],
    ["a switch on a count", counted, "switch on i32[]: switch compares identity"],
    ["a case", tested, "switch on bool[]: switch compares identity"],
    ["recursion", recursive, "recursion under a condition that is a tensor has no end"],
    ["a var", old, "this while with var inside, where let could be turned, cannot depend on a tensor"],
    ["several truth values", wide, "a condition must be one truth value, got bool[2]"],
    ["several truth values, and what to do", wide, "reduce it with all(condition) or any(condition)"],
  ] as const)("%s", (_name, fn, message) => {
    const text = failure(() => jit((x: Tensor) => (fn as (x: Tensor) => Tensor)(x))(one));
    expect(text).toContain(message);
    const line = Number(/autograph\.test\.ts:(\d+):/.exec(text)?.[1]);
    expect(line).toBeGreaterThan(60);
    // On a value that is there, all of them are JavaScript.
    if (![wide, grows, cases].includes(fn)) expect(failure(() => fn(one))).toBe("no error");
  });
});

test("a switch on what is no tensor is JavaScript's, and so is one that asks whether there is one", () => {
  const kind = (x: Any, n: Any): Any => {
    "use heddle";
    let found = 0;
    switch (typeof n === "number" ? n + 1 : n) {
      case 3:
        found = 11;
        break;
      case "text":
        found += 10;
        break;
      case true:
        found = 100;
    }
    switch (x) {
      case undefined:
        return -found;
    }
    switch (true) {
      case n === 2 && x > 0:
        return found + 0.5;
    }
    return found;
  };
  for (const x of [-1, 1])
    for (const [n, expected] of [
      [2, x > 0 ? 11.5 : 11],
      ["text", 10],
      [true, 100],
      [3, 0],
    ] as const) {
      expect([kind(x, n), kind(tensor(x), n)]).toEqual([expected, expected]);
      expect(kind(undefined, n)).toBe(-Math.trunc(expected));
      const traced = jit((y: Tensor) => asTensor(kind(y, n)));
      if (n !== 2) expect(traced(tensor(x)).itemSync()).toBe(expected);
      else expect(() => traced(tensor(x))).toThrow(/switch on bool\[\].*autograph\.test\.ts/s);
    }
});

describe("effects of a branch", () => {
  it.each(Object.entries(effects))("%s", async (name, { run, refused }) => {
    const source = String(effectsPlain[name]?.run);
    expect(source).not.toBe(String(run));
    for (const x of [-1, 1]) {
      const expected = attempt(() => effectsPlain[name]?.run(x, x > 0));
      // Decided by JavaScript within a trace, by the value of a tensor, and by a number.
      expect(attempt(() => run(x, x > 0))).toEqual(expected);
      expect(attempt(() => run(tensor(x), tensor(x).gt(0)))).toEqual(expected);
      expect(attempt(() => jit((y: Tensor) => asTensor(run(y, x > 0)))(tensor(x)))).toEqual(expected);
    }
    const traced = attempt(() => jit((y: Tensor) => asTensor(run(y, y.gt(0))))(tensor(-1)));
    if (refused === undefined) expect(traced).toEqual(attempt(() => run(-1, false)));
    else {
      expect(traced).toContain(refused);
      const [, line, column] = /effects\.ts:(\d+):(\d+)/.exec(String(traced)) ?? [];
      const text = readFileSync(new URL("./effects.ts", import.meta.url), "utf8").split("\n")[Number(line) - 1];
      expect(text?.slice(Number(column) - 1)).toContain(`// ${name}`);
    }
  });

  it("an error of another function in a branch is not caught around it, as nobody knows whether it is thrown", () => {
    const outside = (x: Tensor): Tensor => {
      "use heddle";
      try {
        if (x.gt(0) as unknown as boolean) x = x.add(Number((1).toFixed(200)));
      } catch {
        x = x.add(100);
      }
      return x;
    };
    expect(outside(tensor(1)).itemSync()).toBe(101);
    expect(attempt(() => jit(outside)(tensor(-1)))).toMatch(/digits/);
  });

  /** The number that a function gives, or the text of what it throws. */
  function attempt(fn: () => unknown): unknown {
    try {
      return number(fn());
    } catch (error) {
      return (error as Error).message;
    }
  }
});

test("what JavaScript keeps compares as it did", async () => {
  const halved = async (x: Any): Promise<Any> => {
    "use heddle";
    while (x > 1) x = (await x) / 2;
    if (x < 1 && (await true)) return x;
    return -1;
  };
  expect([await halved(6), (await halved(tensor(6))).itemSync()]).toEqual([0.75, 0.75]);
});

test("lines stay, and files that do not ask stay as they are", () => {
  const source = [
    '"use heddle";',
    "export const f = (x: number, n: number): number => {",
    "  // a comment, and a condition",
    "  // of several lines",
    "  for (",
    "    let i = 0;",
    "    i < n;",
    "    i++",
    "  ) {",
    "    if (x > 3)",
    "      return x;",
    "    x++;",
    "  }",
    "  return marker(x);",
    "};",
  ];
  const made = transformSource(source.join("\n"), "/a/file.ts")?.code.split("\n") ?? [];
  expect(made.findIndex((line) => line.includes("marker("))).toBe(13);
  expect(transformSource("export const x = 1 ? 2 : 3;", "/a/file.ts")).toBeUndefined();
  expect(() => transformSource('"use heddle"; if (', "/a/file.ts")).toThrow(/file\.ts:1:/);
});
