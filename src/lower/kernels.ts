/** @module What each kernel touches, as docs/internals/lowered-program.md says: for checks, simulation and printing. */

import { communicationOf } from "../ir/communication.ts";
import { type DType, dtypes } from "../ir/dtype.ts";
import { allOps } from "../ir/op.ts";
import { type Shape, stridesOf } from "../ir/shape.ts";
import { attentionScratch } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import type { Address, LoweredStep } from "./json.ts";

/** One strided access of a kernel call. */
export interface Access {
  /** The field. */
  readonly name: string;
  readonly role: "read" | "write" | "scratch";
  readonly at: Address;
  readonly dtype: DType;
  readonly shape: Shape;
  /** In elements. */
  readonly strides: readonly number[];
}

/** A strided operand as it stands in a call. */
export interface Strided {
  readonly at: Address;
  readonly strides: readonly number[];
}

export interface FusedOperand extends Strided {
  readonly dtype: DType;
  readonly reg: number;
}

const at = (step: LoweredStep, field: string): Address => step[field] as Address;
const num = (step: LoweredStep, field: string): number => step[field] as number;
const shapeOf = (step: LoweredStep, fields: string): number[] => fields.split(" ").map((field) => num(step, field));
const roundUp = (bytes: number): number => Math.ceil(bytes / 64) * 64;

function whole(name: string, role: Access["role"], address: Address, dtype: DType, shape: Shape): Access {
  return { name, role, at: address, dtype, shape, strides: stridesOf(shape) };
}

const dtypeOf = (step: LoweredStep): DType => step["dtype"] as DType;
const read = (step: LoweredStep, field: string, shape: Shape, dtype: DType = dtypeOf(step)): Access =>
  whole(field, "read", at(step, field), dtype, shape);
const write = (step: LoweredStep, shape: Shape, dtype: DType = dtypeOf(step)): Access =>
  whole("out", "write", at(step, "out"), dtype, shape);

const strided = (name: string, role: Access["role"], step: LoweredStep, shape: Shape): Access => {
  const operand = step[name] as Strided;
  return { name, role, at: operand.at, dtype: dtypeOf(step), shape, strides: operand.strides };
};

function convScratch(step: LoweredStep): Access {
  const width = dtypes[dtypeOf(step)].bytes;
  const product = (list: Shape): number => list.reduce((size, dim) => size * dim, 1);
  const weight = roundUp(product(shapeOf(step, "g kd kh kw c o")) * width);
  const chunks = step.k === "conv" ? 1 : Math.min(num(step, "n"), 8);
  if (step.k === "convGroupsFilter") return whole("scratch", "scratch", at(step, "scratch"), "u8", [chunks * weight]);
  const [window, output] = [shapeOf(step, "kd kh kw"), shapeOf(step, "od oh ow")];
  const [strides, gaps] = [step["strides"] as number[], step["kernelDilation"] as number[]];
  const reach = (size: number, by: number): number => Math.max(0, size - 1) * by;
  const padded = output.map(
    (size, d) => reach(size, strides[d] as number) + reach(window[d] as number, gaps[d] as number) + 1,
  );
  const slot = roundUp(Math.min(product(padded), product(window) * product(output)) * num(step, "c") * width);
  return whole("scratch", "scratch", at(step, "scratch"), "u8", [chunks * weight + num(step, "slots") * slot]);
}

interface CollectivePart {
  readonly in: Address;
  readonly out: Address;
  readonly count: number;
}

/** Elements that come out of a collective for `count` that go in. */
function received(runtime: string, count: number, parts: number): number {
  const op = allOps().find((one) => communicationOf({ op: one })?.runtime === runtime);
  return op === undefined ? count : (communicationOf({ op })?.received(count, parts) as number);
}

function fusedAccesses(step: LoweredStep): Access[] {
  const shape = step["shape"] as Shape;
  // What has one value per row, or column, has no stride along the dim that is folded.
  const kept = step.k === "fusedColumns" ? shape.slice(1) : shape.slice(0, -1);
  const operand =
    (role: "read" | "write", name: string) =>
    ({ at, dtype, strides }: FusedOperand, index: number): Access => {
      const own = strides.length < shape.length ? kept : shape;
      return { name: `${name}[${index}]`, role, at, dtype, shape: own, strides };
    };
  return [
    ...(step["in"] as FusedOperand[]).map(operand("read", "in")),
    ...(step["out"] as FusedOperand[]).map(operand("write", "out")),
  ];
}

