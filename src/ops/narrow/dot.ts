/** @module The kernel call of a product: narrow numbers have a kernel of their own. */
import type { DType } from "../../ir/dtype.ts";
import type { KernelCall, KernelContext, View } from "../../ir/kernel.ts";
import * as kernels from "../../kernels/index.ts";
import { widens } from "./dtypes.ts";

/** Whether native code computes a product of these operands without making them wider first. */
export const takesHalf = ([x]: readonly { readonly dtype: DType }[]): boolean => x?.dtype === "bf16";

/** The call of a product of matrices `[b m k]` and `[b k n]`. */
export function productCall(context: KernelContext<unknown>, x: View, y: View): KernelCall {
  const [b, m, k2] = x.shape as [number, number, number];
  const [n, out] = [y.shape[2] as number, context.outputs[0] as View];
  const side = ({ strides, ...view }: View) => ({ at: context.at({ strides, ...view }), strides });
  const sizes = { dtype: out.dtype, b, m, k2, n, out: { at: context.at(out), strides: [m * n, n, 1] } };
  if (!takesHalf([x]) && !widens(x.dtype, y.dtype, out.dtype))
    return kernels.dot.call({ ...sizes, x: side(x), y: side(y) });
  const narrow = (view: View) => ({ ...side(view), dtype: view.dtype });
  return kernels.narrowDot.call({ ...sizes, x: narrow(x), y: narrow(y) });
}
