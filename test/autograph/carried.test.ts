/** Plain numbers that rows, jumps, branches, trees and closures of a traced function carry: the same as on numbers. */
import { grad, jit, maxIterations, tensor, vmap } from "heddle";
import { expect, test } from "vitest";

// biome-ignore lint/suspicious/noExplicitAny: numbers and tensors alike
type Any = any;
const i32 = { dtype: "i32" } as const;
const cases: Record<string, [(x: Any, n: Any) => Any, Any, Any]> = {
  rows: [
    (x, n) => {
      "use heddle";
      let i = 0;
      let total: Any = 0;
      for (const row of x) {
        total = total + row * i;
        i++;
        if (i > n) break;
      }
      return total * 10 + i;
    },
    [1, 2, 3, 4],
    2,
  ],
  best: [
    (x, n) => {
      "use heddle";
      let best = -1;
      let most: Any = -1e9;
      let i = 0;
      for (const row of x) {
        if (row > most) {
          best = i;
          most = row;
        }
        i += 1;
      }
      return best + n * 0;
    },
    [1, 7, 3, 4],
    2,
  ],
  half: [
    (x, n) => {
      "use heddle";
      let i = 0;
      while (i < n) {
        i++;
        if (i > 3) i += 0.5;
      }
      return i + x * 0;
    },
    1,
    9,
  ],
  tree: [
    (x, n) => {
      "use heddle";
      let s = { i: 0, list: [1, 2] as Any[] };
      while (s.i < n) s = { i: s.i + 1, list: [s.list[1], s.list[0] + s.list[1]] };
      return s.list[1] + x * 0;
    },
    1,
    9,
  ],
  endless: [
    (x, n) => {
      "use heddle";
      let k = 3;
      while (true) {
        k -= 1;
        x = x + k;
        if (x > n || k === 0) break;
      }
      return x * 10 + k;
    },
    1,
    5,
  ],
  early: [
    (x, n) => {
      "use heddle";
      for (let i = 0; i < n; i++) {
        x = x * 1.5;
        if (x > 4) return i;
      }
      return -1;
    },
    1,
    5,
  ],
  earlyFraction: [
    (x, n) => {
      "use heddle";
      for (let i = 0; i < n; i++) {
        x = x * 1.5;
        if (x > 4) return i;
      }
      return 0.5;
    },
    1,
    2,
  ],
  closure: [
    (x, n) => {
      "use heddle";
      let i = 0;
      const twice = () => i * 2;
      let t = 0;
      while (i < n) {
        i++;
        t += twice();
      }
      return t + x * 0;
    },
    1,
    5,
  ],
  swap: [
    (x, n) => {
      "use heddle";
      let a = 16;
      let b = 3;
      let t = 0;
      while (t < n) {
        const c = a;
        a = b / 2;
        b = c;
        t++;
      }
      return a * 100 + b + x * 0;
    },
    1,
    5,
  ],
  minus: [
    (x, n) => {
      "use heddle";
      let sign = 1;
      let t = 0;
      let s: Any = 0;
      while (t < n) {
        s = s + sign * t;
        sign = -sign;
        t++;
      }
      return s + x * 0;
    },
    1,
    5,
  ],
  down: [
    (x, n) => {
      "use heddle";
      let i = 10;
      do {
        i--;
      } while (i > n);
      return i + x * 0;
    },
    1,
    5,
  ],
  cond: [
    (x, n) => {
      "use heddle";
      const k = x > 0 ? (n > 3 ? 1 : 2) : 3;
      return k * 10 + k / 4;
    },
    1,
    5,
  ],
  ifcount: [
    (x, n) => {
      "use heddle";
      let k = 3;
      while (k) {
        k--;
        x = x + 1;
      }
      let j = 0;
      while (j < n) j++;
      if (j) x = x * 2;
      return !j ? -x : x;
    },
    1,
    5,
  ],
};
test.each(Object.entries(cases))("%s", async (_n, [fn, x, n]) => {
  const expected = fn(x, n);
  const f = jit((a: Any, b: Any) => {
    const r = fn(a, b);
    return typeof r === "number" ? tensor(r) : r;
  });
  expect(await f(tensor(x, { dtype: "f32" }), tensor(n)).item()).toBeCloseTo(expected, 5);
  expect(await f(tensor(x, { dtype: "f32" }), tensor(n, i32)).item()).toBeCloseTo(expected, 5);
});
test("gradients and batches go through a count", () => {
  const pow = (x: Any, n: Any): Any => {
    "use heddle";
    let y: Any = 1;
    for (let i = 0; i < n; i++) {
      maxIterations(9);
      y = y * x;
    }
    return y;
  };
  expect(grad((x: Any) => pow(x, tensor(3, i32)))(tensor(2)).itemSync()).toBe(12);
  expect(vmap((x: Any) => pow(x, tensor(3, i32)))(tensor([1, 2, 3])).arraySync()).toEqual([1, 8, 27]);
  expect(vmap((n: Any) => pow(tensor(2), n))(tensor([1, 2, 3], i32)).arraySync()).toEqual([2, 4, 8]);
});
