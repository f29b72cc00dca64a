/** @module Expressions of matrices: what a handle stands for until its value is asked for. */

import type { Tensor } from "../functions/index.ts";
import type { HostTensor } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";

/** Rows and columns. */
export type Size = readonly [rows: number, columns: number];

/** Attributes of an expression: what a program is compiled for. Numbers that vary from run to run are inputs instead. */
export type MatrixAttrs = Readonly<Record<string, unknown>>;

/** The dim along which a value has an element, or a run of elements, for each row of the examples. */
export type RowDim = 0 | 1;

/** One kind of expression. */
export interface Operator {
  readonly name: string;
  /** The value from the values of the inputs; all are f64 and have two dims, unless the operator says otherwise. */
  readonly build: (inputs: readonly Tensor[], attrs: MatrixAttrs, size: Size) => Tensor;
  /** Whether programs read the inputs even when the value is there: the inputs are how the matrix is kept. */
  readonly kept?: boolean;
  /**
   * For operands with rows along these dims (undefined: one value for all rows), the dim of the result's rows; `"sum"` if the result is
   * a sum over the rows, undefined if rows depend on each other otherwise. Default: they do.
   */
  readonly rows?: (dims: readonly (RowDim | undefined)[], attrs: MatrixAttrs) => RowDim | "sum" | undefined;
  /** Whether the result is another view of the operand, which takes no time. */
  readonly view?: true;
  /** Whether each element depends on those of its place alone; operands of one row or column are repeated. */
  readonly elementwise?: true;
  /** Whether it reads its operands in a loop of its own, as products and aggregates do. */
  readonly reads?: true;
  /** Floating-point operations, roughly; default the number of elements of the result and of the inputs. */
  readonly work?: (inputs: readonly Expression[], size: Size) => number;
}

/** A value of which this process has a part, or none yet. */
export interface Apart {
  /** The elements, from all workers; each of them must ask. */
  whole(): HostTensor;
}

/** A value that is kept between programs: elements on the host, a tensor, or blocks on the workers. */
export interface Stored {
  host?: HostTensor | undefined;
  tensor?: Tensor | undefined;
  apart?: Apart | undefined;
}

/** A node of the lazy graph: either stored, or an operator on other expressions. */
export interface Expression {
  readonly size: Size;
  readonly operator: Operator | undefined;
  readonly attrs: MatrixAttrs;
  /** Emptied when the value is stored, so that what it was computed from can be freed; kept while a gradient is recorded. */
  inputs: readonly Expression[];
  stored: Stored | undefined;
  /** An estimate of how many elements are not 0: exact for values that were given, else by the operator and its inputs. */
  readonly nonzeros: number;
}

export const noAttrs: MatrixAttrs = {};

export const cells = ([rows, columns]: Size): number => rows * columns;

export const isSize = (size: Size, rows: number, columns: number): boolean => size[0] === rows && size[1] === columns;

export const formatSize = ([rows, columns]: Size): string => `${rows}x${columns}`;

/** The elements of a stored value, row-major. */
export function hostOf(stored: Stored): HostTensor {
  const { tensor } = stored;
  stored.host ??= tensor && { dtype: tensor.dtype, shape: tensor.shape, data: tensor.dataSync() };
  stored.host ??= stored.apart?.whole();
  if (stored.host === undefined) throw new HeddleError("trace", "a matrix without a value was read");
  return stored.host;
}

/** An expression of given elements. */
export function storedExpression(stored: Stored, size: Size, nonzeros?: number): Expression {
  return {
    size,
    operator: undefined,
    attrs: noAttrs,
    inputs: [],
    stored,
    nonzeros: nonzeros ?? (stored.host === undefined ? cells(size) : countNonzeros(stored.host.data)),
  };
}

function countNonzeros(data: ArrayLike<number>): number {
  let count = 0;
  for (let index = 0; index < data.length; index++) if (data[index] !== 0) count++;
  return count;
}

/** A scalar as a 1x1 input, so that a program is not compiled for its value. */
export const numberExpression = (value: number): Expression =>
  storedExpression({ host: { dtype: "f64", shape: [1, 1], data: Float64Array.of(value) } }, [1, 1]);

/** Whole numbers as an i32 input: positions, and starts of slices. */
export const indexExpression = (values: ArrayLike<number>, shape: readonly number[]): Expression =>
  storedExpression({ host: { dtype: "i32", shape, data: Int32Array.from(values) } }, [values.length, 1], values.length);

/** Expressions that `roots` need and that have no value yet, inputs first, and the stored ones that they read, in the order of reading. */
export function pendingOrder(
  roots: readonly Expression[],
  isLeaf: (expression: Expression) => boolean = ({ stored, operator }) =>
    stored !== undefined && operator?.kept !== true,
): { readonly pending: readonly Expression[]; readonly leaves: readonly Expression[] } {
  const pending: Expression[] = [];
  const leaves: Expression[] = [];
  const seen = new Set<Expression>();
  // A loop of the user may have made a chain that is deeper than the stack.
  const stack: { readonly expression: Expression; next: number }[] = [];
  const visit = (expression: Expression): void => {
    if (seen.has(expression)) return;
    seen.add(expression);
    if (isLeaf(expression)) leaves.push(expression);
    else stack.push({ expression, next: 0 });
  };
  for (const root of roots) {
    visit(root);
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const input = top.expression.inputs[top.next++];
      if (input !== undefined) visit(input);
      else {
        pending.push(top.expression);
        stack.pop();
      }
    }
  }
  return { pending, leaves };
}