/** What attention and its gradient both touch. */
function attentionAccesses(step: LoweredStep): Access[] {
  const lead = step["lead"] as Shape;
  const sized = (names: string): number[] => [...lead, ...shapeOf(step, names)];
  const mask = step["mask"] as (Strided & { readonly dtype: DType }) | undefined;
  const dropout = step["dropout"] as { words: Address; start: Address; total: Shape } | undefined;
  const width = dtypes[dtypeOf(step)].bytes;
  return [
    strided("query", "read", step, sized("r n d")),
    strided("key", "read", step, sized("m d")),
    strided("value", "read", step, sized("m e")),
    ...(mask === undefined ? [] : [{ name: "mask", role: "read" as const, ...mask, shape: sized("r n m") }]),
    ...(dropout === undefined
      ? []
      : [
          whole("words", "read", dropout.words, "u32", [2]),
          whole("start", "read", dropout.start, "i32", [dropout.total.length]),
        ]),
    whole("scratch", "scratch", at(step, "scratch"), "u8", [num(step, "slots") * attentionScratch(width)]),
  ];
}

const attentionRows = (step: LoweredStep, last: string): number[] => [
  ...(step["lead"] as Shape),
  ...shapeOf(step, `r n${last}`),
];

const output = (step: LoweredStep, name: string, shape: Shape): Access =>
  whole(name, "write", at(step, name), dtypeOf(step), shape);

/** Elements of each operand and result of a factorisation of one matrix. */
function factorSizes(what: string, m: number, n: number): { inputs: number[]; outputs: number[] } {
  const k = Math.min(m, n);
  switch (what) {
    case "cholesky":
      return { inputs: [m * m], outputs: [m * m] };
    case "triangularSolve":
      return { inputs: [m * m, m * n], outputs: [m * n] };
    case "lu":
      return { inputs: [m * m], outputs: [m * m, m, 1] };
    case "qr":
      return { inputs: [m * n], outputs: [m * k, k * n, 1] };
    case "svd":
      return { inputs: [m * n], outputs: [m * k, k, k * n] };
    default:
      return { inputs: [m * m], outputs: [m, m * m] };
  }
}

/** The rows of `lu` are counted, all else is numbers. */
const rowsAt = (step: LoweredStep, output: number): DType =>
  step["what"] === "lu" && output === 1 ? "i32" : dtypeOf(step);

type Table = { readonly [kernel: string]: (step: LoweredStep, axes: readonly number[]) => Access[] };

