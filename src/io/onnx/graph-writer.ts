/** @module Nodes and weights of an ONNX graph being written, each under a name of its own. */
import { dtypes } from "../../ir/dtype.ts";
import type { HostTensor } from "../../ir/node.ts";
import { bytesOfHost } from "../host.ts";
import type { AttributeProto, NodeProto, TensorProto } from "./messages.ts";
import { codeOfDType } from "./tensors.ts";

/** Attributes as JavaScript values: whole numbers are ints, `{ f: … }` floats. */
export interface GivenAttributes {
  readonly [name: string]: number | string | readonly number[] | { readonly f: number };
}

const text = new TextEncoder();

function attribute(name: string, value: GivenAttributes[string]): AttributeProto {
  if (typeof value === "number") return { name, i: value, type: 2 };
  if (typeof value === "string") return { name, s: text.encode(value), type: 3 };
  if ("f" in value) return { name, f: value.f, type: 1 };
  return { name, ints: value as readonly number[], type: 7 };
}

/** Collects a graph. */
export class GraphWriter {
  readonly nodes: NodeProto[] = [];
  readonly weights: TensorProto[] = [];
  readonly #names: Set<string>;
  readonly #lists = new Map<string, string>();
  #count = 0;

  constructor(inputs: readonly string[]) {
    this.#names = new Set(inputs);
  }

  #fresh(wanted: string): string {
    let name = wanted;
    while (this.#names.has(name)) name = `${wanted}_${this.#count++}`;
    this.#names.add(name);
    return name;
  }

  /** One node with one result, whose name is returned. */
  add(opType: string, inputs: readonly string[], attributes: GivenAttributes = {}): string {
    const output = this.#fresh(`${opType}_${this.#count++}`);
    this.nodes.push({
      input: inputs,
      output: [output],
      name: output,
      opType,
      attribute: Object.entries(attributes).map(([name, value]) => attribute(name, value)),
    });
    return output;
  }

  /** A tensor that is kept in the file. */
  weight(wanted: string, host: HostTensor): string {
    const name = this.#fresh(wanted);
    const { dtype, shape } = host;
    this.weights.push({ dims: shape, dataType: codeOfDType(dtype), name, rawData: bytesOfHost(host) });
    return name;
  }

  /** Whole numbers as a vector of int64, as shapes and axes are given; equal ones are kept once. */
  list(values: readonly number[]): string {
    const key = values.join(",");
    const known = this.#lists.get(key);
    if (known !== undefined) return known;
    const name = this.#fresh("list");
    const data = BigInt64Array.from(values, BigInt);
    this.weights.push({ dims: [values.length], dataType: 7, name, rawData: new Uint8Array(data.buffer) });
    this.#lists.set(key, name);
    return name;
  }

  /** A whole number as a scalar of int64, as an axis is given. */
  index(value: number): string {
    const name = this.#fresh("index");
    const data = BigInt64Array.of(BigInt(value));
    this.weights.push({ dims: [], dataType: 7, name, rawData: new Uint8Array(data.buffer) });
    return name;
  }

  /** One number. */
  scalar(dtype: HostTensor["dtype"], value: number): string {
    return this.weight("number", { dtype, shape: [], data: dtypes[dtype].create([value]) });
  }

  /** Gives an output its name: a node of its own, since it may be an input or another output too. */
  rename(from: string, to: string): void {
    this.#names.add(to);
    this.nodes.push({ input: [from], output: [to], name: `output ${to}`, opType: "Identity", attribute: [] });
  }
}
