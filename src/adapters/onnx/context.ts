/** @module What a row of the table of ONNX ops sees of its node: inputs, attributes, and values that must be known. */

import { HeddleError } from "../../extend/index.ts";
import { full, isTensor, type Tensor } from "../../functions/index.ts";
import { type DType, type HostTensor, normalizeDim, type Shape, sizeOf, type TensorType } from "../../ir/index.ts";
import type { AttributeProto, GraphProto, NodeProto } from "./messages.ts";
import { hostOfProto, hostOfSparse, tensorOf } from "./tensors.ts";

/** A value on the way through a graph: a tensor, or numbers that are known while the graph is built, or both. */
export class Value {
  readonly host: HostTensor | undefined;
  /** Whether ops on it are computed while the graph is built: shapes and what is made of them, never weights. */
  readonly folds: boolean;
  readonly type: TensorType;
  #tensor: Tensor | undefined;

  constructor(held: Tensor | HostTensor, options: { readonly host?: HostTensor; readonly folds?: boolean } = {}) {
    this.type = { shape: held.shape, dtype: held.dtype };
    this.#tensor = isTensor(held) ? held : undefined;
    this.host = isTensor(held) ? options.host : held;
    this.folds = options.folds ?? !isTensor(held);
  }

  /**
   * The value as a row's result: its numbers where they are known and the value is not a weight, which may differ from
   * the file's.
   */
  get result(): Tensor | HostTensor {
    return this.folds && this.host !== undefined ? this.host : this.tensor;
  }

  get tensor(): Tensor {
    if (this.#tensor !== undefined) return this.#tensor;
    const host = this.host as HostTensor;
    const { dtype, shape } = host;
    // A single number takes no memory in a program.
    if (host.data.length === 1 && typeof host.data[0] === "number") return full(shape, host.data[0], { dtype });
    this.#tensor = tensorOf(host);
    return this.#tensor;
  }
}

/** One result of a row. */
export type Result = Tensor | HostTensor | undefined;

/** One op: the opsets for which the row is right, and how the op is composed. */
export interface Row {
  /** The first opset in which the op has this meaning. */
  readonly since: number;
  /** The last such opset; default the newest that is known. */
  readonly until?: number;
  /** Whether the op draws random numbers: such a node is not computed while the graph is built. */
  readonly random?: boolean;
  build(context: NodeContext): Result | readonly Result[];
}

/** Rows by the op's name; several where the meaning changed. */
export interface Rows {
  readonly [op: string]: Row | readonly Row[];
}

/** A row for every opset from `since` on. */
export const row = (since: number, build: Row["build"]): Row => ({ since, build });

const text = new TextDecoder();

/** Builds the graph of an attribute with these inputs. */
export type BuildGraph = (graph: GraphProto, inputs: readonly Value[]) => Value[];

/** The key of a node that draws, by its seed where it has one. */
export type KeyOf = (seed: number | undefined) => Tensor;

/** The error for an input that must be known while the graph is built. */
export class NotConstant extends HeddleError {}

/** A node with its inputs. */
export class NodeContext {
  readonly node: NodeProto;
  readonly opset: number;
  readonly buildGraph: BuildGraph;
  readonly #keyOf: KeyOf;
  readonly #inputs: readonly (Value | undefined)[];
  readonly #attributes: ReadonlyMap<string, AttributeProto>;

  constructor(
    node: NodeProto,
    inputs: readonly (Value | undefined)[],
    opset: number,
    { buildGraph, keyOf }: { readonly buildGraph: BuildGraph; readonly keyOf: KeyOf },
  ) {
    this.node = node;
    this.#keyOf = keyOf;
    this.opset = opset;
    this.buildGraph = buildGraph;
    this.#inputs = inputs;
    this.#attributes = new Map(node.attribute.map((attribute) => [attribute.name ?? "", attribute]));
  }

  get count(): number {
    return this.#inputs.length;
  }

  /** The number of the node's results, used or not. */
  get results(): number {
    return this.node.output.length;
  }

  /** Whether a result is used. */
  asks(index: number): boolean {
    return (this.node.output[index] ?? "") !== "";
  }

  has(index: number): boolean {
    return this.#inputs[index] !== undefined;
  }

  value(index: number): Value {
    const value = this.#inputs[index];
    if (value === undefined) throw new HeddleError("format", `input ${index} is missing`);
    return value;
  }

  /** An input as a tensor. @throws HeddleError `format` when it is missing. */
  x(index = 0): Tensor {
    return this.value(index).tensor;
  }

  /** All inputs from `start` on. */
  all(start = 0): Tensor[] {
    return this.#inputs.slice(start).map((_value, index) => this.x(start + index));
  }

  optional(index: number): Tensor | undefined {
    return this.has(index) ? this.x(index) : undefined;
  }

  shape(index = 0): Shape {
    return this.value(index).type.shape;
  }

