/**
 * @module ONNX files as messages of protobuf: a table of the fields that are read and written, with the numbers of
 * onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), and one reader and one writer over it. Fields
 * that are not in the table are skipped.
 */

import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { checkRecognised, HeddleError } from "../../extend/index.ts";

type Scalar = "int" | "big" | "float" | "double" | "string" | "bytes";
type Kind = Scalar | (() => Message);
/** Number and kind of a field. A repeated field is an array, which is empty where the field is absent. */
type Field = readonly [number: number, kind: Kind, repeated?: "repeated"];
interface Message {
  readonly name: string;
  readonly fields: { readonly [field: string]: Field };
}

export interface Dimension {
  readonly dimValue?: number;
  readonly dimParam?: string;
}
/** The type of a value. For a type other than a tensor only its kind is read. */
export interface TypeProto {
  readonly tensorType?: { readonly elemType?: number; readonly shape?: { readonly dim: readonly Dimension[] } };
  readonly sequenceType?: object;
  readonly mapType?: object;
  readonly sparseTensorType?: object;
  readonly optionalType?: object;
}
export interface ValueInfo {
  readonly name?: string;
  readonly type?: TypeProto;
}
export interface StringEntry {
  readonly key?: string;
  readonly value?: string;
}
export interface TensorProto {
  readonly dims: readonly number[];
  readonly dataType?: number;
  readonly floatData?: readonly number[];
  readonly int32Data?: readonly number[];
  readonly int64Data?: readonly bigint[];
  readonly doubleData?: readonly number[];
  readonly uint64Data?: readonly bigint[];
  readonly name?: string;
  readonly rawData?: Uint8Array;
  readonly externalData?: readonly StringEntry[];
  readonly dataLocation?: number;
}
/** A tensor by its entries, named as its `values` are. */
export interface SparseTensorProto {
  readonly values?: TensorProto;
  readonly indices?: TensorProto;
  readonly dims: readonly number[];
}
export interface AttributeProto {
  readonly name?: string;
  readonly refAttrName?: string;
  readonly type?: number;
  readonly f?: number;
  readonly i?: number;
  readonly s?: Uint8Array;
  readonly t?: TensorProto;
  readonly g?: GraphProto;
  readonly floats?: readonly number[];
  readonly ints?: readonly number[];
  readonly strings?: readonly Uint8Array[];
  readonly sparseTensor?: SparseTensorProto;
}
export interface NodeProto {
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly name?: string;
  readonly opType?: string;
  readonly domain?: string;
  readonly overload?: string;
  readonly attribute: readonly AttributeProto[];
  /** In memory alone: the version of ONNX's ops that a node has from the function that it was in. */
  readonly opset?: number;
}
export interface GraphProto {
  readonly node: readonly NodeProto[];
  readonly name?: string;
  readonly initializer: readonly TensorProto[];
  readonly sparseInitializer?: readonly SparseTensorProto[];
  readonly input: readonly ValueInfo[];
  readonly output: readonly ValueInfo[];
}
export interface OpsetProto {
  readonly domain?: string;
  readonly version?: number;
}
export interface FunctionProto {
  readonly name?: string;
  readonly domain?: string;
  readonly overload?: string;
  readonly input: readonly string[];
  readonly output: readonly string[];
  readonly node: readonly NodeProto[];
  readonly opsetImport: readonly OpsetProto[];
  /** Attributes with defaults; the attributes without a default are a list of names, which is not read. */
  readonly attributeProto: readonly AttributeProto[];
}
export interface ModelProto {
  readonly irVersion?: number;
  readonly opsetImport: readonly OpsetProto[];
  readonly producerName?: string;
  readonly producerVersion?: string;
  readonly graph?: GraphProto;
  readonly functions?: readonly FunctionProto[];
}

