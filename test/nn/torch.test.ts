/** Layers against PyTorch (test/fixtures/layers.py): outputs, last states, gradients, running statistics, names of parameters. */
import { grad, jit, losses, nn, random, scaledDotProductAttention, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { isTensor } from "../../src/functions/index.ts";
import { flattenTree, unflattenTree } from "../../src/util/tree.ts";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

interface Described {
  readonly dtype: "f64" | "i32" | "bool";
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

interface Case {
  readonly layer: string;
  readonly title: string;
  readonly options: { readonly [name: string]: unknown };
  readonly train: boolean;
  readonly inputs: readonly Described[];
  readonly lengths?: readonly number[];
  readonly params: { readonly [name: string]: readonly number[] };
  readonly outputs: readonly { readonly shape: readonly number[]; readonly data: readonly number[] }[];
  readonly inputGrads: readonly (readonly number[] | null)[];
  readonly paramGrads: { readonly [name: string]: readonly number[] | null };
  readonly state: { readonly [name: string]: readonly number[] };
}

const toTensor = ({ dtype, shape, data }: Described): Tensor => tensor(Float64Array.from(data), { shape, dtype });

/** As the script fills them. */
function filled(shape: readonly number[], number: number, scale = 0.4): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = Float64Array.from({ length: count }, (_unused, i) => scale * Math.sin(1 + 0.7 * i + 1.3 * number));
  return tensor(values, { shape, dtype: "f64" });
}

type Params = nn.Variables["params"];
type Run = (params: Params, inputs: readonly Tensor[]) => { outputs: Tensor[]; state: Params };

/** The layer, its fresh variables, and how the case runs it. */
function prepared(one: Case): { params: Params; run: Run } {
  const { layer: kind, options, train, inputs } = one;
  const [first] = inputs as [Described];
  const type = { shape: first.shape, dtype: first.dtype };
  const key = random.key(0);
  const states = (given: readonly Tensor[]) =>
    given.length === 0 ? {} : { initial: { h: given[0] as Tensor, ...(given[1] ? { c: given[1] } : {}) } };
  if (kind === "attention") {
    const run: Run = (_params, [q, k, v, mask]) => ({
      outputs: [scaledDotProductAttention(q as Tensor, k as Tensor, v as Tensor, { mask, ...options })],
      state: {},
    });
    return { params: {}, run };
  }
  if (kind === "rotaryEmbedding") {
    const run: Run = (_params, [x]) => ({
      outputs: [nn.functional.rotaryEmbedding(x as Tensor, options)],
      state: {},
    });
    return { params: {}, run };
  }
  if (kind === "transformerDecoderLayer") {
    const layer = nn.transformerDecoderLayer(options as unknown as nn.TransformerOptions);
    const run: Run = (params, [x, memory]) => ({
      outputs: [layer.decode({ params, state: {} }, x as Tensor, memory as Tensor, { train })],
      state: {},
    });
    return { params: layer.init(key, type).params, run };
  }
  const { groups, count, size, ...others } = options;
  // `groups` is an argument of groupNorm, and an option of attention.
  const [leading, rest] = "heads" in options ? [[], options] : [[groups, count, size], others];
  const make = nn[kind as "linear"] as unknown as (...given: unknown[]) => nn.Layer;
  const layer = make(...leading.filter((value) => value !== undefined), rest);
  const made = layer.init(key, type);
  expect(made.output.dtype).toBe("f64");
  const run: Run = (params, [x, ...more]) => {
    const variables = { params, state: made.state };
    if ("run" in layer) {
      const lengths = one.lengths === undefined ? {} : { lengths: tensor(one.lengths, { dtype: "i32" }) };
      const { y, final } = (layer as nn.RecurrentLayer).run(variables as never, x as Tensor, {
        ...states(more),
        ...lengths,
      });
      return { outputs: [y, final.h, ...(final.c ? [final.c] : [])], state: {} };
    }
    if ("step" in layer) {
      const [h, c] = more as [Tensor, Tensor?];
      const next = (layer as nn.CellLayer).step(variables, x as Tensor, { h, ...(c ? { c } : {}) });
      return { outputs: [next.h, ...(next.c ? [next.c] : [])], state: {} };
    }
    if ("attend" in layer) {
      const [other] = more;
      const given = other === undefined ? {} : other.dtype === "bool" ? { present: other } : { memory: other };
      return {
        outputs: [(layer as nn.AttentionLayer).apply(variables, x as Tensor, { train, ...given }).y as Tensor],
        state: {},
      };
    }
    if ("encode" in layer) {
      const present = more[0];
      return {
        outputs: [(layer as nn.TransformerLayer).apply(variables, x as Tensor, { train, present }).y as Tensor],
        state: {},
      };
    }
    const applied = layer.apply(variables, x as Tensor, { train });
    // PyTorch's layer is its loss, too.
    if (kind === "adaptiveLogSoftmax" && more.length > 0)
      return { outputs: [losses.nll(applied.y, more[0] as Tensor)], state: {} };
    if (one.title !== "averages") return { outputs: [applied.y], state: applied.state };
    const again = layer.apply({ params, state: applied.state }, (x as Tensor).mul(2), { train });
    return { outputs: [again.y], state: again.state };
  };
  return { params: made.params, run };
}

const cases = fixture<Case>("layers");

describe("as PyTorch", () => {
  test.each(cases.map((one): [string, Case] => [`${one.layer}: ${one.title}, train ${one.train}`, one]))(
    "%s",
    async (_name, one) => {
      const { params: fresh, run } = prepared(one);
      const flat = flattenTree(fresh, isTensor);
      const shapes = Object.fromEntries(flat.paths.map((path, index) => [path, (flat.leaves[index] as Tensor).shape]));
      expect(shapes).toEqual(one.params);
      const order = [...flat.paths].sort();
      const leaves = flat.paths.map((path) => filled(shapes[path] as number[], order.indexOf(path)));
      const params = unflattenTree(flat.shape, leaves) as Params;
      const inputs = one.inputs.map(toTensor);
      const made = jit((own: Params, given: readonly Tensor[]) => run(own, given))(params, inputs);
      expect(made.outputs.map(({ shape }) => shape)).toEqual(one.outputs.map(({ shape }) => shape));
      for (const [index, output] of made.outputs.entries())
        expectClose(await output.data(), one.outputs[index]?.data as number[], 1e-9);
      if (one.train || one.title === "averages")
        for (const [name, expected] of Object.entries(one.state))
          expectClose(await ((made.state as { [name: string]: Tensor })[name] as Tensor).data(), expected, 1e-9);

      const floats = inputs.flatMap(({ dtype }, index) => (dtype === "f64" ? [index] : []));
      const total = (own: Params, given: readonly Tensor[]): Tensor => {
        const all = inputs.map((input, index) => (floats.includes(index) ? given[floats.indexOf(index)] : input));
        return run(own, all as Tensor[])
          .outputs.map((output, index) => output.mul(filled(output.shape, 50 + index, 1)).sum())
          .reduce((a, b) => a.add(b));
      };
      const slopes = jit(
        grad((both: { params: Params; inputs: readonly Tensor[] }) => total(both.params, both.inputs)),
      )({ params, inputs: floats.map((index) => inputs[index] as Tensor) });
      for (const [place, expected] of one.inputGrads.entries())
        expectClose(await (slopes.inputs[place] as Tensor).data(), expected as number[], 1e-9);
      const found = flattenTree(slopes.params, isTensor);
      for (const [place, path] of found.paths.entries()) {
        const expected = one.paramGrads[path] ?? new Array<number>((found.leaves[place] as Tensor).size).fill(0);
        expectClose(await (found.leaves[place] as Tensor).data(), expected, 1e-9);
      }
    },
  );
});
