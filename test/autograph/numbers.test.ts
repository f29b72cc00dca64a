/** Plain numbers that a traced tensor changes: they count, compare and divide as JavaScript's, and come out as i32 or f32. */
import { all, dynamicSlice, jit, jvp, Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";

// biome-ignore lint/suspicious/noExplicitAny: numbers and tensors alike
type Any = any;
const i32 = { dtype: "i32" } as const;

/** Each with the argument, which is a tensor in the trace, and the dtype of what comes out of that. */
const numbers: readonly (readonly [name: string, run: (n: Any) => Any, n: number, dtype: string])[] = [
  [
    "a counter beyond 2^24, up to an integer",
    (n) => {
      "use heddle";
      let i = 2 ** 24 - 2;
      while (i < n) i++;
      return i;
    },
    2 ** 24 + 3,
    "i32",
  ],
  [
    "the same in a for, by twos, and a sum of it",
    (n) => {
      "use heddle";
      let total = 0;
      for (let i = 2 ** 24; i < n; i += 2) total += i;
      return total;
    },
    2 ** 24 + 7,
    "i32",
  ],
  [
    "a count in a branch of a loop",
    (n) => {
      "use heddle";
      let odd = 0;
      for (let i = 0; i < n; i++) if (i % 2 === 1) odd++;
      return odd;
    },
    7,
    "i32",
  ],
  [
    "a remainder as a truth value",
    (n) => {
      "use heddle";
      let even = 0;
      for (let i = 0; i < n; i++) {
        if (i % 2) continue;
        if (!(i % 4) || (i && i > 5)) even++;
      }
      return even;
    },
    9,
    "i32",
  ],
  [
    "a quotient has its fraction",
    (n) => {
      "use heddle";
      let sum = 0;
      for (let i = 0; i < n; i++) sum += i / 4;
      return sum;
    },
    4,
    "f32",
  ],
  [
    "a whole number that is divided becomes one with a fraction",
    (n) => {
      "use heddle";
      let step = 16;
      while (step > n) step = step / 4;
      return step;
    },
    0.3,
    "f32",
  ],
  [
    "a whole number that is halved by a product",
    (n) => {
      "use heddle";
      let step = 1024;
      while (step > n) step *= 0.5;
      return step;
    },
    0.3,
    "f32",
  ],
  [
    "a product that grows beyond i32",
    (n) => {
      "use heddle";
      let size = 1;
      while (size < n) size *= 2;
      return size;
    },
    1e12,
    "f32",
  ],
  [
    "a product within an iteration, as an index",
    (n) => {
      "use heddle";
      let last = 0;
      for (let i = 0; i < n; i++) last = (i * 3 + 1) % 5;
      return last;
    },
    4,
    "i32",
  ],
  [
    "a remainder by 0 is NaN",
    (n) => {
      "use heddle";
      let i = 0;
      while (i < n) i++;
      return i % 0;
    },
    2,
    "f32",
  ],
  [
    "one of two numbers, one with a fraction",
    (n) => {
      "use heddle";
      return n > 2 ? 1 : 0.5;
    },
    1,
    "f32",
  ],
  [
    "one of two numbers, one too large for i32",
    (n) => {
      "use heddle";
      return n > 2 ? 2 ** 31 : 1;
    },
    3,
    "f32",
  ],
  [
    "-0",
    (n) => {
      "use heddle";
      return 1 / (n > 2 ? -0 : 1);
    },
    3,
    "f32",
  ],
  [
    "counts compared with fractions, and with each other",
    (n) => {
      "use heddle";
      let i = 0;
      let j = 9;
      while (i < n && i < 6.5) {
        i += 1;
        j -= 2;
        if (i === j) i += 100;
      }
      return i - -j;
    },
    20,
    "i32",
  ],
  [
    "counts of a loop in a loop",
    (n) => {
      "use heddle";
      let total = 0;
      for (let i = 0; i < n; i++) for (let j = i; j < n; j++) total += j - i;
      return total;
    },
    5,
    "i32",
  ],
];

describe("numbers that a tensor changes", () => {
  test.each(numbers)("%s", (_name, run, n, dtype) => {
    const expected = run(n);
    const given = tensor(n, Number.isInteger(n) && Math.abs(n) < 2 ** 31 ? i32 : {});
    const found = jit(run)(given);
    expect(found.dtype).toBe(dtype);
    expect(found.itemSync()).toBe(expected);
    expect(Number(run(given) instanceof Tensor ? run(given).itemSync() : run(given))).toBe(expected);
  });

  test("a count is exact beside f32, and takes the dtype of what it is added to", () => {
    const upTo = (n: Any): Any => {
      "use heddle";
      let i = 2 ** 24 - 1;
      while (i < n) i++;
      return i;
    };
    expect(jit(upTo)(tensor(2 ** 24 + 2)).itemSync()).toBe(2 ** 24 + 2);
    const sum = (x: Any, n: Any): Any => {
      "use heddle";
      let total = 0;
      for (let i = 0; i < n; i++) total = total + x * i;
      return total;
    };
    expect(jit(sum)(tensor(0.5), tensor(4)).itemSync()).toBe(3);
    const { tangent } = jvp((x: Tensor) => sum(x, tensor(4, i32)), [tensor(0.5)], [tensor(1)]);
    expect(tangent.itemSync()).toBe(6);
    expect(jit(sum)(tensor(1, { dtype: "bf16" }), tensor(4)).dtype).toBe("bf16");
    expect(jit(sum)(tensor(3, { dtype: "i64" }), tensor(4)).dtype).toBe("i64");
  });

  test("a count is an index", () => {
    const rows = (x: Any, n: Any): Any => {
      "use heddle";
      let total: Any = 0;
      for (let i = 0; i < n; i++) total = total + dynamicSlice(x, [i], [1]).sum();
      return total;
    };
    expect(jit(rows)(tensor([1, 10, 100]), tensor(2)).itemSync()).toBe(11);
  });
});

describe("operators of JavaScript that tensors have under other names", () => {
  const x = tensor([1, Number.NaN, 3]);
  const failure = (run: () => unknown): string => {
    try {
      run();
    } catch (error) {
      return (error as Error).message;
    }
    return "";
  };

  test("x !== x asks for NaN, x == 3 and x != 3 compare by value", () => {
    const isNaN = (y: Any): Any => {
      "use heddle";
      // biome-ignore lint/suspicious/noSelfCompare: the question is whether that finds NaN
      return y !== y;
    };
    const isThree = (y: Any): Any => {
      "use heddle";
      // biome-ignore lint/suspicious/noDoubleEquals: it is what is asked
      return [y == 3, y != 3];
    };
    expect(isNaN(Number.NaN)).toBe(true);
    for (const fn of [isNaN, jit(isNaN)]) expect(fn(x).arraySync()).toEqual([false, true, false]);
    for (const fn of [isThree, jit(isThree)]) {
      const [equal, other] = fn(x);
      expect([equal.arraySync(), other.arraySync()]).toEqual([
        [false, false, true],
        [true, true, false],
      ]);
    }
    expect(isThree("3")).toEqual([true, false]);
    expect(all(isThree(tensor(3))[0]).itemSync()).toBe(1);
  });

  test.each<readonly [string, (y: Any, z: Any) => unknown, string, unknown]>([
    [
      "===",
      (y, z) => {
        "use heddle";
        return y === z;
      },
      "x.eq(y)",
      false,
    ],
    [
      "!= of a tensor and itself under another name",
      (y) => {
        "use heddle";
        const z = y;
        // biome-ignore lint/suspicious/noDoubleEquals: it is what is asked
        return y != z;
      },
      "x.ne(y)",
      false,
    ],
    [
      "+",
      (y) => {
        "use heddle";
        return +y;
      },
      "x.cast(",
      6,
    ],
    [
      "&",
      (y, z) => {
        "use heddle";
        return y & z;
      },
      "and(x, y)",
      2,
    ],
    [
      "|=",
      (y, z) => {
        "use heddle";
        let w = 1;
        w |= y + z;
        return w;
      },
      "or(x, y)",
      9,
    ],
    [
      ">>>",
      (y) => {
        "use heddle";
        return y >>> 1;
      },
      "shiftRightLogical(x, y)",
      3,
    ],
    [
      "~",
      (y) => {
        "use heddle";
        return ~y;
      },
      "x.not()",
      -7,
    ],
  ])("%s names the method", (operator, run, method, plain) => {
    expect(run(6, 3)).toBe(plain);
    const message = failure(() => run(tensor([6], i32), tensor([3], i32)));
    expect(message).toContain(`${operator.split(" ")[0]?.replace("|=", "|")} o`);
    expect(message).toContain(method);
    expect(message).toMatch(/at .*numbers\.test\.ts:\d+:\d+/);
  });
});
