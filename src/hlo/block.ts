/**
 * @module A writer of StableHLO text, which the `stablehlo` rule of an op uses. Everything is written in MLIR's generic
 * form, which does not change when the pretty form of an op does.
 */

import { type DType, dtypes, isFloat, isHalf } from "../ir/dtype.ts";
import { encodeHalf } from "../ir/half.ts";
import type { Attrs, Graph } from "../ir/node.ts";
import type { Shape, TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";

/** StableHLO has more dtypes than graphs do; `u64` and complex dtypes are used within some ops. */
export type HloDType = DType | "u64" | "c64" | "c128";

export interface HloType {
  readonly shape: Shape;
  readonly dtype: HloDType;
}

/** A value in the text: its name and its type. */
export interface HloValue {
  readonly name: string;
  readonly type: HloType;
}

/** A function within an op, such as the rule by which a reduction combines two elements. */
export interface HloRegion {
  readonly arguments: readonly HloType[];
  readonly body: (hlo: HloBlock, inputs: readonly HloValue[]) => readonly HloValue[];
}

/** The arguments of an op's rule. */
export interface HloContext<A extends Attrs> {
  readonly hlo: HloBlock;
  readonly attrs: A;
  readonly inputs: readonly HloValue[];
  readonly outputs: readonly TensorType[];
}

/** Spells an op; returns the values of its results. */
export type HloRule<A extends Attrs> = (context: HloContext<A>) => readonly HloValue[];

/** A mesh axis as replicas see it: the replica with row-major number `r` is at coordinate `r / inner % size`. */
export interface HloAxis {
  readonly size: number;
  readonly inner: number;
  /** The replicas that differ in this axis alone, each list in order of the coordinate. */
  readonly groups: readonly (readonly number[])[];
}

/** The module around a block, as far as the block needs it. */
export interface HloSurroundings {
  /** @throws HeddleError `argument` when the mesh of the text has no such axis. */
  axis(name: string): HloAxis;
  /** Spells the nodes of a graph within a block. */
  inline(hlo: HloBlock, graph: Graph, inputs: readonly HloValue[]): readonly HloValue[];
}

const elementNames: { readonly [D in HloDType]: string } = {
  f32: "f32",
  f64: "f64",
  f16: "f16",
  bf16: "bf16",
  i32: "i32",
  u32: "ui32",
  i64: "i64",
  u64: "ui64",
  c64: "complex<f32>",
  c128: "complex<f64>",
  u8: "ui8",
  i8: "i8",
  bool: "i1",
};

/** `tensor<2x3xf32>`. */
export function hloType({ shape, dtype }: HloType): string {
  return `tensor<${[...shape, elementNames[dtype]].join("x")}>`;
}

/** A number as it stands in `dense<…>`: NaN and infinities by their bits. */
export function hloLiteral(dtype: HloDType, value: number | bigint): string {
  if (dtype === "bool") return value === 0 ? "false" : "true";
  if (dtype === "i64" || dtype === "u64") return String(BigInt(value));
  if (typeof value === "bigint" || dtype === "c64" || dtype === "c128" || !isFloat(dtype)) return String(value);
  if (Number.isFinite(value)) {
    const [digits, exponent] = (Object.is(value, -0) ? "-0" : String(value)).split("e") as [string, string?];
    return `${digits.includes(".") ? digits : `${digits}.0`}${exponent === undefined ? "" : `e${exponent}`}`;
  }
  const bits = new DataView(new ArrayBuffer(8));
  const { bytes } = dtypes[dtype];
  if (isHalf(dtype)) bits.setUint16(0, encodeHalf(dtype, [value])[0] as number);
  else if (dtype === "f32") bits.setFloat32(0, value);
  else bits.setFloat64(0, value);
  const hex = Array.from({ length: bytes }, (_unused, index) => bits.getUint8(index).toString(16).padStart(2, "0"));
  return `0x${hex.join("").toUpperCase()}`;
}

/** `array<i64: 1, 2>`. */
export const hloIntegers = (list: readonly number[]): string =>
  list.length === 0 ? "array<i64>" : `array<i64: ${list.join(", ")}>`;

/** `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`; all lists are of one length. */
export function hloTable(lists: readonly (readonly number[])[], width: number): string {
  const rows = lists.map((list) => `[${list.join(", ")}]`).join(", ");
  return `dense<${lists.length === 0 ? "" : `[${rows}]`}> : tensor<${lists.length}x${width}xi64>`;
}

/** Products in the precision of their dtype, also where hardware is faster with less. */
export const hloFullPrecision = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]";

