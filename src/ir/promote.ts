/** @module The dtype of an operation on two dtypes: the table in docs/dtypes.md. */
import { type DType, dtypes, isFloat, isHalf, isSigned } from "./dtype.ts";

const signed: readonly DType[] = ["i8", "i32", "i64"];

/**
 * The dtype to which both operands of an elementwise operation are cast: bool gives way to all, integers to floats; the
 * wider one wins, f16 with bf16 gives f32, and integers of unlike sign go to the narrowest signed dtype that holds both.
 * None holds u64 and a signed dtype: undefined, where JAX and NumPy go to floats that lose digits.
 */
export function promote(x: DType, y: DType): DType | undefined {
  if (x === y || y === "bool") return x;
  if (x === "bool") return y;
  if (isFloat(x) !== isFloat(y)) return isFloat(x) ? x : y;
  const [wide, narrow] = dtypes[x].bytes >= dtypes[y].bytes ? [x, y] : [y, x];
  if (isFloat(x)) return isHalf(x) && isHalf(y) ? "f32" : wide;
  if (isSigned(wide) === isSigned(narrow)) return wide;
  const unsigned = isSigned(wide) ? narrow : wide;
  const least = isSigned(wide) ? wide : narrow;
  return signed.find(
    (dtype) => dtypes[dtype].bytes > dtypes[unsigned].bytes && dtypes[dtype].bytes >= dtypes[least].bytes,
  );
}
