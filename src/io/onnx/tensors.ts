/** @module Tensors of ONNX files: their dtypes, their values in any of the forms that a file may hold them in. */
import { realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, sep } from "node:path";
import { type DType, dtypes, isLong, type TypedArray } from "../../ir/dtype.ts";
import type { HostTensor } from "../../ir/node.ts";
import { formatShape, sizeOf } from "../../ir/shape.ts";
import { HeddleError } from "../../util/errors.ts";
import { readWhole, unreadable } from "../read.ts";
import type { TensorProto } from "./messages.ts";

interface OnnxType {
  readonly name: string;
  readonly bytes: number;
  /** Heddle's dtype of that meaning. */
  readonly dtype: DType | undefined;
  /** The field that holds values which are not raw. */
  readonly field: "floatData" | "int32Data" | "int64Data" | "doubleData" | "uint64Data";
}

/** TensorProto.DataType by number. */
const onnxTypes: { readonly [code: number]: OnnxType } = {
  1: { name: "float", bytes: 4, dtype: "f32", field: "floatData" },
  2: { name: "uint8", bytes: 1, dtype: "u8", field: "int32Data" },
  3: { name: "int8", bytes: 1, dtype: "i8", field: "int32Data" },
  4: { name: "uint16", bytes: 2, dtype: undefined, field: "int32Data" },
  5: { name: "int16", bytes: 2, dtype: undefined, field: "int32Data" },
  6: { name: "int32", bytes: 4, dtype: "i32", field: "int32Data" },
  7: { name: "int64", bytes: 8, dtype: "i64", field: "int64Data" },
  8: { name: "string", bytes: 0, dtype: undefined, field: "int32Data" },
  9: { name: "bool", bytes: 1, dtype: "bool", field: "int32Data" },
  10: { name: "float16", bytes: 2, dtype: "f16", field: "int32Data" },
  11: { name: "double", bytes: 8, dtype: "f64", field: "doubleData" },
  12: { name: "uint32", bytes: 4, dtype: "u32", field: "uint64Data" },
  13: { name: "uint64", bytes: 8, dtype: "u64", field: "uint64Data" },
  14: { name: "complex64", bytes: 8, dtype: undefined, field: "floatData" },
  15: { name: "complex128", bytes: 16, dtype: undefined, field: "doubleData" },
  16: { name: "bfloat16", bytes: 2, dtype: "bf16", field: "int32Data" },
  17: { name: "float8e4m3fn", bytes: 1, dtype: undefined, field: "int32Data" },
  18: { name: "float8e4m3fnuz", bytes: 1, dtype: undefined, field: "int32Data" },
  19: { name: "float8e5m2", bytes: 1, dtype: undefined, field: "int32Data" },
  20: { name: "float8e5m2fnuz", bytes: 1, dtype: undefined, field: "int32Data" },
  21: { name: "uint4", bytes: 0, dtype: undefined, field: "int32Data" },
  22: { name: "int4", bytes: 0, dtype: undefined, field: "int32Data" },
  23: { name: "float4e2m1", bytes: 0, dtype: undefined, field: "int32Data" },
};

/** What shapes and indices are. */
export const int64: DType = "i64";

/** Heddle's dtype of an ONNX type. @throws HeddleError `dtype` naming the type where there is none. */
export function dtypeOfCode(code: number, what: string): DType {
  const type = onnxTypes[code];
  const dtype = type?.dtype;
  if (dtype === undefined)
    throw new HeddleError("dtype", `${what} is ${type?.name ?? `of type ${code}`}, which Heddle has no dtype for`);
  return dtype;
}

/** The ONNX type of a dtype. */
export function codeOfDType(dtype: DType): number {
  return Number(Object.keys(onnxTypes).find((code) => onnxTypes[Number(code)]?.dtype === dtype));
}

/** The values of a tensor. `external` are the bytes that it keeps in another file. @throws HeddleError `format`, `dtype`. */
export function hostOfProto(proto: TensorProto, file: string, external?: Uint8Array): HostTensor {
  const what = `tensor "${proto.name ?? ""}" of ${file}`;
  const wrong = (problem: string): HeddleError => new HeddleError("format", `${what} ${problem}`);
  const code = proto.dataType ?? 0;
  const dtype = dtypeOfCode(code, what);
  const type = onnxTypes[code] as OnnxType;
  const shape = proto.dims;
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) throw wrong(`has shape ${formatShape(shape)}`);
  const size = sizeOf(shape);
  const raw = external ?? proto.rawData;
  if (raw === undefined) return { dtype, shape, data: listed(proto, type, dtype, size, wrong) };
  if (raw.length !== size * type.bytes)
    throw wrong(`has ${raw.length} bytes, but ${type.name}${formatShape(shape)} takes ${size * type.bytes}`);
  // A copy: bytes of a message are aligned to nothing.
  const { buffer } = new Uint8Array(raw);
  const data = dtypes[dtype].view(buffer, 0, size);
  if (dtype === "bool" && new Uint8Array(buffer).some((value) => value > 1)) throw wrong("is bool, but holds others");
  return { dtype, shape, data };
}

/** Values that stand in a field of numbers. */
function listed(
  proto: TensorProto,
  type: OnnxType,
  dtype: DType,
  size: number,
  wrong: (problem: string) => HeddleError,
): TypedArray {
  const values: readonly (number | bigint)[] = proto[type.field] ?? [];
  if (values.length !== size) throw wrong(`has ${values.length} values for ${size} places`);
  if (isLong(dtype)) return dtypes[dtype].create(values as readonly number[]);
  // Floats of 16 bits are listed as the integers that their bits are.
  if (type.bytes === 2) return dtypes[dtype].view(Uint16Array.from(values as readonly number[]).buffer, 0, size);
  return dtypes[dtype].create(values.map(Number));
}

/**
 * The bytes of a tensor that lies in a file of its own, which must be within the folder of the model: no absolute path, no
 * `..`, no link that leads out.
 */
export async function readExternal(proto: TensorProto, modelPath: string): Promise<Uint8Array> {
  const fields = new Map((proto.externalData ?? []).map(({ key, value }) => [key, value]));
  const location = fields.get("location") ?? "";
  const what = `tensor "${proto.name ?? ""}" of ${modelPath}`;
  const refused = new HeddleError("format", `${what} lies in "${location}", which is not within the model's folder`, {
    hint: "put the data beside the model, or save the model as one file",
  });
  if (location === "" || isAbsolute(location) || location.split(/[/\\]/).includes("..")) throw refused;
  const folder = await realpath(dirname(modelPath));
  const path = await realpath(join(folder, location)).catch((error: unknown) => {
    throw unreadable(`loadOnnx: ${what}`, join(folder, location), error);
  });
  if (!path.startsWith(folder + sep)) throw refused;
  const bytes = await readWhole(`loadOnnx: ${what}`, path);
  const number = (name: string, otherwise: number): number => Number(fields.get(name) ?? otherwise);
  const offset = number("offset", 0);
  const length = number("length", bytes.length - offset);
  if (![offset, length].every(Number.isSafeInteger) || offset < 0 || length < 0 || offset + length > bytes.length)
    throw new HeddleError("format", `${what} is bytes ${offset} to ${offset + length} of a file of ${bytes.length}`);
  return bytes.subarray(offset, offset + length);
}
