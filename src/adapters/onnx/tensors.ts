/** @module Tensors of ONNX files: their dtypes, and their values in any form that a file may hold. */

import { HeddleError } from "../../extend/index.ts";
import { type Tensor, tensor } from "../../functions/index.ts";
import {
  type DType,
  dtypes,
  formatShape,
  type HostTensor,
  isLong,
  sizeOf,
  stridesOf,
  type TypedArray,
} from "../../ir/index.ts";
import type { SparseTensorProto, TensorProto } from "./messages.ts";

interface OnnxType {
  readonly name: string;
  readonly bytes: number;
  /** Heddle's dtype; undefined where Heddle has none. */
  readonly dtype: DType | undefined;
  /** The field of values that are not raw bytes. */
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

/** The dtype of shapes and indices. */
export const int64: DType = "i64";

/** Heddle's dtype of an ONNX type. @throws HeddleError `dtype` naming the type where there is none. */
export function dtypeOfCode(code: number, what: string): DType {
  const type = onnxTypes[code];
  const dtype = type?.dtype;
  if (dtype === undefined)
    throw new HeddleError("dtype", `${what} is ${type?.name ?? `of type ${code}`}, which Heddle has no dtype for`);
  return dtype;
}

/** Whether an ONNX type has a dtype of Heddle's. */
export const hasDType = (code: number | undefined): boolean => onnxTypes[code ?? 0]?.dtype !== undefined;

/** The ONNX type of a dtype. */
export function codeOfDType(dtype: DType): number {
  return Number(Object.keys(onnxTypes).find((code) => onnxTypes[Number(code)]?.dtype === dtype));
}

/** The dtype and the size of a tensor, by its shape and type. @throws HeddleError `dtype`, `format`. */
function typeOfProto({ name = "", dims, dataType = 0 }: TensorProto, file: string) {
  const what = `tensor "${name}" of ${file}`;
  const dtype = dtypeOfCode(dataType, what);
  const wrong = (problem: string): HeddleError => new HeddleError("format", `${what} ${problem}`);
  if (!dims.every((size) => Number.isSafeInteger(size) && size >= 0)) throw wrong(`has shape ${formatShape(dims)}`);
  return { dtype, type: onnxTypes[dataType] as OnnxType, size: sizeOf(dims), wrong };
}

/** The values of a tensor, which must be in the message. @throws HeddleError `format`, `dtype`. */
export function hostOfProto(proto: TensorProto, file: string): HostTensor {
  const { dtype, type, size, wrong } = typeOfProto(proto, file);
  const { dims: shape, rawData: raw } = proto;
  if (raw === undefined) return { dtype, shape, data: listed(proto, type, dtype, size, wrong) };
  if (raw.length !== size * type.bytes)
    throw wrong(`has ${raw.length} bytes, but ${type.name}${formatShape(shape)} takes ${size * type.bytes}`);
  // A copy, unless the bytes have a buffer of their own: bytes of a message are not aligned.
  const alone = raw.length === raw.buffer.byteLength;
  const buffer = (alone ? raw : new Uint8Array(raw)).buffer as ArrayBuffer;
  const data = dtypes[dtype].view(buffer, 0, size);
  if (dtype === "bool" && new Uint8Array(buffer).some((value) => value > 1)) throw wrong("is bool, but holds others");
  return { dtype, shape, data };
}

/** The values of a field of numbers. */
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
  // Floats of 16 bits are listed as integers with the same bits.
  if (type.bytes === 2) return dtypes[dtype].view(Uint16Array.from(values as readonly number[]).buffer, 0, size);
  return dtypes[dtype].create(values.map(Number));
}

/** The number of bytes of a tensor's raw values. @throws HeddleError `dtype`, `format`. */
export function rawBytesOf(proto: TensorProto, file: string): number {
  const { type, size } = typeOfProto(proto, file);
  return size * type.bytes;
}

/** The dense form of a sparse tensor, whose entries have their positions in row-major order or one index for each dim. */
export function hostOfSparse({ values, indices, dims }: SparseTensorProto, file: string): HostTensor {
  if (values === undefined) throw new HeddleError("format", `a sparse tensor of ${file} has no values`);
  const [entries, positions] = [hostOfProto(values, file), indices && hostOfProto(indices, file)];
  const { size } = typeOfProto({ ...values, dims }, file);
  const count = entries.data.length;
  const data = dtypes[entries.dtype].create(size);
  const [strides, width] = [stridesOf(dims), positions?.shape[1] ?? 1];
  const linear = positions === undefined || positions.shape.length < 2;
  for (let entry = 0; entry < count; entry++) {
    const index = (dim: number): number => Number(positions?.data[entry * width + dim]);
    const flat = linear ? index(0) : dims.reduce((sum, _size, dim) => sum + index(dim) * (strides[dim] as number), 0);
    if (!(flat >= 0 && flat < size))
      throw new HeddleError(
        "format",
        `sparse tensor "${values.name ?? ""}" of ${file} has an entry at ${flat} of ${size}`,
      );
    data[flat] = entries.data[entry] as number;
  }
  return { dtype: entries.dtype, shape: dims, data };
}

/** A tensor of values that a file holds. */
export const tensorOf = ({ dtype, shape, data }: HostTensor): Tensor => tensor(data, { dtype, shape });
