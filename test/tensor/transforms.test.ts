import {
  cond,
  cos,
  distribute,
  grad,
  jit,
  jvp,
  losses,
  nn,
  random,
  scan,
  sin,
  type Tensor,
  tensor,
  valueAndGrad,
  vjp,
  vmap,
  whileLoop,
  zeros,
} from "heddle";
import { afterAll, describe, expect, it } from "vitest";
import { localRuntime } from "../../src/executors/runtime.ts";
import { mesh, shardedOn } from "../../src/plan/index.ts";
import { elementOf, expectSame, looped, numbersOf, randoms, randomsLike, zipTrees } from "../support/trees.ts";

const dot = (x: Tensor, y: Tensor): Tensor => x.mul(y).sum();
/** Inner product of two trees. */
const inner = <T>(x: T, y: T): Tensor => {
  let total: Tensor | undefined;
  zipTrees([x, y], ([a, b]) => {
    const part = dot(a as Tensor, b as Tensor);
    total = total === undefined ? part : total.add(part);
    return part;
  });
  return total as Tensor;
};

type Params = { readonly w: Tensor; readonly b: Tensor; readonly u: Tensor };
const params: Params = { w: randoms([4, 5], 1), b: randoms([5], 2), u: randoms([5], 3) };
const mlp = ({ w, b, u }: Params, x: Tensor, y: Tensor): Tensor => x.matmul(w).add(b).tanh().matmul(u).sub(y).pow(2);
const [xs, ys] = [randoms([3, 4], 4), randoms([3], 5)];

/** The convnet of examples/mnist.ts, smaller, in f64, and its loss on a batch. */
const convnet = nn.sequential(
  nn.conv2d({ out: 3, kernel: 3, padding: "same" }),
  nn.relu(),
  nn.maxPool2d(2),
  nn.conv2d({ out: 4, kernel: 3, padding: "same" }),
  nn.relu(),
  nn.maxPool2d(2),
  nn.flatten(),
  nn.linear(6),
  nn.relu(),
  nn.dropout(0.5),
  nn.linear(5),
);
const image = [1, 8, 8] as const;
const made = convnet.init(random.key(0), { shape: [2, ...image], dtype: "f64" });
const weights = randomsLike(made.params, 20) as typeof made.params;
const convLoss = (given: typeof weights, x: Tensor, label: Tensor): Tensor => {
  const options = { train: true, key: random.key(3) };
  const { y } = convnet.apply({ params: given, state: made.state }, x, options);
  return losses.softmaxCrossEntropy(y, label);
};
const images = randoms([3, ...image], 6);
const labels = tensor([2, 0, 4], { dtype: "i32" });

/** A recurrent network over a sequence [length, 4] and its squared error. */
type Cell = { readonly w: Tensor; readonly u: Tensor; readonly out: Tensor };
const cell: Cell = { w: randoms([4, 3], 7), u: randoms([3, 3], 8), out: randoms([3], 9) };
const rnn = ({ w, u, out }: Cell, sequence: Tensor): Tensor => {
  const step = (h: Tensor, x: Tensor): [Tensor, Tensor] => {
    const next = x.matmul(w).add(h.matmul(u)).tanh();
    return [next, dot(next, next)];
  };
  const [last, energies] = scan(step, zeros([3], { dtype: "f64" }), sequence);
  return dot(last, out).pow(2).add(energies.mean());
};
const sequences = randoms([3, 6, 4], 10);

describe("gradients per example are those of a loop", () => {
  const one = (shape: readonly number[]) => (x: Tensor) => x.reshape([1, ...shape]);
  const cases: readonly [string, (run: typeof vmap) => unknown][] = [
    ["of a perceptron", (run) => run((x: Tensor, y: Tensor) => grad(mlp)(params, x, y))(xs, ys)],
    [
      "of a convnet",
      (run) => {
        const example = (x: Tensor, label: Tensor): unknown =>
          grad(convLoss)(weights, one(image)(x), label.reshape([1]));
        return run(example)(images, labels);
      },
    ],
    ["of a recurrent network", (run) => run((x: Tensor) => grad(rnn)(cell, x))(sequences)],
  ];
  it.each(cases)("%s", (_name, run) => {
    expectSame(run(vmap), run(looped as typeof vmap));
    expectSame(jit(() => run(vmap))(), run(looped as typeof vmap));
  });

  it("add up to the gradient of the sum", () => {
    const each = vmap(grad(mlp), { inDims: [null, 0, 0] })(params, xs, ys);
    const all = grad((p: Params) => vmap(mlp, { inDims: [null, 0, 0] })(p, xs, ys).sum())(params);
    expectSame(
      zipTrees([each], ([g]) => (g as Tensor).sum(0)),
      all,
    );
  });
});

