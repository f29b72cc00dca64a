/** Functions with the control flow that the transform turns. All also run as they are, on numbers. */
"use heddle";
import { type Tensor, tensor } from "heddle";

const isT = (x: unknown): x is Tensor => typeof x === "object";
/** Operators that take numbers and tensors alike, as a function that is to run on both needs them. */
const add = (x: Any, y: Any): Any => (isT(x) ? x.add(y) : isT(y) ? y.add(x) : x + y);
const mul = (x: Any, y: Any): Any => (isT(x) ? x.mul(y) : isT(y) ? y.mul(x) : x * y);

// biome-ignore lint/suspicious/noExplicitAny: numbers and tensors alike
type Any = any;

export const functions: { readonly [name: string]: (x: Any, n: Any) => Any } = {
  "if and else": (x) => {
    let y = x;
    if (x > 0) {
      y = mul(y, 2);
    } else y = add(y, -1);
    return y;
  },
  "if without else": (x) => {
    let y = 0;
    if (x > 0) y = x;
    return add(y, 1);
  },
  "else if": (x) => {
    let kind = 0;
    if (x > 1) kind = 2;
    else if (x > 0) kind = 1;
    else {
      kind = -1;
    }
    return kind;
  },
  "an early return": (x) => {
    if (x < 0) return -x;
    const y = mul(x, x);
    if (y > 4) {
      const z = add(y, 1);
      return z;
    }
    return add(y, x);
  },
  "nested returns": (x, n) => {
    if (x > 0) {
      if (n > 2) return 1;
      x = add(x, 10);
    }
    return x;
  },
  "a conditional expression": (x) => (x > 0 ? mul(x, 2) : x < -1 ? -1 : 0),
  "and, or, not": (x, n) => {
    if ((x > 0 && n > 1) || !(x > -2)) return 1;
    return 0;
  },
  while: (x, n) => {
    let count = 0;
    while (x < n) {
      x = add(mul(x, x), 1);
      count++;
    }
    return add(x, mul(count, 100));
  },
  "do while": (x, n) => {
    do {
      x = add(x, 2);
    } while (x < n);
    return x;
  },
  "while with break": (x, n) => {
    let i = 0;
    while (true) {
      x = add(x, 1.5);
      if (x > n) break;
      i += 1;
    }
    return add(x, mul(1000, i));
  },
  "for with break and continue": (x, n) => {
    let total = 0;
    for (let i = 0; i < 6; i++) {
      if (x > n) break;
      x = add(x, 1);
      if (i === 2) continue;
      total = add(total, x);
    }
    return add(x, mul(total, 100));
  },
  "for up to a tensor": (x, n) => {
    let total = 0;
    for (let i = 0; i < n; i++) {
      if (i % 2 === 1) continue;
      total = add(total, mul(x, i));
    }
    return total;
  },
  "a return from a loop": (x, n) => {
    for (let i = 1; i <= 5; i++) {
      x = mul(x, 1.5);
      if (x > n) return add(i, 0.5);
    }
    return -1;
  },
  "a return from a while": (x, n) => {
    while (x < 100) {
      x = add(mul(x, 2), 8);
      if (x > n) return add(x, 0.25);
    }
    return x;
  },
  "a return alone from an endless while": (x, n) => {
    while (true) {
      if (x > n) return add(x, 0.25);
      x = add(mul(x, x), 1);
    }
  },
  "a return alone from an endless for": (x, n) => {
    if (x < -2) x = 1;
    for (let i = 0; ; i++) {
      if (x > n) {
        if (i > 2) return -i;
        return i + 0.5;
      }
      x = add(x, 1);
    }
  },
  "a return alone from an endless do": (x, n) => {
    do {
      x = add(x, 1.5);
      if (x < 0) continue;
      if (x > n) return x;
    } while (
      // biome-ignore lint/correctness/noConstantCondition: that is the matter
      true
    );
  },
  "an endless while with a break and a return": (x, n) => {
    while (true) {
      if (x > n) return add(x, 0.25);
      if (x < -2) break;
      x = add(x, 1);
    }
    return x;
  },
  "a loop in a loop": (x, n) => {
    let total = 0;
    for (let i = 0; i < 3; i++) {
      let inner = x;
      while (inner < n) {
        inner = add(inner, 2);
        if (inner > 3) break;
      }
      total = add(total, inner);
    }
    return total;
  },
  "functions within, and what they close over": (x, n) => {
    const steps: (() => Any)[] = [];
    for (let i = 0; i < 3; i++) steps[i] = () => i;
    const limit = mul(n, 2);
    const grow = (y: Any): Any => {
      while (y < limit) y = add(y, 1);
      return y;
    };
    let total = grow(x);
    for (const step of steps) total = add(total, mul(step(), 10));
    return total;
  },
  "rows of a tensor": (x, n) => {
    let total = 0;
    const rows = isT(x) ? tensor([1, 2, 3, 4], { dtype: "f32" }) : [1, 2, 3, 4];
    for (const row of rows as Iterable<Any>) {
      if (total > n) break;
      if (row === 2) continue;
      total = add(total, mul(row, x));
    }
    return total;
  },
};