/** The region that combines two scalars by an op of two inputs. */
export const hloCombine = (name: string, dtype: HloDType): HloRegion => ({
  arguments: [
    { shape: [], dtype },
    { shape: [], dtype },
  ],
  body: (hlo, [x, y]) => [hlo.same(name, x as HloValue, y as HloValue)],
});

/** Lines of one function or region. */
export class HloBlock {
  /** The lines so far. */
  readonly lines: string[] = [];
  /** The module around the block. */
  readonly surroundings: HloSurroundings;
  private readonly indent: string;
  private readonly names: { next: number };
  private readonly constants = new Map<string, HloValue>();

  constructor(surroundings: HloSurroundings, indent: string, names: { next: number } = { next: 0 }) {
    this.surroundings = surroundings;
    this.indent = indent;
    this.names = names;
  }

  /** Writes an op of StableHLO and names its results. */
  op(
    name: string,
    inputs: readonly HloValue[],
    outputs: readonly HloType[],
    attributes: { readonly [name: string]: string } = {},
    regions: readonly HloRegion[] = [],
  ): HloValue[] {
    return this.write(`stablehlo.${name}`, inputs, outputs, attributes, regions);
  }

  /** {@link op} for an op of one result. */
  one(
    name: string,
    inputs: readonly HloValue[],
    output: HloType,
    attributes: { readonly [name: string]: string } = {},
    regions: readonly HloRegion[] = [],
  ): HloValue {
    return this.op(name, inputs, [output], attributes, regions)[0] as HloValue;
  }

  /** {@link one} for an op whose result has the type of its first input. */
  same(name: string, ...inputs: readonly [HloValue, ...HloValue[]]): HloValue {
    return this.one(name, inputs, inputs[0].type);
  }

  /** A constant with every element `value`. Constants are shared within the block: a region may not use values from outside. */
  constant(type: HloType, value: number | bigint): HloValue {
    const text = `dense<${hloLiteral(type.dtype, value)}> : ${hloType(type)}`;
    const known = this.constants.get(text);
    if (known !== undefined) return known;
    const constant = this.one("constant", [], type, { value: text });
    this.constants.set(text, constant);
    return constant;
  }

  /** A constant of the type of `x`. */
  like(x: HloValue, value: number | bigint): HloValue {
    return this.constant(x.type, value);
  }

  /** EQ, NE, LT, LE, GT or GE, as bool. */
  compare(direction: string, x: HloValue, y: HloValue): HloValue {
    return this.one(
      "compare",
      [x, y],
      { shape: x.type.shape, dtype: "bool" },
      { comparison_direction: `#stablehlo<comparison_direction ${direction}>` },
    );
  }

  /** `condition ? onTrue : onFalse`, elementwise. */
  select(condition: HloValue, onTrue: HloValue, onFalse: HloValue): HloValue {
    return this.one("select", [condition, onTrue, onFalse], onTrue.type);
  }

  /** `x` in another dtype. */
  convert(x: HloValue, dtype: HloDType): HloValue {
    return this.one("convert", [x], { shape: x.type.shape, dtype });
  }

  /** `x` broadcast to a larger shape: dim i of `x` becomes dim `dims[i]`. */
  broadcast(x: HloValue, shape: Shape, dims: readonly number[]): HloValue {
    const type = { shape, dtype: x.type.dtype };
    return this.one("broadcast_in_dim", [x], type, { broadcast_dimensions: hloIntegers(dims) });
  }

  /** Element `index` of a vector, as a scalar. */
  element(x: HloValue, index: number): HloValue {
    const slice = { start_indices: [index], limit_indices: [index + 1], strides: [1] };
    const attributes = Object.fromEntries(Object.entries(slice).map(([name, list]) => [name, hloIntegers(list)]));
    const part = this.one("slice", [x], { shape: [1], dtype: x.type.dtype }, attributes);
    return this.one("reshape", [part], { shape: [], dtype: x.type.dtype });
  }