describe("on two devices", () => {
  const axes = mesh({ data: 2 });
  const two = localRuntime({ axes: axes.axes });
  afterAll(() => two.close());
  const split = (x: Tensor): Tensor =>
    distribute(two, x.dataSync(), { dtype: x.dtype, shape: x.shape }, shardedOn(axes, { data: 0 }));
  const [x, y] = [randoms([4, 4], 15), randoms([4], 16)];
  const [photos, digits] = [randoms([4, ...image], 17), tensor([2, 0, 4, 1], { dtype: "i32" })];
  const cases: readonly [string, (place: (given: Tensor) => Tensor) => unknown][] = [
    ["gradients per example", (place) => vmap(grad(mlp), { inDims: [null, 0, 0] })(params, place(x), place(y))],
    [
      "gradients per example of a convnet",
      (place) => {
        const example = (one: Tensor, digit: Tensor): unknown =>
          grad(convLoss)(weights, one.reshape([1, ...image]), digit.reshape([1]));
        return vmap(example)(place(photos), place(digits));
      },
    ],
    [
      "a Hessian-vector product",
      (place) =>
        jit((a: Tensor, b: Tensor) => {
          const loss = (p: Params): Tensor => vmap(mlp, { inDims: [null, 0, 0] })(p, a, b).mean();
          return jvp(grad(loss), [params], [randomsLike(params, 70)]).tangent;
        })(place(x), place(y)),
    ],
  ];
  it.each(cases)("%s are those of one", (_name, run) =>
    expectSame(
      run(split),
      run((given) => given),
    ),
  );
});

describe("transforms in any order", () => {
  const f = (x: Tensor, y: Tensor): Tensor =>
    sin(x.mul(y)).add(
      x
        .matmul(y.reshape([4, 1]))
        .reshape([])
        .exp(),
    );
  const g = (x: Tensor): Tensor => dot(sin(x), x.mul(x));
  const [as, bs] = [randoms([3, 4], 11), randoms([3, 4], 12)];
  const many = randoms([2, 3, 4], 13);
  const direction = randoms([3, 4], 14);
  type Run = <F extends (...inputs: Tensor[]) => unknown>(fn: F) => F;
  const total = (x: unknown): Tensor => {
    const [first] = Array.isArray(x) ? x : [x];
    return (first as Tensor).sum();
  };
  // Each is made once with vmap and once with a loop in its place.
  const cases: readonly [string, (each: Run) => unknown][] = [
    ["vmap", (each) => each(f)(as, bs)],
    ["vmap(vmap)", (each) => each(each(f))(many, many.mul(2))],
    ["vmap(grad)", (each) => each(grad(g))(as)],
    ["grad(vmap)", (each) => grad((x: Tensor) => each(g)(x).pow(2).sum())(as)],
    [
      "grad(grad(vmap))",
      (each) =>
        grad((x: Tensor) =>
          grad((y: Tensor) => each(g)(y).pow(2).sum())(x)
            .pow(2)
            .sum(),
        )(as),
    ],
    ["vmap(grad(grad))", (each) => each((x: Tensor) => grad((y: Tensor) => grad(g)(y).pow(2).sum())(x))(as)],
    ["jvp(vmap)", (each) => jvp((x: Tensor) => each(g)(x), [as], [direction])],
    ["vmap(jvp)", (each) => each((x: Tensor, v: Tensor) => jvp(g, [x], [v]))(as, direction)],
    ["vmap(jvp(grad))", (each) => each((x: Tensor, v: Tensor) => jvp(grad(g), [x], [v]).tangent)(as, direction)],
    [
      "jvp(jvp(vmap))",
      (each) => {
        const once = (x: Tensor): Tensor => jvp((y: Tensor) => each(g)(y), [x], [direction]).tangent;
        return jvp(once, [as], [direction]);
      },
    ],
    [
      "grad(jvp(vmap))",
      (each) => grad((x: Tensor) => jvp((y: Tensor) => each(g)(y), [x], [direction]).tangent.sum())(as),
    ],
    ["vmap(vjp)", (each) => each((x: Tensor, y: Tensor) => vjp(f, x, y).pullback(x.mul(2)))(as, bs)],
    ["vjp(vmap)", (each) => vjp((x: Tensor) => each(f)(x, bs), as).pullback(bs)],
    ["vmap(jit)", (each) => each(jit(f))(as, bs)],
    ["vmap(grad(vmap))", (each) => each((x: Tensor) => grad((y: Tensor) => each(g)(y).pow(2).sum())(x))(many)],
    ["grad(vmap(grad))", (each) => grad((x: Tensor) => total(each(grad(g))(x)))(as)],
    [
      "vmap in scan",
      (each) => scan((c: Tensor, x: Tensor) => [c.add(each(g)(x)), each(f)(x, x)], zeros([3], { dtype: "f64" }), many),
    ],
    [
      "grad of vmap in scan",
      (each) =>
        grad((x: Tensor) =>
          scan((c: Tensor, y: Tensor) => [c.add(each(g)(y)).tanh(), null], zeros([3], { dtype: "f64" }), x)[0].sum(),
        )(many),
    ],
    [
      "vmap of scan over captured",
      (each) => each((x: Tensor) => scan((c: Tensor, y: Tensor) => [c.mul(y).add(x), dot(c, x)], x, as))(bs),
    ],
  ];
  it.each(cases)("%s", (_name, make) => {
    const expected = make(looped as Run);
    expectSame(make(vmap as Run), expected);
    expectSame(jit(() => make(vmap as Run))(), expected);
  });
});

