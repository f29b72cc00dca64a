/**
 * @module Merges the values of two branches, or of two iterations, into one tree: values that differ become tensors.
 */
import { HeddleError, shown, type TreeShape } from "../../extend/browser.ts";
import { full, type Tensor } from "../../functions/index.ts";
import { formatType, sameType, type TensorType } from "../../ir/index.ts";
import { type Count, isCount } from "./counts.ts";

/** Stands for a value that one side does not give, and that is not read where that side is taken. */
export const missing: unique symbol = Symbol("missing");

/** The origin of a merged leaf on one side: a leaf of the side, or a number that becomes one. */
export type Source = { readonly leaf: number } | { readonly constant: number };

/** A tensor, which may stand for a whole number of the user's. */
export interface Leaf {
  readonly type: TensorType;
  readonly count: Count | undefined;
}

/** A leaf of a merged tree. */
export interface MergedLeaf extends Leaf {
  readonly sources: readonly [Source, Source];
}

export interface Merged {
  readonly shape: TreeShape;
  readonly leaves: readonly MergedLeaf[];
}

/** A tree of one side, with its leaves in order. */
export interface Side {
  readonly shape: TreeShape;
  readonly leaves: readonly Leaf[];
  /** What the side is called in errors, such as `where the condition holds`. */
  readonly when: string;
}

/** Names a value in errors, such as `'y'`, with the place in the source. */
export interface Naming {
  readonly name: (path: readonly number[]) => string;
  readonly where: string;
}

/**
 * The tree that fits both sides. Tensors of one type and equal plain values stay; a number or truth value that differs
 * from the other side's, or stands beside a tensor, becomes a tensor: i32 for whole numbers, f32 for other numbers,
 * bool for truth values.
 *
 * @param carried whether the second side is what an iteration makes of the first
 * @throws HeddleError `autograph` naming the variable where the sides cannot be brought together.
 */
export function mergeTrees(left: Side, right: Side, naming: Naming, carried = false): Merged {
  return new Merger([left, right], naming, carried).run();
}

/** The tensor of a leaf, from the leaves of its side. */
export function sourceTensor(source: Source, { dtype, shape }: TensorType, leaves: readonly Tensor[]): Tensor {
  return "leaf" in source ? (leaves[source.leaf] as Tensor).cast(dtype) : full(shape, source.constant, { dtype });
}

const float: Leaf = { type: { dtype: "f32", shape: [] }, count: undefined };
const whole = (count: Count): Leaf => ({ type: { dtype: "i32", shape: [] }, count });

/** The type of one tensor for two numbers or two truth values; undefined for other values. */
function scalarOf(left: unknown, right: unknown): Leaf | undefined {
  if (isCount(left) && isCount(right)) return whole("sum");
  if (typeof left === "number" && typeof right === "number") return float;
  const isBool = typeof left === "boolean" && typeof right === "boolean";
  return isBool ? { type: { dtype: "bool", shape: [] }, count: undefined } : undefined;
}

class Merger {
  private readonly sides: readonly [Side, Side];
  private readonly naming: Naming;
  private readonly leaves: MergedLeaf[] = [];
  private readonly next: [number, number] = [0, 0];
  private readonly carried: boolean;

  constructor(sides: readonly [Side, Side], naming: Naming, carried: boolean) {
    this.sides = sides;
    this.naming = naming;
    this.carried = carried;
  }

  run(): Merged {
    const shape = this.merge(this.sides[0].shape, this.sides[1].shape, []);
    return { shape, leaves: this.leaves };
  }

  private merge(left: TreeShape, right: TreeShape, path: readonly number[]): TreeShape {
    if (isMissing(left)) return this.oneSided(1, right);
    if (isMissing(right)) return this.oneSided(0, left);
    if (left.kind === "leaf" && right.kind === "leaf") return this.both(path);
    if (left.kind === "leaf" && right.kind === "static") return this.promote(0, right.value, path);
    if (left.kind === "static" && right.kind === "leaf") return this.promote(1, left.value, path);
    if (left.kind === "static" && right.kind === "static") return this.statics(left, right, path);
    const items = (shape: TreeShape): readonly TreeShape[] | undefined => ("items" in shape ? shape.items : undefined);
    const [leftItems, rightItems] = [items(left), items(right)];
    const alike = left.kind === "record" && right.kind === "record" ? left.keys.join() === right.keys.join() : true;
    if (left.kind !== right.kind || leftItems === undefined || leftItems.length !== rightItems?.length || !alike)
      throw this.error(path, `has one form ${this.sides[0].when} and another one ${this.sides[1].when}`);
    const merged = leftItems.map((item, at) => this.merge(item, rightItems[at] as TreeShape, [...path, at]));
    return { ...(left as TreeShape & { kind: "array" }), items: merged } as TreeShape;
  }