  /** Spells the nodes of a graph here. */
  inline(graph: Graph, inputs: readonly HloValue[]): readonly HloValue[] {
    return this.surroundings.inline(this, graph, inputs);
  }

  /** Calls a function of the module. */
  call(name: string, inputs: readonly HloValue[], outputs: readonly HloType[]): HloValue[] {
    return this.write("func.call", inputs, outputs, { callee: `@${name}` }, []);
  }

  /** Ends the block: `func.return` for a function, `stablehlo.return` for a region. */
  end(op: string, values: readonly HloValue[]): void {
    this.lines.push(`${this.indent}"${op}"(${names(values)}) : (${types(values)}) -> ()`);
  }

  private write(
    op: string,
    inputs: readonly HloValue[],
    outputs: readonly HloType[],
    attributes: { readonly [name: string]: string },
    regions: readonly HloRegion[],
  ): HloValue[] {
    const name = `%${this.names.next++}`;
    const bodies = regions.map((region) => this.region(region));
    const resultName = outputs.length === 1 ? name : `${name}:${outputs.length}`;
    const entries = Object.entries(attributes).map(([key, value]) => `${key} = ${value}`);
    const parts = [
      `${this.indent}${resultName} = "${op}"(${names(inputs)})`,
      bodies.length === 0 ? "" : ` (${bodies.join(", ")})`,
      entries.length === 0 ? "" : ` {${entries.join(", ")}}`,
      ` : (${types(inputs)}) -> ${hloResults(outputs)}`,
    ];
    this.lines.push(parts.join(""));
    return outputs.map((type, index) => ({ name: outputs.length === 1 ? name : `${name}#${index}`, type }));
  }

  private region({ arguments: types_, body }: HloRegion): string {
    const inner = new HloBlock(this.surroundings, `${this.indent}    `, this.names);
    const inputs = types_.map((type): HloValue => ({ name: `%a${this.names.next++}`, type }));
    inner.end("stablehlo.return", body(inner, inputs));
    const header = inputs.map(({ name, type }) => `${name}: ${hloType(type)}`).join(", ");
    return `{\n${this.indent}  ^bb0(${header}):\n${inner.lines.join("\n")}\n${this.indent}}`;
  }
}

const names = (values: readonly HloValue[]): string => values.map(({ name }) => name).join(", ");
const types = (values: readonly HloValue[]): string => values.map(({ type }) => hloType(type)).join(", ");

/** One type, or several in parentheses. */
export function hloResults(outputs: readonly HloType[]): string {
  const text = outputs.map(hloType).join(", ");
  return outputs.length === 1 ? text : `(${text})`;
}

/** The rule of an op that is one StableHLO op on the same inputs. */
export const hloSame =
  (name: string) =>
  ({ hlo, inputs, outputs }: Pick<HloContext<Attrs>, "hlo" | "inputs" | "outputs">): HloValue[] =>
    hlo.op(name, inputs, outputs);

/** Row-major coordinates of replicas over the axes of a mesh. */
export function hloAxis(axes: readonly { readonly name: string; readonly size: number }[], name: string): HloAxis {
  const position = axes.findIndex((axis) => axis.name === name);
  if (position < 0) {
    throw new HeddleError("argument", `stablehlo: the text has no mesh axis '${name}'`, {
      hint: "give the axes of the mesh: stablehloText(graph, { axes })",
    });
  }
  const product = (list: readonly { readonly size: number }[]): number => list.reduce((all, { size }) => all * size, 1);
  const { size } = axes[position] as { size: number };
  const inner = product(axes.slice(position + 1));
  const firsts = Array.from({ length: product(axes) }, (_unused, replica) => replica).filter(
    (replica) => Math.floor(replica / inner) % size === 0,
  );
  return {
    size,
    inner,
    groups: firsts.map((first) => Array.from({ length: size }, (_unused, index) => first + index * inner)),
  };
}
