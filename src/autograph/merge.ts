/** @module One form for two ways that values may have come about: what differs between them becomes tensors. */
import type { Node } from "../ir/node.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import * as ops from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import type { TreeShape } from "../util/tree.ts";

/** Stands for a value that one of two ways does not give, and that nobody will read then. */
export const missing: unique symbol = Symbol("missing");

/** Where one side has the leaf of a merged tree: a leaf of its own, or a number that becomes one. */
export type Source = { readonly leaf: number } | { readonly constant: number };

/** A leaf of a merged tree. */
export interface MergedLeaf {
  readonly type: TensorType;
  readonly sources: readonly [Source, Source];
}

export interface Merged {
  readonly shape: TreeShape;
  readonly leaves: readonly MergedLeaf[];
}

/** A tree of one side, with the types of its leaves in order. */
export interface Side {
  readonly shape: TreeShape;
  readonly leaves: readonly TensorType[];
  /** What the side is called in errors, such as `where the condition holds`. */
  readonly when: string;
}

/** Says whose value it is and where: `'y'`; and the source line. */
export interface Naming {
  readonly name: (path: readonly number[]) => string;
  readonly where: string;
}

/**
 * The tree that both sides can give: tensors of one type stay, equal plain values stay, and a number or a truth value that is
 * another one (or a tensor) on the other side becomes a tensor.
 *
 * @throws HeddleError `autograph` naming the variable where the sides cannot be brought together.
 */
export function mergeTrees(left: Side, right: Side, naming: Naming): Merged {
  return new Merger([left, right], naming).run();
}

/** The leaf as a node, from the leaves of its side. */
export function sourceNode(source: Source, { dtype, shape }: TensorType, leaves: readonly Node[]): Node {
  return "leaf" in source ? (leaves[source.leaf] as Node) : ops.full(dtype, shape, source.constant);
}

const scalarOf = (value: unknown): TensorType | undefined => {
  if (typeof value === "number") return { dtype: "f32", shape: [] };
  return typeof value === "boolean" ? { dtype: "bool", shape: [] } : undefined;
};

class Merger {
  private readonly sides: readonly [Side, Side];
  private readonly naming: Naming;
  private readonly leaves: MergedLeaf[] = [];
  private readonly next: [number, number] = [0, 0];

  constructor(sides: readonly [Side, Side], naming: Naming) {
    this.sides = sides;
    this.naming = naming;
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
    const items = (one: TreeShape): readonly TreeShape[] | undefined => ("items" in one ? one.items : undefined);
    const [own, other] = [items(left), items(right)];
    const alike = left.kind === "record" && right.kind === "record" ? left.keys.join() === right.keys.join() : true;
    if (left.kind !== right.kind || own === undefined || own.length !== other?.length || !alike)
      throw this.error(path, `has one form ${this.sides[0].when} and another one ${this.sides[1].when}`);
    const merged = own.map((item, at) => this.merge(item, other[at] as TreeShape, [...path, at]));
    return { ...(left as TreeShape & { kind: "array" }), items: merged } as TreeShape;
  }

  private leaf(side: 0 | 1): { source: Source; type: TensorType } {
    const leaf = this.next[side]++;
    return { source: { leaf }, type: this.sides[side].leaves[leaf] as TensorType };
  }

  private both(path: readonly number[]): TreeShape {
    const [left, right] = [this.leaf(0), this.leaf(1)];
    if (!sameType(left.type, right.type)) {
      const texts = `is ${formatType(left.type)} ${this.sides[0].when} and ${formatType(right.type)} ${this.sides[1].when}`;
      throw this.error(path, texts, "shapes and dtypes are static: pad, mask or cast, so that both are alike");
    }
    this.leaves.push({ type: left.type, sources: [left.source, right.source] });
    return { kind: "leaf" };
  }

  /** A tensor on one side, a plain value on the other. */
  private promote(side: 0 | 1, value: unknown, path: readonly number[]): TreeShape {
    const { source, type } = this.leaf(side);
    const fits = type.dtype === "bool" ? typeof value === "boolean" : typeof value === "number";
    if (!fits) {
      const other = value === undefined ? "has no value" : `is ${shown(value)}`;
      throw this.error(
        path,
        `is ${formatType(type)} ${this.sides[side].when} and ${other} ${this.sides[1 - side]?.when}`,
      );
    }
    const constant = { constant: Number(value) };
    this.leaves.push({ type, sources: side === 0 ? [source, constant] : [constant, source] });
    return { kind: "leaf" };
  }

  private statics(
    left: TreeShape & { kind: "static" },
    right: TreeShape & { kind: "static" },
    path: readonly number[],
  ) {
    if (Object.is(left.value, right.value)) return left;
    const type = scalarOf(left.value);
    if (type === undefined || typeof left.value !== typeof right.value) {
      const texts = [left, right].map(({ value }, at) =>
        value === undefined ? `has no value ${this.sides[at]?.when}` : `is ${shown(value)} ${this.sides[at]?.when}`,
      );
      throw this.error(path, texts.join(" and "));
    }
    this.leaves.push({ type, sources: [{ constant: Number(left.value) }, { constant: Number(right.value) }] });
    return { kind: "leaf" } as const;
  }

  /** What the other side does not give is zeros there. */
  private oneSided(side: 0 | 1, shape: TreeShape): TreeShape {
    if (shape.kind === "leaf") {
      const { source, type } = this.leaf(side);
      const zeros = { constant: 0 };
      this.leaves.push({ type, sources: side === 0 ? [source, zeros] : [zeros, source] });
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