describe("Hessian-vector products", () => {
  const h = 1e-5;
  type Loss<P> = (p: P) => Tensor;
  /** By forward over reverse, reverse over reverse, and the difference of two gradients. */
  function check<P>(loss: Loss<P>, at: P, along: P): void {
    const forward = jvp(grad(loss), [at], [along]).tangent;
    const reverse = grad((p: P) => inner(grad(loss)(p), along))(at);
    const moved = (by: number): P =>
      grad(loss)(zipTrees([at, along], ([p, v]) => (p as Tensor).add((v as Tensor).mul(by))));
    const quotient = zipTrees([moved(h), moved(-h)], ([above, below]) =>
      (above as Tensor).sub(below as Tensor).div(2 * h),
    );
    expectSame(forward, reverse);
    expectSame(forward, quotient, 1e-6);
    expect(Math.max(...numbersOf(forward).map(Math.abs))).toBeGreaterThan(0.01);
  }
  it("of a convnet", () =>
    check((p: typeof weights) => convLoss(p, images, labels), weights, randomsLike(weights, 50)));
  it("of a convnet by its images", () =>
    check((x: Tensor) => convLoss(weights, x, labels), images, randomsLike(images, 90)));
  it("of a recurrent network", () => check((c: Cell) => rnn(c, elementOf(sequences, 0)), cell, randomsLike(cell, 60)));
  it("of a perceptron", () =>
    check((p: Params) => vmap(mlp, { inDims: [null, 0, 0] })(p, xs, ys).mean(), params, randomsLike(params, 70)));
});

describe("what a derivative is by", () => {
  const x = tensor([2, 3], { dtype: "f64" });
  it("is the argument, not other uses of its value", () => {
    // d/dx (x · d/dy(x y²) at y = x) = d/dx 2x³ = 6x²; 8x² if the inner derivative followed x.
    const f = (a: Tensor): Tensor => a.mul(grad((b: Tensor) => a.mul(b).mul(b).sum())(a)).sum();
    expect(numbersOf(grad(f)(x))).toEqual([24, 54]);
    expect(numbersOf(jit((a: Tensor) => grad((b: Tensor) => a.mul(b).sum())(a))(x))).toEqual([2, 3]);
    expect(numbersOf(jit((a: Tensor) => jvp((b: Tensor) => a.mul(b), [a], [a]).tangent)(x))).toEqual([4, 9]);
    expect(numbersOf(jit((a: Tensor) => vjp((b: Tensor) => a.mul(b), a).pullback(a))(x))).toEqual([4, 9]);
  });
  it("is each place of a value that is given twice", () => {
    const product = ({ a, b }: { a: Tensor; b: Tensor }): Tensor => a.mul(a).mul(b).sum();
    const { a, b } = jit((y: Tensor) => grad(product)({ a: y, b: y }))(x);
    expect([numbersOf(a), numbersOf(b)]).toEqual([
      [8, 18],
      [4, 9],
    ]);
  });
});

