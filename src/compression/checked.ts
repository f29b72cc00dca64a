/** @module A compressor whose results are checked while a step is traced: errors name the compressor and what it gave. */
import { isTensor, type Tensor } from "../functions/index.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { isRecord } from "../util/tree.ts";
import type { Compressed, Compressor, Parts } from "./compressor.ts";

const isParts = (value: unknown): value is Parts => isRecord(value) && Object.values(value).every(isTensor);

/** The compressor, with checked results. @throws HeddleError `option` where it does not say how its messages travel */
export function checked(by: Compressor): Compressor {
  const wrong = (problem: string, hint?: string): HeddleError =>
    new HeddleError("option", `compressor '${by.name}': ${problem}`, hint === undefined ? {} : { hint });
  if (by.travels !== "sum" && by.travels !== "gather")
    throw wrong(`travels must be "sum" or "gather", got ${shown(by.travels)}`);
  const compressed = (given: unknown, { shape: [devices] }: Tensor): Compressed => {
    const { message, shared = {} } = (isRecord(given) ? given : {}) as Partial<Compressed>;
    if (!isParts(message) || !isParts(shared))
      throw wrong(
        `compress must return { message, shared? } with tensors by name, got ${shown(given)}`,
        "write { message: { values: x } }",
      );
    for (const [name, x] of Object.entries(message))
      if (x.shape[0] !== devices)
        throw wrong(`message.${name} must have ${devices} rows, those of the devices, got ${formatType(x)}`);
    return { message, shared };
  };
  const typed = (what: string, given: unknown, { shape, dtype }: TensorType): Tensor => {
    if (isTensor(given) && given.dtype === dtype && String(given.shape) === String(shape)) return given;
    throw wrong(
      `${what} must give ${formatType({ shape, dtype })}, got ${isTensor(given) ? formatType(given) : shown(given)}`,
    );
  };
  const { total, warming } = by;
  return {
    ...by,
    compress: (x, given) => compressed(by.compress(x, given), x),
    decompress: (message, given) => {
      const rows = Object.values(message)[0]?.shape[0] ?? 1;
      return typed("decompress", by.decompress(message, given), { shape: [rows, ...given.shape], dtype: given.dtype });
    },
    ...(total === undefined
      ? {}
      : { total: (message, given) => typed("total", total.call(by, message, given), given) }),
    ...(warming === undefined ? {} : { warming: (share) => checked(warming.call(by, share)) }),
  };
}