const stringEntry: Message = { name: "StringStringEntryProto", fields: { key: [1, "string"], value: [2, "string"] } };
const dimension: Message = { name: "Dimension", fields: { dimValue: [1, "int"], dimParam: [2, "string"] } };
const shape: Message = { name: "TensorShapeProto", fields: { dim: [1, () => dimension, "repeated"] } };
const tensorType: Message = { name: "Tensor", fields: { elemType: [1, "int"], shape: [2, () => shape] } };
const kind: Message = { name: "TypeProto", fields: {} };
const type: Message = {
  name: "TypeProto",
  fields: {
    tensorType: [1, () => tensorType],
    sequenceType: [4, () => kind],
    mapType: [5, () => kind],
    sparseTensorType: [8, () => kind],
    optionalType: [9, () => kind],
  },
};
const valueInfo: Message = { name: "ValueInfoProto", fields: { name: [1, "string"], type: [2, () => type] } };
const tensor: Message = {
  name: "TensorProto",
  fields: {
    dims: [1, "int", "repeated"],
    dataType: [2, "int"],
    floatData: [4, "float", "repeated"],
    int32Data: [5, "int", "repeated"],
    int64Data: [7, "big", "repeated"],
    name: [8, "string"],
    rawData: [9, "bytes"],
    doubleData: [10, "double", "repeated"],
    uint64Data: [11, "big", "repeated"],
    externalData: [13, () => stringEntry, "repeated"],
    dataLocation: [14, "int"],
  },
};
const sparse: Message = {
  name: "SparseTensorProto",
  fields: { values: [1, () => tensor], indices: [2, () => tensor], dims: [3, "int", "repeated"] },
};
const attribute: Message = {
  name: "AttributeProto",
  fields: {
    name: [1, "string"],
    f: [2, "float"],
    i: [3, "int"],
    s: [4, "bytes"],
    t: [5, () => tensor],
    g: [6, () => graph],
    floats: [7, "float", "repeated"],
    ints: [8, "int", "repeated"],
    strings: [9, "bytes", "repeated"],
    type: [20, "int"],
    refAttrName: [21, "string"],
    sparseTensor: [22, () => sparse],
  },
};
const node: Message = {
  name: "NodeProto",
  fields: {
    input: [1, "string", "repeated"],
    output: [2, "string", "repeated"],
    name: [3, "string"],
    opType: [4, "string"],
    attribute: [5, () => attribute, "repeated"],
    domain: [7, "string"],
    overload: [8, "string"],
  },
};
const graph: Message = {
  name: "GraphProto",
  fields: {
    node: [1, () => node, "repeated"],
    name: [2, "string"],
    initializer: [5, () => tensor, "repeated"],
    input: [11, () => valueInfo, "repeated"],
    output: [12, () => valueInfo, "repeated"],
    sparseInitializer: [15, () => sparse, "repeated"],
  },
};
const opset: Message = { name: "OperatorSetIdProto", fields: { domain: [1, "string"], version: [2, "int"] } };
const functionOfNodes: Message = {
  name: "FunctionProto",
  fields: {
    name: [1, "string"],
    input: [4, "string", "repeated"],
    output: [5, "string", "repeated"],
    node: [7, () => node, "repeated"],
    opsetImport: [9, () => opset, "repeated"],
    domain: [10, "string"],
    attributeProto: [11, () => attribute, "repeated"],
    overload: [13, "string"],
  },
};
const model: Message = {
  name: "ModelProto",
  fields: {
    irVersion: [1, "int"],
    producerName: [2, "string"],
    producerVersion: [3, "string"],
    graph: [7, () => graph],
    opsetImport: [8, () => opset, "repeated"],
    functions: [25, () => functionOfNodes, "repeated"],
  },
};

const malformed = (file: string, problem: string, cut = false): HeddleError =>
  new HeddleError(
    "format",
    `${file} is not a valid ONNX file: ${problem}`,
    cut ? { hint: "download or write it again: it is not whole" } : {},
  );

/** The deepest nesting of messages: graphs in attributes of nodes nest. */
const deepest = 64;

interface Reading {
  readonly reader: BinaryReader;
  readonly file: string;
  readonly depth: number;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Names are UTF-8; the bytes of other names become characters one by one, so that names stay distinct. */
function textOf(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    return Buffer.from(bytes).toString("latin1");
  }
}

function readScalar(reader: BinaryReader, kind: Scalar): unknown {
  switch (kind) {
    case "int":
      // Beyond 2^53 are only limits of slices, which mean "to the end".
      return Number(reader.int64());
    case "big":
      return BigInt(reader.int64());
    case "float":
      return reader.float();
    case "double":
      return reader.double();
    case "string":
      return textOf(reader.bytes());
    case "bytes":
      return reader.bytes();
  }
}

const wireOf: { readonly [K in Scalar]: WireType } = {
  int: WireType.Varint,
  big: WireType.Varint,
  float: WireType.Bit32,
  double: WireType.Bit64,
  string: WireType.LengthDelimited,
  bytes: WireType.LengthDelimited,
};

