/** @module What an op says about its native kernels, as data: `lower` reads it and never asks which op it is. */
import { type Absent, isAbsent } from "./absent.ts";
import type { DType } from "./dtype.ts";
import { range, type Shape, stridesOf, type TensorType } from "./shape.ts";

/** A strided window on a value: `origin` plus `offset` elements. `origin` is opaque to ops. */
export interface View {
  readonly origin: object;
  /** In elements. */
  readonly offset: number;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly strides: readonly number[];
}

/** An address in a kernel call that is resolved to `[space, byteOffset]` once memory is assigned. */
export class Ref {
  /** The value that has the memory. */
  readonly origin: object;
  /** From its beginning. */
  readonly byteOffset: number;
  constructor(origin: object, byteOffset: number) {
    this.origin = origin;
    this.byteOffset = byteOffset;
  }
}

/** Fields of one kernel call (docs/internals/lowered-program.md); addresses are {@link Ref}s. */
export type KernelCall = { readonly k: string; readonly [field: string]: unknown };

/** What a kernel is given to emit its calls. */
export interface KernelContext<A> {
  readonly attrs: A;
  /** Inputs; contiguous unless the rule says `strided`. */
  readonly inputs: readonly View[];
  /** Outputs, freshly assigned, contiguous unless the rule has an `outputOrder`. */
  readonly outputs: readonly View[];
  /** Address of a view's first element. */
  at(view: View): Ref;
  /** Asks for scratch memory for the length of this call. */
  scratch(bytes: number): Ref;
  /** A temporary of this type that lives for the length of the node. */
  temporary(type: TensorType): View;
  /** The view itself when it is contiguous, else a contiguous copy and the calls that make it. */
  contiguous(view: View): { readonly view: View; readonly calls: readonly KernelCall[] };
  /** Number of scratch pieces worth giving to a kernel that runs in parallel. */
  readonly slots: number;
  /** Index of a mesh axis. */
  axisIndex(axis: string): number;
}

/** What an op does with its operands, whichever executor runs it: planner, passes and fusion ask for nothing else. */
export type OpForm<A> =
  /** One scalar function of the elements at the same position; operands have the result's shape. */
  | {
      readonly kind: "pointwise";
      readonly instruction: (attrs: A, inputs: readonly TensorType[], output: TensorType) => ScalarInstruction;
    }
  /**
   * No work: another view of the first input; undefined when strides cannot express it, then the input is copied first. Who
   * reads it runs after the further inputs are there.
   */
  | { readonly kind: "view"; readonly view: (input: View, attrs: A, output: TensorType) => View | undefined }
  /** The same value as input 0's result `index`. */
  | { readonly kind: "element"; readonly index: (attrs: A) => number }
  /** Computed as a whole, by what an executor has for it; a composite may be opened into its body instead. */
  | {
      readonly kind: "kernel";
      /**
       * Whether it moves 16-bit floats as they are. Without it such an input becomes f32 before the calls, and such an output
       * is made in f32 and rounded after them.
       */
      readonly moves?: boolean | ((attrs: A) => boolean);
      /** Whether it is its first input, changed where and as the others say: an executor may change it in its place. */
      readonly updates?: true;
    };

/** The native kernel calls of an op whose form is `kernel`. Inputs not in `strided` are made contiguous first. */
export interface LowerRule<A> {
  /** Inputs that may have any strides. */
  readonly strided?: readonly number[];
  /** Whether the kernel computes with 16-bit floats of these inputs and outputs as they are. */
  readonly takesHalf?: (inputs: readonly View[], attrs: A, outputs: readonly View[]) => boolean;
  /**
   * Says that the kernel combines its input along dims, so that elementwise work before and after it can run in the
   * same walk over memory.
   */
  readonly fold?: (attrs: A) => FoldRule | undefined;
  /** Input whose memory the first output may take over when it dies here; `each`: output i that of input i. */
  readonly inPlace?: number | "each";
  /**
   * Order of dims, outermost first, in which the first output is best stored, given the inputs; undefined: row-major.
   * The output may yet come row-major, where others need it so.
   */
  readonly outputOrder?: (attrs: A, inputs: readonly View[], output: TensorType) => readonly number[] | undefined;
  /** Axis and so on of a communication step: it gets a place of its own in the program. */
  readonly emit: (context: KernelContext<A>) => readonly KernelCall[];
}

/** The form of an op that moves elements of any dtype. */
export const movingKernel = { kind: "kernel", moves: true } as const;

