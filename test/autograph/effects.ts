/** Functions with effects within a branch or a loop. What a tensor may not decide says so in a comment on its line: its name. */
"use heddle";
import { all, any, type Tensor } from "heddle";

// biome-ignore lint/suspicious/noExplicitAny: numbers and tensors alike
type Any = any;

export interface Effect {
  readonly run: (x: Any, go: Any) => Any;
  /** What is said where a traced tensor decides; undefined where it may. */
  readonly refused?: string;
}

const isT = (x: unknown): x is Tensor => typeof x === "object";
const call = "a call whose result is not used";
const value = "an expression whose value is not used cannot depend on a tensor";
const counter = () => {
  let n = 0;
  return { inc: () => (n += 10), n: () => n };
};
const fail = (): number => {
  throw new RangeError("failed");
};

export const effects: { readonly [name: string]: Effect } = {
  "a closure that counts, whose result is used": {
    refused: "inc(), which changes n",
    run: (x, go) => {
      let n = 0;
      let m = 0;
      const inc = () => {
        n = n + 10;
        return n;
      };
      if (go) {
        m = inc(); // a closure that counts, whose result is used
      }
      return x * 0 + n + m;
    },
  },
  "a closure that counts what the branch assigns too": {
    run: (x, go) => {
      let n = 0;
      const inc = () => {
        n = n + 10;
        return n;
      };
      if (go) {
        n = 1;
        n = inc() + 1;
      }
      return x * 0 + n;
    },
  },
  "a map's set, whose result is used": {
    refused: "set()",
    run: (x, go) => {
      const map = new Map([["a", 1]]);
      let size = 0;
      if (go) {
        size = map.set("b", 100).size; // a map's set, whose result is used
      }
      return x * 0 + map.size + size;
    },
  },
  "a closure that counts": {
    refused: call,
    run: (x, go) => {
      let n = 0;
      const inc = () => {
        n = n + 10;
      };
      if (go) inc(); // a closure that counts
      return x * 0 + n;
    },
  },
  "a map's set": {
    refused: call,
    run: (x, go) => {
      const map = new Map([["a", 1]]);
      if (go) {
        map.set("a", 100); // a map's set
      }
      return x * 0 + (map.get("a") as number);
    },
  },
  "an array's reverse, in else": {
    refused: call,
    run: (x, go) => {
      const list = [1, 2];
      if (go) x = x * 2;
      else list.reverse(); // an array's reverse, in else
      return x + (list[0] as number);
    },
  },
  "fill, by an optional call": {
    refused: call,
    run: (x, go) => {
      const list: Any = [1, 2];
      if (go) list?.fill(x * 2); // fill, by an optional call
      return list[0] + x;
    },
  },
  "what follows a return": {
    refused: call,
    run: (x, go) => {
      const { inc, n } = counter();
      if (go) return x;
      inc(); // what follows a return
      return x * 0 + n();
    },
  },
  "a loop's body": {
    refused: call,
    run: (x, go) => {
      const { inc, n } = counter();
      while (go) {
        inc(); // a loop's body
        x = x - 3;
        go = isT(go) ? x > 0 : false;
      }
      return x * 0 + n();
    },
  },
  "a loop's update": {
    refused: call,
    run: (x, go) => {
      const { inc, n } = counter();
      for (; go; x = x - 3, go = isT(go) ? x > 0 : false, inc()); // a loop's update
      return x * 0 + n();
    },
  },
  "a call whose result void drops": {
    refused: call,
    run: (x, go) => {
      const { inc, n } = counter();
      if (go) void inc(); // a call whose result void drops
      return x + n();
    },
  },
  "and instead of if": {
    refused: value,
    run: (x, go) => {
      const { inc, n } = counter();
      go && inc(); // and instead of if
      return x * 0 + n();
    },
  },
  "a conditional expression instead of if": {
    refused: value,
    run: (x, go) => {
      const { inc, n } = counter();
      go ? inc() : n(); // a conditional expression instead of if
      return x * 0 + n();
    },
  },
  "an assignment after and": {
    refused: "&& that assigns or awaits cannot depend on a tensor",
    run: (x, go) => {
      let n = 0;
      const both: Any = go && n++ >= 0; // an assignment after and
      return x * 0 + n + Number(both);
    },
  },
  throw: {
    refused: "throw under a condition that is a tensor: Error: too large",
    run: (x, go) => {
      if (go) throw new Error("too large"); // throw
      return x;
    },
  },
  "throw after a return": {
    refused: "throw under a condition that is a tensor: Error: too small",
    run: (x, go) => {
      if (go) return x;
      throw new Error("too small"); // throw after a return
    },
  },
  "throw that is caught outside": {
    refused: "throw under a condition that is a tensor: text",
    run: (x, go) => {
      try {
        if (go) throw "text"; // throw that is caught outside
      } catch {
        x = x + 100;
      }
      return x;
    },
  },
  "a call that is caught outside": {
    refused: call,
    run: (x, go) => {
      const { inc, n } = counter();
      try {
        if (go) inc(); // a call that is caught outside
        // biome-ignore lint/suspicious/noExplicitAny: an unknown has no properties to bind
      } catch ({ message }: any) {
        return message.length;
      }
      return x + n();
    },
  },
  "throw that is caught within": {
    run: (x, go) => {
      if (go) {
        try {
          throw new RangeError("4");
        } catch (error) {
          x = x + Number((error as Error).message);
        }
      }
      return x;
    },
  },
  "throw and a throwing function that a plain condition leaves out": {
    run: (x, go) => {
      const n = 2;
      if (go) return x;
      if (n < 0) throw new Error(`n is ${n}`);
      const least = n < 0 ? fail() : n;
      switch (least) {
        case 2:
          return x + 2;
        default:
          throw new Error("no such case");
      }
    },
  },
  "printing, and results that are used": {
    run: (x, go) => {
      const twice = (y: Any): Any => y * 2;
      if (go) {
        console.debug();
        x = twice(x);
      }
      return x;
    },
  },
  "several truth values, reduced as the hint says": {
    run: (x, go) => {
      const wide = isT(go) ? go.broadcastTo([2]) : go;
      if (isT(wide) ? all(wide) : wide) return x * 2;
      if (isT(wide) ? any(wide) : wide) return x * 3;
      return x * 4;
    },
  },
};