  private leaf(side: 0 | 1): Leaf & { source: Source } {
    const leaf = this.next[side]++;
    return { source: { leaf }, ...(this.sides[side].leaves[leaf] as Leaf) };
  }

  private both(path: readonly number[]): TreeShape {
    const [left, right] = [this.leaf(0), this.leaf(1)];
    const joined = this.joined(left, right);
    if (joined === undefined) {
      const texts = `is ${formatType(left.type)} ${this.sides[0].when} and ${formatType(right.type)} ${this.sides[1].when}`;
      throw this.error(path, texts, "shapes and dtypes are static: pad, mask or cast, so that both are alike");
    }
    this.leaves.push({ ...joined, sources: [left.source, right.source] });
    return { kind: "leaf" };
  }

  /**
   * The type of one tensor for two: whole numbers stay whole numbers, and beside another scalar they take its dtype.
   */
  private joined(left: Leaf, right: Leaf): Leaf | undefined {
    if (left.count !== undefined && right.count !== undefined) {
      if (this.carried) return right.count === "product" ? float : whole("sum");
      return whole(left.count === "product" ? "product" : right.count);
    }
    const isNumber = ({ type: { dtype, shape } }: Leaf): boolean => shape.length === 0 && dtype !== "bool";
    if (left.count !== undefined && isNumber(right)) return { type: right.type, count: undefined };
    if (right.count !== undefined && isNumber(left)) return { type: left.type, count: undefined };
    return sameType(left.type, right.type) ? { type: left.type, count: undefined } : undefined;
  }

  /** A tensor on one side, a plain value on the other. */
  private promote(side: 0 | 1, value: unknown, path: readonly number[]): TreeShape {
    const { source, type: leafType, count: known } = this.leaf(side);
    const isFraction = known !== undefined && typeof value === "number" && !isCount(value);
    const { type, count } = isFraction ? float : { type: leafType, count: known };
    const fits = type.dtype === "bool" ? typeof value === "boolean" : typeof value === "number";
    if (!fits) {
      const other = value === undefined ? "has no value" : `is ${shown(value)}`;
      throw this.error(
        path,
        `is ${formatType(type)} ${this.sides[side].when} and ${other} ${this.sides[1 - side]?.when}`,
      );
    }
    const constant = { constant: Number(value) };
    this.leaves.push({ type, count, sources: side === 0 ? [source, constant] : [constant, source] });
    return { kind: "leaf" };
  }

  private statics(
    left: TreeShape & { kind: "static" },
    right: TreeShape & { kind: "static" },
    path: readonly number[],
  ) {
    if (Object.is(left.value, right.value)) return left;
    const scalar = scalarOf(left.value, right.value);
    if (scalar === undefined) {
      const texts = [left, right].map(({ value }, at) =>
        value === undefined ? `has no value ${this.sides[at]?.when}` : `is ${shown(value)} ${this.sides[at]?.when}`,
      );
      throw this.error(path, texts.join(" and "));
    }
    this.leaves.push({ ...scalar, sources: [{ constant: Number(left.value) }, { constant: Number(right.value) }] });
    return { kind: "leaf" } as const;
  }

  /** Leaves that the other side does not give are zeros there. */
  private oneSided(side: 0 | 1, shape: TreeShape): TreeShape {
    if (shape.kind === "leaf") {
      const { source, ...leaf } = this.leaf(side);
      const zeros = { constant: 0 };
      this.leaves.push({ ...leaf, sources: side === 0 ? [source, zeros] : [zeros, source] });
    } else if ("items" in shape) for (const item of shape.items) this.oneSided(side, item);
    return shape;
  }

  private error(path: readonly number[], text: string, hint?: string): HeddleError {
    return new HeddleError("autograph", `${this.naming.name(path)} ${text}`, {
      where: this.naming.where,
      ...(hint === undefined ? {} : { hint }),
    });
  }
}

const isMissing = (shape: TreeShape): boolean => shape.kind === "static" && shape.value === missing;