describe("loops and branches", () => {
  const guarded = (x: Tensor): Tensor =>
    cond(
      x.gt(0),
      (y: Tensor) => y.sqrt(),
      (y: Tensor) => y.mul(y),
      x,
    );
  const x = tensor([4, 0, -3], { dtype: "f64" });
  it("take a branch per example, and its gradient alone", () => {
    expect(numbersOf(vmap(guarded)(x))).toEqual([2, 0, 9]);
    expect(numbersOf(vmap(grad(guarded))(x))).toEqual([0.25, 0, -6]);
    expect(numbersOf(grad((all: Tensor) => vmap(guarded)(all).sum())(x))).toEqual([0.25, 0, -6]);
  });
  it("run as often as each example wants", () => {
    const doubled = (start: Tensor): Tensor =>
      whileLoop(
        (value: Tensor) => value.lt(10),
        (value: Tensor) => value.mul(2),
        start,
      );
    const starts = tensor([1, 3, 20], { dtype: "f64" });
    expect(numbersOf(vmap(doubled)(starts))).toEqual([16, 12, 20]);
    expect(numbersOf(vmap((s: Tensor) => jvp(doubled, [s], [tensor(1, { dtype: "f64" })]).tangent)(starts))).toEqual([
      16, 4, 1,
    ]);
  });
  it("have tangents where the number of iterations is not known", () => {
    const root = (a: Tensor): Tensor => {
      const newton = (guess: Tensor): Tensor => guess.add(a.div(guess)).mul(0.5);
      return whileLoop((guess: Tensor) => guess.mul(guess).sub(a).abs().gt(1e-12), newton, a);
    };
    const { value, tangent } = jvp(root, [tensor(9, { dtype: "f64" })], [tensor(1, { dtype: "f64" })]);
    expectSame([value, tangent], [tensor(3, { dtype: "f64" }), tensor(1 / 6, { dtype: "f64" })]);
    expect(() => grad(root)(tensor(9, { dtype: "f64" }))).toThrow(/while.*has no gradient.*use scan/s);
  });
});

describe("vmap", () => {
  const xs2 = tensor([
    [1, 2, 3],
    [4, 5, 6],
  ]);
  it("takes and gives examples along any dim", () => {
    const double = (x: Tensor): Tensor => x.mul(2);
    expect(vmap(double, { inDims: 1 })(xs2).shape).toEqual([3, 2]);
    expect(numbersOf(vmap(double, { inDims: 1, outDims: 1 })(xs2))).toEqual([2, 4, 6, 8, 10, 12]);
    expect(numbersOf(vmap(double, { inDims: -1, outDims: -1 })(xs2))).toEqual([2, 4, 6, 8, 10, 12]);
  });
  it("takes trees of dims", () => {
    const f = ({ a, b }: { a: Tensor; b: Tensor[] }, scale: number) => ({ sum: a.add(b[0] as Tensor).mul(scale), b });
    const mapped = vmap(f, { inDims: [{ a: 0, b: [null] }, null], outDims: { sum: 0, b: [null] } });
    const result = mapped({ a: xs2, b: [tensor([1, 1, 1])] }, 10);
    expect(numbersOf(result.sum)).toEqual([20, 30, 40, 50, 60, 70]);
    expect((result.b[0] as Tensor).shape).toEqual([3]);
  });
  it("repeats a result that is alike for all", () => {
    expect(numbersOf(vmap((x: Tensor) => [x.sum(), tensor(7)])(xs2))).toEqual([6, 15, 7, 7]);
  });
  it("gives each key its own random numbers, and one key the same", () => {
    const keys = tensor(Uint32Array.of(1, 0, 2, 0, 3, 0), { shape: [3, 2] });
    const draw = (key: Tensor): Tensor => random.normal(key, [2]);
    expectSame(vmap(draw)(keys), looped(draw)(keys), 0);
    const [first, second] = [0, 1].map((at) => numbersOf(elementOf(vmap(draw)(keys), at)));
    expect(first).not.toEqual(second);
    const shared = vmap((x: Tensor, key: Tensor) => x.add(random.uniform(key, [])), { inDims: [0, null] });
    const drawn = numbersOf(shared(tensor([0, 0, 0]), random.key(1)));
    expect(new Set(drawn).size).toBe(1);
  });
  it("draws other numbers in each iteration of a loop around it", () => {
    const keys = tensor(Uint32Array.of(1, 0, 2, 0, 3, 0), { shape: [3, 2] });
    const each = (run: typeof vmap): Tensor =>
      scan(
        (c: Tensor, _x: null): [Tensor, Tensor] => [c, run((key: Tensor) => random.uniform(key, [2]))(keys)],
        tensor(0),
        null,
        { length: 4 },
      )[1];
    expectSame(each(vmap), each(looped as typeof vmap), 0);
    expect(new Set(numbersOf(each(vmap))).size).toBe(4 * 3 * 2);
  });

  it("works on no examples", () => {
    expect(vmap((x: Tensor) => x.sum())(zeros([0, 3])).shape).toEqual([0]);
  });

  const bad: readonly [string, () => unknown, RegExp][] = [
    [
      "no batch",
      () => vmap((x: Tensor) => x, { inDims: null })(xs2),
      /vmap: no tensor among the arguments is batched.*hint: inDims/s,
    ],
    [
      "two sizes",
      () => vmap((x: Tensor, y: Tensor) => x.add(y))(xs2, zeros([3, 3])),
      /argument '0' has 2 examples, argument '1' has 3/,
    ],
    ["no such dim", () => vmap((x: Tensor) => x, { inDims: 2 })(xs2), /argument '0', f32\[2,3\], has no dim 2/],
    ["a scalar", () => vmap((x: Tensor) => x)(tensor(1)), /argument '0', f32\[\], has no dim 0 .*null is for/s],
    [
      "dims of another form",
      () => vmap((x: Tensor) => x, { inDims: [0, 0] })(xs2),
      /inDims does not have the form of the arguments: got \[0,0\]/,
    ],
    [
      "dims without a part",
      () => vmap((p: { a: Tensor }) => p.a, { inDims: [{ b: 0 }] })({ a: xs2 }),
      /inDims does not have the form of the arguments at '0'/,
    ],
    [
      "a result that depends on the example",
      () => vmap((x: Tensor) => x, { outDims: null })(xs2),
      /vmap: the result depends on the example/,
    ],
    [
      "no dim in the result",
      () => vmap((x: Tensor) => x.sum(), { outDims: 1 })(xs2),
      /the result, f32\[\] for each example, has no dim 1/,
    ],
  ];
  it.each(bad)("refuses %s", (_name, run, message) => expect(run).toThrow(message));
});