  dtype(index = 0): DType {
    return this.value(index).type.dtype;
  }

  rank(index = 0): number {
    return this.shape(index).length;
  }

  /** An input that shapes depend on, so that it must be known while the graph is built. */
  host(index: number): HostTensor {
    const { host } = this.value(index);
    if (host !== undefined) return host;
    const name = this.node.input[index] ?? "";
    throw new NotConstant(
      "dynamic",
      `input ${index} ("${name}") is computed when the model runs, but shapes depend on it`,
      {
        hint: `a shape cannot depend on values; where "${name}" is an input of the model, give it as { dtype, shape, data }`,
      },
    );
  }

  /** A known input as numbers. */
  numbers(index: number): number[] {
    return Array.from(this.host(index).data as ArrayLike<number>, Number);
  }

  optionalNumbers(index: number): number[] | undefined {
    return this.has(index) ? this.numbers(index) : undefined;
  }

  /** Numbers from a known input, or from an attribute in older opsets; undefined where there is neither. */
  listed(index: number, attribute: string): readonly number[] | undefined {
    if (this.has(index)) return this.numbers(index);
    const found = this.#attributes.get(attribute);
    if (found === undefined) return undefined;
    return (found.floats?.length ?? 0) > 0 ? this.floats(attribute) : this.ints(attribute);
  }

  /** Like {@link listed}, but an error where there is neither. */
  list(index: number, attribute: string): readonly number[] {
    const numbers = this.listed(index, attribute);
    if (numbers === undefined)
      throw new HeddleError("format", `${attribute} is neither input ${index} nor an attribute`);
    return numbers;
  }

  /** A known input as one number. */
  number(index: number, otherwise?: number): number {
    if (otherwise !== undefined && !this.has(index)) return otherwise;
    const { shape } = this.value(index).type;
    if (sizeOf(shape) !== 1) throw new HeddleError("shape", `input ${index} has ${sizeOf(shape)} values, not one`);
    return this.numbers(index)[0] as number;
  }

  /** A key (u32[2]) that is this node's alone, from its seed or from the key that the model is applied with. */
  randomKey(): Tensor {
    return this.#keyOf(this.hasAttribute("seed") ? this.float("seed") : undefined);
  }

  hasAttribute(name: string): boolean {
    return this.#attributes.has(name);
  }

  #attribute<Item>(name: string, read: (attribute: AttributeProto) => Item | undefined, otherwise?: Item): Item {
    const attribute = this.#attributes.get(name);
    if (attribute?.refAttrName)
      throw new HeddleError(
        "format",
        `attribute ${name} refers to an attribute of a function, but the node is in no function`,
      );
    const value = attribute === undefined ? otherwise : read(attribute);
    if (value === undefined) throw new HeddleError("format", `attribute ${name} is missing`);
    return value;
  }

  int(name: string, otherwise?: number): number {
    return this.#attribute(name, ({ i, type }) => i ?? (type === 2 ? 0 : undefined), otherwise);
  }

  flag(name: string, otherwise: boolean): boolean {
    return this.int(name, otherwise ? 1 : 0) !== 0;
  }

  float(name: string, otherwise?: number): number {
    return this.#attribute(name, ({ f, type }) => f ?? (type === 1 ? 0 : undefined), otherwise);
  }

  ints(name: string, otherwise?: readonly number[]): readonly number[] {
    return this.#attribute(name, ({ ints }) => ints, otherwise);
  }

  floats(name: string, otherwise?: readonly number[]): readonly number[] {
    return this.#attribute(name, ({ floats }) => floats, otherwise);
  }

  string(name: string, otherwise?: string): string {
    return this.#attribute(
      name,
      ({ s, type }) => (s === undefined && type !== 3 ? undefined : text.decode(s)),
      otherwise,
    );
  }

  strings(name: string, otherwise?: readonly string[]): readonly string[] {
    return this.#attribute(name, ({ strings }) => strings?.map((bytes) => text.decode(bytes)), otherwise);
  }

  tensor(name: string): HostTensor {
    return hostOfProto(
      this.#attribute(name, ({ t }) => t),
      "an attribute",
    );
  }

  sparseTensor(name: string): HostTensor {
    return hostOfSparse(
      this.#attribute(name, (attribute) => attribute.sparseTensor),
      "an attribute",
    );
  }

  graph(name: string): GraphProto {
    return this.#attribute(name, ({ g }) => g);
  }

  /** A dim counted from the end where negative, within the rank of an input. */
  axis(name = "axis", otherwise?: number, rank = this.rank()): number {
    return normalizeDim(this.int(name, otherwise), rank, this.node.opType ?? "");
  }

  dims(list: readonly number[], rank = this.rank()): number[] {
    return list.map((dim) => normalizeDim(dim, rank, this.node.opType ?? ""));
  }
}
