/** @module Nested objects and arrays of leaves (parameter trees, batches): flatten, rebuild, map. */
import { HeddleError } from "./errors.ts";
import { canonicalJson } from "./text.ts";

/** A leaf, or a nested record or array of leaves. */
export type Tree<Leaf> = Leaf | readonly Tree<Leaf>[] | { readonly [key: string]: Tree<Leaf> };

/** The structure of a tree without its leaves. */
export type TreeShape =
  | { readonly kind: "leaf" }
  | { readonly kind: "static"; readonly value: unknown }
  | { readonly kind: "array"; readonly items: readonly TreeShape[] }
  | { readonly kind: "record"; readonly keys: readonly string[]; readonly items: readonly TreeShape[] };

type LeafTest<Leaf> = (value: unknown) => value is Leaf;

export interface FlatTree<Leaf> {
  readonly leaves: Leaf[];
  /** Dotted path of each leaf (`"0.weight"`), in the order of `leaves`. */
  readonly paths: string[];
  readonly shape: TreeShape;
}

/**
 * Flattens a tree in insertion order of its keys. Values that are neither leaves, arrays nor plain records become
 * static parts of the structure (numbers, strings, functions).
 *
 * @throws HeddleError `tree` for a tree that contains itself
 */
export function flattenTree<Leaf>(tree: unknown, isLeaf: LeafTest<Leaf>): FlatTree<Leaf> {
  const leaves: Leaf[] = [];
  const paths: string[] = [];
  // The arrays and records around the value.
  const ancestors: unknown[] = [];
  const itemsOf = <Item>(value: unknown, path: string, visitAll: () => Item): Item => {
    if (ancestors.includes(value))
      throw new HeddleError("tree", `${path === "" ? "the tree" : `"${path}"`} contains itself`);
    ancestors.push(value);
    const items = visitAll();
    ancestors.pop();
    return items;
  };
  const visit = (value: unknown, path: string): TreeShape => {
    if (isLeaf(value)) {
      leaves.push(value);
      paths.push(path);
      return { kind: "leaf" };
    }
    const child = (key: string | number): string => (path === "" ? String(key) : `${path}.${key}`);
    if (Array.isArray(value)) {
      return {
        kind: "array",
        items: itemsOf(value, path, () => Array.from(value, (item, i) => visit(item, child(i)))),
      };
    }
    if (isRecord(value)) {
      const keys = Object.keys(value);
      return {
        kind: "record",
        keys,
        items: itemsOf(value, path, () => keys.map((key) => visit(value[key], child(key)))),
      };
    }
    return { kind: "static", value };
  };
  const shape = visit(tree, "");
  return { leaves, paths, shape };
}

/** The inverse of {@link flattenTree}. */
export function unflattenTree<Leaf>(shape: TreeShape, leaves: readonly Leaf[]): unknown {
  let next = 0;
  const build = (part: TreeShape): unknown => {
    switch (part.kind) {
      case "leaf":
        return leaves[next++];
      case "static":
        return part.value;
      case "array":
        return part.items.map(build);
      case "record":
        return Object.fromEntries(part.keys.map((key, index) => [key, build(part.items[index] as TreeShape)]));
    }
  };
  const tree = build(shape);
  if (next !== leaves.length) throw new HeddleError("tree", `tree takes ${next} leaves, got ${leaves.length}`);
  return tree;
}

/** A text that is equal for two trees of the same structure, including static parts. */
export function treeKey(shape: TreeShape): string {
  switch (shape.kind) {
    case "leaf":
      return "*";
    case "static":
      return staticKey(shape.value);
    case "array":
      return `[${shape.items.map(treeKey).join(",")}]`;
    case "record":
      return `{${shape.keys.map((key, index) => `${JSON.stringify(key)}:${treeKey(shape.items[index] as TreeShape)}`).join(",")}}`;
  }
}

/** Whether a tree has this structure, with the same static parts; adds its leaves. */
export function isLike<Leaf>(shape: TreeShape, tree: unknown, isLeaf: LeafTest<Leaf>, leaves: Leaf[]): boolean {
  switch (shape.kind) {
    case "leaf":
      return isLeaf(tree) && leaves.push(tree) > 0;
    case "static":
      return !isLeaf(tree) && Object.is(tree, shape.value);
    case "array":
      if (!Array.isArray(tree) || tree.length !== shape.items.length) return false;
      return shape.items.every((item, index) => isLike(item, tree[index], isLeaf, leaves));
    case "record": {
      if (!isRecord(tree)) return false;
      const keys = Object.keys(tree);
      const isKnown = (key: string, index: number): boolean =>
        key === shape.keys[index] && isLike(shape.items[index] as TreeShape, tree[key], isLeaf, leaves);
      return keys.length === shape.keys.length && keys.every(isKnown);
    }
  }
}

/** A text for a static part: plain values by value, functions and other objects by identity. */
export function staticKey(value: unknown): string {
  if (typeof value === "number" || typeof value === "string" || typeof value === "boolean") return canonicalJson(value);
  if ((typeof value === "object" && value !== null) || typeof value === "function") return `#${objectId(value)}`;
  return `${typeof value} ${String(value)}`;
}

const objectIds = new WeakMap<object, number>();
let nextObjectId = 0;

function objectId(value: object): number {
  let id = objectIds.get(value);
  if (id === undefined) {
    id = nextObjectId++;
    objectIds.set(value, id);
  }
  return id;
}

/** Whether a value is a plain record, whose values are parts of a tree. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