describe("jvp and vjp", () => {
  const f = (x: Tensor, n: Tensor): { y: Tensor; n: Tensor } => ({ y: sin(x).mul(n.cast("f64")), n });
  const x = randoms([3], 1);
  const n = tensor([1, 2, 3], { dtype: "i32" });
  it("go by trees, with zeros for what is not float", () => {
    const { value, tangent } = jvp(f, [x, n], [randoms([3], 2), n]);
    expectSame(value, f(x, n));
    expectSame(tangent, {
      y: cos(x)
        .mul(n.cast("f64"))
        .mul(randoms([3], 2)),
      n: zeros([3], { dtype: "i32" }),
    });
    const { value: same, pullback } = vjp(f, x, n);
    expectSame(same, f(x, n));
    const [dx, dn] = pullback({ y: randoms([3], 3), n });
    expectSame(
      dx,
      cos(x)
        .mul(n.cast("f64"))
        .mul(randoms([3], 3)),
    );
    expect([dn.dtype, numbersOf(dn)]).toEqual(["i32", [0, 0, 0]]);
  });
  it("agree: ⟨u, J v⟩ = ⟨Jᵀ u, v⟩", () => {
    const big = (y: Tensor): Tensor => vmap((z: Tensor) => z.mul(y).sum().tanh())(xs.slice([0, 0], [3, 3]));
    const [u, v] = [randoms([3], 4), randoms([3], 5)];
    expectSame(dot(u, jvp(big, [x], [v]).tangent), dot(vjp(big, x).pullback(u)[0], v));
  });
  it("share the work of a loop within jit", () => {
    const both = jit((y: Tensor) => {
      const { value, pullback } = vjp((z: Tensor) => rnn(cell, z), y);
      return [value, pullback(value)[0]] as const;
    });
    const sequence = elementOf(sequences, 1);
    const { value, grad: slope } = valueAndGrad((z: Tensor) => rnn(cell, z).pow(2).mul(0.5))(sequence);
    const [given, pulled] = both(sequence);
    expectSame(given.pow(2).mul(0.5), value);
    expectSame(pulled, slope);
  });
  const bad: readonly [string, () => unknown, RegExp][] = [
    [
      "a tangent of another shape",
      () => jvp((y: Tensor) => y, [x], [randoms([2], 1)]),
      /jvp: the tangents at '0': f64\[2\] for the primals f64\[3\]/,
    ],
    [
      "tangents of another form",
      () => jvp((y: Tensor) => y, [x], [] as never),
      /jvp: the tangents must have the form of the primals/,
    ],
    [
      "a cotangent of another dtype",
      () => vjp((y: Tensor) => y, x).pullback(zeros([3])),
      /pullback: the cotangents: f32\[3\] for the value f64\[3\]/,
    ],
  ];
  it.each(bad)("refuse %s", (_name, run, message) => expect(run).toThrow(message));
});
