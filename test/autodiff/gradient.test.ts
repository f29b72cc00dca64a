import { describe, expect, it } from "vitest";
import { gradients, pullback } from "../../src/autodiff/index.ts";
import { inputSpecs, traceGraph } from "../../src/ir/graph.ts";
import type { HostTensor, Node } from "../../src/ir/node.ts";
import { positionOf } from "../../src/ir/trace.ts";
import { topological } from "../../src/ir/walk.ts";
import { describePosition } from "../../src/util/source.ts";
import { leNetGradient, smallLeNet } from "../support/lenet.ts";
import * as ops from "../support/nodes.ts";
import { checkGradient, gradientSum } from "../support/row.ts";
import { difference, makeTensor } from "../support/tensors.ts";

const f64 = (shape: readonly number[], seed: number, low = -1, high = 1): HostTensor =>
  makeTensor({ dtype: "f64", shape, values: { low, high, seed } });
const labels = (count: number, classes: number): HostTensor =>
  makeTensor({ dtype: "i32", shape: [count], values: { low: 0, high: classes, seed: 3 } });

const run = (inputs: readonly HostTensor[], body: (...inputs: Node[]) => readonly Node[]): number[][] => {
  const specs = inputs.map(({ dtype, shape }, index) => ({ name: `x${index}`, type: { dtype, shape } }));
  return ops.evaluateGraph(traceGraph("g", specs, body), inputs).map(({ data }) => [...data]);
};

describe("gradients of compositions", () => {
  const cases: readonly (readonly [string, readonly HostTensor[], (...inputs: Node[]) => Node])[] = [
    [
      "mlp",
      [f64([4, 3], 1), f64([3, 5], 2), f64([5], 3), f64([5, 2], 4)],
      (x, w, b, v) =>
        ops.mean(ops.tanh(ops.matmul(ops.tanh(ops.add(ops.matmul(x as Node, w as Node), b as Node)), v as Node))),
    ],
    ["softmax", [f64([3, 4], 5), f64([3, 4], 6)], (x, w) => ops.sum(ops.mul(ops.softmax(x as Node), w as Node))],
    [
      "softmax over an outer dim",
      [f64([3, 4], 5), f64([3, 4], 6)],
      (x, w) => ops.sum(ops.mul(ops.softmax(x as Node, 0), w as Node)),
    ],
    ["log softmax", [f64([3, 4], 7), f64([3, 4], 8)], (x, w) => ops.sum(ops.mul(ops.logSoftmax(x as Node), w as Node))],
    ["logSumExp", [f64([3, 4], 9)], (x) => ops.sum(ops.logSumExp(x as Node, 0))],
    [
      "cross-entropy",
      [f64([4, 5], 10, -3, 3), labels(4, 5)],
      (x, y) => ops.mean(ops.softmaxCrossEntropy(x as Node, y as Node)),
    ],
    [
      "layer norm",
      [f64([3, 6], 11), f64([6], 12)],
      (x, g) => {
        const centred = ops.sub(x as Node, ops.mean(x as Node, -1, { keepDims: true }));
        const scale = ops.rsqrt(ops.add(ops.mean(ops.mul(centred, centred), -1, { keepDims: true }), 1e-3));
        return ops.sum(ops.sin(ops.mul(ops.mul(centred, scale), g as Node)));
      },
    ],
    [
      "attention",
      [f64([2, 3, 4], 13), f64([2, 3, 4], 14), f64([2, 3, 4], 15)],
      (q, k, v) => {
        const scores = ops.div(ops.matmul(q as Node, ops.transpose(k as Node, [0, 2, 1])), 2);
        return ops.sum(ops.sin(ops.matmul(ops.softmax(scores), v as Node)));
      },
    ],
    [
      "gelu",
      [f64([5], 16)],
      (x) => ops.sum(ops.mul(ops.mul(x as Node, 0.5), ops.add(ops.erf(ops.div(x as Node, Math.SQRT2)), 1))),
    ],
    [
      "a value used many times",
      [f64([3], 17)],
      (x) => {
        let value = x as Node;
        for (let step = 0; step < 5; step++) value = ops.mul(ops.add(value, x as Node), ops.sin(value));
        return ops.sum(value);
      },
    ],
    [
      "take of rows along an inner dim",
      [f64([3, 5], 18)],
      (x) => ops.sum(ops.sin(ops.take(x as Node, ops.cast(ops.iota("i32", [2], 0), "i32"), 1))),
    ],
    [
      "strided slices, pads and concatenation",
      [f64([4, 6], 19)],
      (x) => {
        const half = ops.slice(x as Node, [0, 1], [4, 6], [1, 2]);
        return ops.sum(
          ops.sin(
            ops.concat([half, ops.pad(ops.reverse(half, [0]), ops.constant("f64", 1), [0, -1], [0, 2], [0, 1])], 1),
          ),
        );
      },
    ],
  ];

  it.each(cases)("%s", (_name, inputs, body) => {
    checkGradient(body, inputs, inputs.length);
    const second = gradientSum(body, inputs, inputs.length, 23);
    checkGradient(second.body, second.inputs, inputs.length, { tolerance: 1e-5 });
  });

  it("of a whole convnet", () => {
    const graph = leNetGradient();
    const inputs = graph.inputs.map(({ dtype, shape }, index) =>
      makeTensor({
        dtype,
        shape,
        values: { low: dtype === "i32" ? 0 : -1, high: dtype === "i32" ? smallLeNet.classes : 1, seed: 40 + index },
      }),
    );
    const results = ops.evaluateGraph(graph, inputs);
    const step = 1e-6;
    inputSpecs(graph)
      .slice(2)
      .forEach(({ name }, index) => {
        const input = inputs[index + 2] as HostTensor;
        // Some elements of each parameter: all would be thousands of runs.
        for (let element = 0; element < input.data.length; element += Math.ceil(input.data.length / 4)) {
          const loss = (by: number): number => {
            const data = input.data.slice();
            data[element] = (data[element] as number) + by;
            const changed = inputs.map((other, position) => (position === index + 2 ? { ...input, data } : other));
            return ops.evaluateGraph({ ...graph, outputs: graph.outputs.slice(0, 1) }, changed)[0]?.data[0] as number;
          };
          const quotient = (loss(step) - loss(-step)) / (2 * step);
          expect(
            difference([results[index + 1]?.data[element] as number], [quotient], 1e-7),
            `${name}[${element}]`,
          ).toBeUndefined();
        }
      });
  });
});