function readField({ reader, file, depth }: Reading, [, kind]: Field, wire: WireType, what: string): unknown[] {
  const expected = typeof kind === "function" ? WireType.LengthDelimited : wireOf[kind];
  if (typeof kind === "function" && wire === expected)
    return [readMessage(new BinaryReader(reader.bytes()), kind(), file, depth + 1)];
  if (typeof kind === "function") throw malformed(file, `${what} is not a message`);
  if (wire === expected) return [readScalar(reader, kind)];
  if (wire !== WireType.LengthDelimited) throw malformed(file, `${what} has wire type ${wire}`);
  // A packed field: numbers without tags.
  const packed = new BinaryReader(reader.bytes());
  const values: unknown[] = [];
  while (packed.pos < packed.len) values.push(readScalar(packed, kind));
  return values;
}

const known = new Map<Message, ReadonlyMap<number, { readonly name: string; readonly field: Field }>>();

/** The fields of a message by their numbers, looked up once. */
function fieldsOf(message: Message) {
  const found = known.get(message);
  if (found !== undefined) return found;
  const byNumber = new Map(Object.entries(message.fields).map(([name, field]) => [field[0], { name, field }]));
  known.set(message, byNumber);
  return byNumber;
}

function readMessage(reader: BinaryReader, message: Message, file: string, depth: number): object {
  if (depth > deepest) throw malformed(file, `graphs are nested more than ${deepest} messages deep`);
  const byNumber = fieldsOf(message);
  const content: Record<string, unknown> = {};
  for (const [name, [, , repeated]] of Object.entries(message.fields)) if (repeated !== undefined) content[name] = [];
  while (reader.pos < reader.len) {
    const [number, wire] = reader.tag();
    const entry = byNumber.get(number);
    if (entry === undefined) {
      reader.skip(wire, number);
      continue;
    }
    const { name, field } = entry;
    const values = readField({ reader, file, depth }, field, wire, `${message.name}.${name}`);
    if (field[2] === undefined) content[name] = values.at(-1);
    else for (const value of values) (content[name] as unknown[]).push(value);
  }
  return content;
}

function read(bytes: Uint8Array, message: Message, file: string): object {
  try {
    return readMessage(new BinaryReader(bytes), message, file, 0);
  } catch (error) {
    if (error instanceof HeddleError) throw error;
    const cut = error instanceof RangeError;
    throw malformed(file, cut ? "it ends in the middle of a message" : (error as Error).message, cut);
  }
}

/** Reads a model's messages. @throws HeddleError `format` when they are cut or malformed, or the file is something else. */
export function readModel(bytes: Uint8Array, file: string): ModelProto {
  checkRecognised(bytes, file, "ONNX", ["onnx"]);
  return read(bytes, model, file) as ModelProto;
}

/** Reads a file that is one tensor (`.pb`). */
export const readTensorProto = (bytes: Uint8Array, file: string): TensorProto =>
  read(bytes, tensor, file) as TensorProto;

function writeScalar(writer: BinaryWriter, kind: Scalar, value: unknown): void {
  switch (kind) {
    case "int":
      writer.int64(BigInt(value as number));
      return;
    case "big":
      writer.int64(value as bigint);
      return;
    case "float":
      writer.float(value as number);
      return;
    case "double":
      writer.double(value as number);
      return;
    case "string":
      writer.string(value as string);
      return;
    case "bytes":
      writer.bytes(value as Uint8Array);
  }
}

function writeMessage(writer: BinaryWriter, message: Message, content: { readonly [field: string]: unknown }): void {
  for (const [name, [number, kind, repeated]] of Object.entries(message.fields)) {
    const value = content[name];
    if (value === undefined) continue;
    for (const item of repeated === undefined ? [value] : (value as readonly unknown[])) {
      if (typeof kind === "function") {
        writer.tag(number, WireType.LengthDelimited).fork();
        writeMessage(writer, kind(), item as { readonly [field: string]: unknown });
        writer.join();
      } else {
        writer.tag(number, wireOf[kind]);
        writeScalar(writer, kind, item);
      }
    }
  }
}

/** The bytes of a model. */
export function writeModel(content: ModelProto): Uint8Array {
  const writer = new BinaryWriter();
  writeMessage(writer, model, content as unknown as { readonly [field: string]: unknown });
  return writer.finish();
}