const table: Table = {
  fused: fusedAccesses,
  fusedRows: fusedAccesses,
  fusedColumns: fusedAccesses,
  reduce: (step) => {
    const [keep, over] = [step["keep"] as Shape, step["over"] as Shape];
    const strides = [...(step["keepStrides"] as number[]), ...(step["overStrides"] as number[])];
    return [
      { name: "in", role: "read", at: at(step, "in"), dtype: dtypeOf(step), shape: [...keep, ...over], strides },
      write(step, keep),
    ];
  },
  argMax: (step) => [read(step, "in", shapeOf(step, "rows cols")), write(step, [num(step, "rows")], "i32")],
  dot: (step) => [
    strided("x", "read", step, shapeOf(step, "b m k2")),
    strided("y", "read", step, shapeOf(step, "b k2 n")),
    ...bias(step, "n"),
    strided("out", "write", step, shapeOf(step, "b m n")),
  ],
  conv: (step) => [
    read(step, "x", shapeOf(step, "n d h w g c")),
    strided("weight", "read", step, shapeOf(step, "g kd kh kw c o")),
    ...bias(step, "g o"),
    write(step, shapeOf(step, "n od oh ow g o")),
    convScratch(step),
  ],
  convFilter: (step) => [
    read(step, "x", shapeOf(step, "n d h w g c")),
    read(step, "dy", shapeOf(step, "n od oh ow g o")),
    write(step, shapeOf(step, "g kd kh kw c o")),
    convScratch(step),
  ],
  convGroups: (step) => [
    read(step, "x", shapeOf(step, "n d h w c g")),
    strided("weight", "read", step, shapeOf(step, "kd kh kw c o g")),
    ...bias(step, "o g"),
    write(step, shapeOf(step, "n od oh ow o g")),
    whole("scratch", "scratch", at(step, "scratch"), "u8", [0]),
  ],
  convGroupsFilter: (step) => [
    read(step, "x", shapeOf(step, "n d h w c g")),
    read(step, "dy", shapeOf(step, "n od oh ow o g")),
    write(step, shapeOf(step, "kd kh kw c o g")),
    convScratch(step),
  ],
  reduceWindow: (step) => [read(step, "in", shapeOf(step, "n d h w c")), write(step, shapeOf(step, "n od oh ow c"))],
  selectAndScatter: (step) => [
    read(step, "in", shapeOf(step, "n d h w c")),
    read(step, "source", shapeOf(step, "n od oh ow c")),
    write(step, shapeOf(step, "n d h w c")),
  ],
  windowTake: (step) => [
    read(step, "in", shapeOf(step, "n d h w c")),
    read(step, "source", shapeOf(step, "n d h w c")),
    write(step, shapeOf(step, "n od oh ow c")),
  ],
  gather: (step) => [
    read(step, "in", shapeOf(step, "outer size inner")),
    read(step, "indices", shapeOf(step, "outer count"), "i32"),
    ...firstRow(step),
    write(step, shapeOf(step, "outer count inner")),
  ],
  scatterAdd: (step) => [
    read(step, "updates", shapeOf(step, "outer count inner")),
    read(step, "indices", shapeOf(step, "outer count"), "i32"),
    ...firstRow(step),
    ...sumScratch(step),
    write(step, shapeOf(step, "outer size inner")),
  ],
  scatter: (step) => [
    read(step, "in", shapeOf(step, "outer size inner")),
    read(step, "indices", shapeOf(step, "outer count"), "i32"),
    read(step, "updates", shapeOf(step, "outer count inner")),
    ...sumScratch(step),
    write(step, shapeOf(step, "outer size inner")),
  ],
  dynamicSlice: (step) => [
    read(step, "in", step["shape"] as Shape),
    ...starts(step),
    write(step, step["sizes"] as Shape),
  ],
  dynamicUpdateSlice: (step) => [
    read(step, "in", step["shape"] as Shape),
    read(step, "update", step["sizes"] as Shape),
    ...starts(step),
    write(step, step["shape"] as Shape),
  ],
  randomBits: (step) => [
    read(step, "key", [2], "u32"),
    read(step, "start", [(step["shape"] as Shape).length], "i32"),
    write(step, step["shape"] as Shape, "u32"),
  ],
  sort: (step) =>
    (step["operands"] as { dtype: DType; in: Address; out: Address }[]).flatMap((operand, index) => [
      whole(`in[${index}]`, "read", operand.in, operand.dtype, shapeOf(step, "rows cols")),
      whole(`out[${index}]`, "write", operand.out, operand.dtype, shapeOf(step, "rows cols")),
    ]),
  topK: (step) => [
    read(step, "in", shapeOf(step, "rows cols")),
    ...(["values", "indices"] as const).map((name, index) =>
      whole(
        name,
        "write",
        (step["out"] as Address[])[index] as Address,
        index === 0 ? dtypeOf(step) : "i32",
        shapeOf(step, "rows count"),
      ),
    ),
  ],
  fft: (step) => {
    const length = step["length"] as number[];
    const half = [...length.slice(0, -1), Math.floor((length.at(-1) as number) / 2) + 1, 2];
    const [kind, batch] = [step["kind"], num(step, "batch")];
    const complex = [...length, 2];
    const [from, to] = kind === "fromReal" ? [length, half] : kind === "toReal" ? [half, length] : [complex, complex];
    return [read(step, "in", [batch, ...from]), write(step, [batch, ...to])];
  },
  factor: (step) => {
    const [batch, m, n] = shapeOf(step, "batch m n") as [number, number, number];
    const { inputs, outputs } = factorSizes(step["what"] as string, m, n);
    return [
      ...(step["in"] as Address[]).map((address, index) =>
        whole(`in[${index}]`, "read", address, dtypeOf(step), [batch, inputs[index] as number]),
      ),
      ...(step["out"] as Address[]).map((address, index) =>
        whole(`out[${index}]`, "write", address, rowsAt(step, index), [batch, outputs[index] as number]),
      ),
    ];
  },
  softmaxCrossEntropy: (step) => [
    read(step, "logits", shapeOf(step, "rows cols")),
    read(step, "labels", [num(step, "rows")], "i32"),
    write(step, [num(step, "rows")]),
  ],
  softmaxCrossEntropyGrad: (step) => [
    read(step, "logits", shapeOf(step, "rows cols")),
    read(step, "labels", [num(step, "rows")], "i32"),
    read(step, "dy", [num(step, "rows")]),
    write(step, shapeOf(step, "rows cols")),
  ],
  attention: (step) => [
    ...attentionAccesses(step),
    output(step, "out", attentionRows(step, " e")),
    output(step, "lse", attentionRows(step, "")),
  ],
  attentionGrad: (step) => [
    ...attentionAccesses(step),
    read(step, "lse", attentionRows(step, "")),
    read(step, "delta", attentionRows(step, "")),
    strided("dy", "read", step, attentionRows(step, " e")),
    output(step, "dq", attentionRows(step, " d")),
    output(step, "dk", [...(step["lead"] as Shape), ...shapeOf(step, "m d")]),
    output(step, "dv", [...(step["lead"] as Shape), ...shapeOf(step, "m e")]),
  ],
  axisIndex: (step) => [write(step, [], "i32")],
  // What a loop or branch holds has accesses of its own.
  loop: (step) => [write(step, [], "i32"), ...(step["test"] === undefined ? [] : [read(step, "test", [], "bool")])],
  branch: (step) => [read(step, "test", [], "bool")],
  end: () => [],
  wait: () => [],
  collective: (step, axes) => {
    const size = axes[num(step, "axis")] ?? 1;
    return (step["parts"] as CollectivePart[]).flatMap((part): Access[] => [
      whole("in", "read", part.in, dtypeOf(step), [part.count]),
      whole("out", "write", part.out, dtypeOf(step), [
        // The counts of an exchange are its own.
        (step["receives"] as (readonly [number, number])[] | undefined)?.reduce((sum, [, count]) => sum + count, 0) ??
          received(step["op"] as string, part.count, size),
      ]),
    ]);
  },
  send: (step) =>
    (step["parts"] as CollectivePart[]).map((part) => whole("in", "read", part.in, dtypeOf(step), [part.count])),
  receive: (step) =>
    (step["parts"] as CollectivePart[]).map((part) => whole("out", "write", part.out, dtypeOf(step), [part.count])),
};