describe("gradients", () => {
  const x = f64([2], 1);

  it("are zeros where nothing depends on the value", () => {
    expect(run([x, x], (a, b) => gradients(ops.sum(a as Node), [a as Node, b as Node]))).toEqual([
      [1, 1],
      [0, 0],
    ]);
  });

  it("do not flow through integers, comparisons and indices", () => {
    expect(run([x], (a) => gradients(ops.sum(ops.cast(ops.cast(a as Node, "i32"), "f64")), [a as Node]))).toEqual([
      [0, 0],
    ]);
    expect(run([x], (a) => gradients(ops.sum(ops.cast(ops.gt(a as Node, 0), "f64")), [a as Node]))).toEqual([[0, 0]]);
    expect(run([x], (a) => gradients(ops.cast(ops.argMax(a as Node), "f64"), [a as Node]))).toEqual([[0, 0]]);
  });

  it("by an inner value are those of the rest", () => {
    expect(
      run([x], (a) => {
        const inner = ops.mul(a as Node, 2);
        return gradients(ops.sum(ops.mul(inner, 3)), [inner]);
      }),
    ).toEqual([[3, 3]]);
  });

  it("by a value and one made from it count each path once", () => {
    expect(
      run([x], (a) => {
        const inner = ops.mul(a as Node, 2);
        return gradients(ops.sum(ops.add(inner, a as Node)), [a as Node, inner]);
      }),
    ).toEqual([
      [3, 3],
      [1, 1],
    ]);
  });

  it("of the value itself are 1", () => {
    expect(run([f64([], 1)], (a) => gradients(a as Node, [a as Node]))).toEqual([[1]]);
  });

  it("want a float scalar, by floats", () => {
    expect(() => run([x], (a) => gradients(a as Node, [a as Node]))).toThrow(
      /the gradient needs a float scalar, got f64\[2\].*hint: reduce it/s,
    );
    expect(() => run([labels(2, 3)], (a) => gradients(ops.sum(a as Node), [a as Node]))).toThrow(
      /needs a float scalar, got i32\[\]/,
    );
    expect(() => run([x, labels(2, 3)], (a, b) => gradients(ops.sum(a as Node), [b as Node]))).toThrow(
      /cannot differentiate by parameter 'x1' i32\[2\]: it is not float/,
    );
  });

  it("carry the source line of the op they differentiate", () => {
    traceGraph("g", [{ name: "x", type: { dtype: "f64", shape: [2] } }], (a) => {
      const y = ops.exp(a);
      const loss = ops.sum(y);
      const [gradient] = gradients(loss, [a]);
      const product = topological([gradient as Node]).find((node) => node.op.name === "mul");
      expect(describePosition(positionOf(product as Node))).toBe(describePosition(positionOf(y)));
      return [gradient as Node];
    });
  });

  it("share work with the forward pass", () => {
    const graph = traceGraph("g", [{ name: "x", type: { dtype: "f64", shape: [2] } }], (a) => {
      const loss = ops.sum(ops.exp(a));
      return [loss, ...gradients(loss, [a])];
    });
    expect(topological(graph.outputs).filter((node) => node.op.name === "exp")).toHaveLength(1);
  });
});