/** Whether an op moves 16-bit floats as they are. */
export function movesElements<A>(form: OpForm<A> | Absent, attrs: A): boolean {
  if (isAbsent(form) || form.kind !== "kernel") return false;
  return typeof form.moves === "function" ? form.moves(attrs) : form.moves === true;
}

/** What a kernel combines along which dims of its one input; its output has the other dims. */
export interface FoldRule {
  /** `argMax` is the i32 index of the first of the largest elements, or of the first NaN, along one dim. */
  readonly op: "sum" | "max" | "min" | "and" | "or" | "argMax";
  /** Ascending. */
  readonly dims: readonly number[];
}

/** `[name, dtype]` plus literal operands; registers are filled in by lowering. */
export interface ScalarInstruction {
  readonly name: string;
  readonly dtype: DType;
  /** Literal for `const` (value) and `iota` (dim). */
  readonly literal?: number;
}

/** Contiguous view of a whole value. */
export function wholeView(origin: object, type: TensorType): View {
  return { origin, offset: 0, dtype: type.dtype, shape: type.shape, strides: stridesOf(type.shape) };
}

/** View of a whole value that is stored without gaps, its dims in another order, outermost first. */
export function orderedView(origin: object, type: TensorType, order: readonly number[]): View {
  const strides = new Array<number>(order.length);
  let stride = 1;
  for (const dim of [...order].reverse()) {
    strides[dim] = stride;
    stride *= type.shape[dim] as number;
  }
  return { origin, offset: 0, dtype: type.dtype, shape: type.shape, strides };
}

/** The view with its dims in another order: dim `i` of the result is dim `order[i]`. */
export function permuteView(view: View, order: readonly number[]): View {
  const pick = (list: readonly number[]): number[] => order.map((dim) => list[dim] as number);
  return { ...view, shape: pick(view.shape), strides: pick(view.strides) };
}

/** The order of dims, outermost first, in which a view is row-major without gaps; undefined when there is none. */
export function denseOrder(view: View): number[] | undefined {
  if (view.shape.includes(0)) return range(view.shape.length);
  const stride = (dim: number): number => (view.shape[dim] === 1 ? 0 : (view.strides[dim] as number));
  const moving = view.shape
    .flatMap((size, dim) => (size === 1 ? [] : [dim]))
    .sort((left, right) => stride(right) - stride(left));
  const still = view.shape.flatMap((size, dim) => (size === 1 ? [dim] : []));
  const order = [...still, ...moving];
  return isContiguous(permuteView(view, order)) ? order : undefined;
}

/** Whether a view is row-major without gaps (sizes of 1 do not matter). */
export function isContiguous(view: View): boolean {
  if (view.shape.includes(0)) return true;
  let stride = 1;
  for (let dim = view.shape.length - 1; dim >= 0; dim--) {
    const size = view.shape[dim] as number;
    if (size !== 1 && view.strides[dim] !== stride) return false;
    stride *= size;
  }
  return true;
}

/** The view with another shape, when no copy is needed for it. */
export function reshapeView(view: View, shape: Shape): View | undefined {
  const sizes = view.shape.filter((size) => size !== 1);
  const steps = view.strides.filter((_stride, dim) => view.shape[dim] !== 1);
  if (shape.some((size) => size === 0)) return { ...view, shape, strides: shape.map(() => 0) };
  const strides = new Array<number>(shape.length).fill(0);
  let from = sizes.length - 1;
  let to = shape.length - 1;
  while (from >= 0 || to >= 0) {
    while (to >= 0 && shape[to] === 1) to--;
    if (from < 0 || to < 0) break;
    // One run of old dims that merge, against one run of new dims that split it.
    let oldSize = sizes[from] as number;
    let newSize = shape[to] as number;
    const first = to;
    let stride = steps[from] as number;
    while (oldSize !== newSize) {
      if (oldSize < newSize) {
        const outer = from - 1;
        if (outer < 0 || steps[outer] !== (steps[from] as number) * (sizes[from] as number)) return undefined;
        from = outer;
        oldSize *= sizes[from] as number;
      } else {
        to--;
        if (to < 0) return undefined;
        newSize *= shape[to] as number;
      }
    }
    for (let dim = first; dim >= to; dim--) {
      strides[dim] = stride;
      stride *= shape[dim] as number;
    }
    from--;
    to--;
  }
  return { ...view, shape, strides };
}