/** One value for each column. */
const bias = (step: LoweredStep, columns: string): Access[] =>
  step["bias"] === undefined ? [] : [read(step, "bias", shapeOf(step, columns))];

/** Of a table that is a block of a larger one. */
/** What the roundings of long sums lose. */
function sumScratch(step: LoweredStep): Access[] {
  if (step["scratch"] === undefined) return [];
  const elements = shapeOf(step, "outer size inner").reduce((size, dim) => size * dim, 1);
  return [whole("scratch", "scratch", at(step, "scratch"), "u8", [elements * dtypes[dtypeOf(step)].bytes])];
}

const firstRow = (step: LoweredStep): Access[] => (step["start"] === undefined ? [] : [read(step, "start", [], "i32")]);

function starts(step: LoweredStep): Access[] {
  return (step["starts"] as Address[]).map((start, index) => whole(`starts[${index}]`, "read", start, "i32", []));
}

/** Everything that a call touches. `axes` are the sizes of the mesh axes. */
export function accessesOf(step: LoweredStep, axes: readonly number[] = []): Access[] {
  const rule = table[step.k];
  if (rule === undefined) throw new HeddleError("lower", `there is no kernel '${step.k}'`);
  return rule(step, axes);
}

/** Bytes of the memory that an access covers: from the lowest to one past the highest. */
export function coveredBytes(access: Access): { readonly low: number; readonly high: number } {
  const width = dtypes[access.dtype].bytes;
  let [low, high] = [access.at[1], access.at[1]];
  if (access.shape.includes(0)) return { low, high };
  access.shape.forEach((size, dim) => {
    const span = (size - 1) * (access.strides[dim] as number) * width;
    if (span < 0) low += span;
    else high += span;
  });
  return { low, high: high + width };
}