describe("pullback", () => {
  it("is linear in the cotangents, and undefined where none flows", () => {
    const result = run([f64([2], 1), f64([2], 2)], (a, b) => {
      const [da, db] = pullback(
        [ops.mul(a as Node, 2), ops.exp(a as Node)],
        [b as Node, undefined],
        [a as Node, b as Node],
      );
      expect(db).toBeUndefined();
      return [da as Node, ops.mul(b as Node, 2)];
    });
    expect(result[0]).toEqual(result[1]);
  });

  it("adds up outputs that repeat", () => {
    expect(
      run(
        [f64([2], 1)],
        (a) =>
          pullback([a as Node, a as Node], [ops.full("f64", [2], 1), ops.full("f64", [2], 3)], [a as Node]) as Node[],
      ),
    ).toEqual([[4, 4]]);
  });
});

describe("named gradients", () => {
  const named: readonly (readonly [string, readonly HostTensor[], (...inputs: Node[]) => Node])[] = [
    [
      "softmaxCrossEntropy",
      [f64([4, 5], 10, -3, 3), labels(4, 5)],
      (x, y) => ops.softmaxCrossEntropy(x as Node, y as Node),
    ],
    ["relu", [f64([9], 12)], (x) => ops.relu(x as Node)],
  ];
  it.each(named)("of %s are those of its body", (_name, inputs, body) => {
    const by = (expanded: boolean) =>
      run(inputs, (...nodes) => {
        const node = body(...nodes);
        const value = expanded ? (ops.expandNode(node, node.inputs)[0] as Node) : node;
        return gradients(ops.sum(ops.sin(value)), [nodes[0] as Node]);
      });
    expect(difference(by(false)[0] as number[], by(true)[0] as number[], 1e-12)).toBeUndefined();
  });
});

describe("the cotangent of a value that is cut into slices", () => {
  type Cut = readonly [dim: 0 | 1, from: number, to: number, step?: number];
  const cuts: readonly (readonly [name: string, cuts: readonly Cut[], pads: number, concats: number])[] = [
    [
      "parts in order are joined",
      [
        [1, 0, 2],
        [1, 2, 3],
        [1, 3, 6],
      ],
      0,
      1,
    ],
    [
      "parts from the last to the first are joined",
      [
        [0, 3, 4],
        [0, 1, 3],
        [0, 0, 1],
      ],
      0,
      1,
    ],
    [
      "parts that do not reach the borders are joined within zeros",
      [
        [1, 1, 3],
        [1, 3, 5],
      ],
      1,
      1,
    ],
    [
      "parts that come together late are added up",
      [
        [1, 2, 4],
        [1, 4, 6],
        [1, 0, 2],
      ],
      3,
      0,
    ],
    [
      "parts that overlap are added up",
      [
        [1, 0, 3],
        [1, 2, 6],
      ],
      2,
      0,
    ],
    [
      "the same part twice is one slice",
      [
        [1, 0, 3],
        [1, 0, 3],
      ],
      1,
      0,
    ],
    [
      "parts along two dims are added up",
      [
        [0, 0, 2],
        [1, 0, 3],
      ],
      2,
      0,
    ],
    [
      "every other element is added up",
      [
        [1, 0, 6, 2],
        [1, 1, 6, 2],
      ],
      2,
      0,
    ],
    [
      "an empty part changes nothing",
      [
        [1, 0, 0],
        [1, 0, 3],
        [1, 3, 6],
      ],
      1,
      1,
    ],
  ];
  it.each(cuts)("%s", (_name, parts, pads, concats) => {
    const sizes = [4, 6] as const;
    const graph = traceGraph("g", [{ name: "x", type: { dtype: "f64", shape: sizes } }], (x) => {
      const terms = parts.map(([dim, from, to, step = 1], index) => {
        const along = (other: number, value: number) => (other === dim ? value : 0);
        const limit = sizes.map((size, other) => (other === dim ? to : size));
        const cut = ops.slice(x as Node, [along(0, from), along(1, from)], limit, [
          along(0, step - 1) + 1,
          along(1, step - 1) + 1,
        ]);
        return ops.mul(ops.sum(cut), index + 1);
      });
      return gradients(
        terms.reduce((sum, term) => ops.add(sum, term)),
        [x as Node],
      );
    });
    const count = (name: string): number => topological(graph.outputs).filter(({ op }) => op.name === name).length;
    expect([count("pad"), count("concat")]).toEqual([pads, concats]);
    const isIn = (place: number, from: number, to: number, step: number): boolean =>
      place >= from && place < to && (place - from) % step === 0;
    const expected = Array.from({ length: 24 }, (_unused, element) =>
      parts.reduce((sum, [dim, from, to, step = 1], index) => {
        const place = dim === 0 ? Math.floor(element / 6) : element % 6;
        return sum + (isIn(place, from, to, step) ? index + 1 : 0);
      }, 0),
    );
    const x: HostTensor = { dtype: "f64", shape: sizes, data: new Float64Array(24) };
    expect([...(ops.evaluateGraph(graph, [x])[0] as HostTensor).data]).toEqual(expected);
  });
});
