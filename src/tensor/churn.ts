/** @module The warning, once per function, that the function is compiled again and again, and which dim or argument changes. */
import { formatType, type TensorType } from "../ir/shape.ts";
import { describePosition, type SourcePosition } from "../util/source.ts";
import { type FlatTree, staticKey, type TreeShape } from "../util/tree.ts";

/** The number of compilations that differ in only one place, at which the warning comes. */
const mostAlike = 8;
/** The number of earlier compilations that are compared. */
const mostKept = 32;

/** One property of the arguments that the choice of a program depends on, with its value. */
interface Trait {
  /** Such as `argument 1 (x), dim 0`. */
  readonly subject: string;
  readonly value: string;
  /** How to avoid the compilations. */
  readonly advice: string;
}

/** The arguments of the compilations of one function. */
export class Churn {
  private readonly name: string;
  private readonly position: SourcePosition;
  private readonly history: (readonly Trait[])[] = [];
  private warned = false;

  constructor(name: string, position: SourcePosition) {
    this.name = name;
    this.position = position;
  }

  /** Records a compilation; gives the warning if it is due. */
  note({ leaves, paths, shape }: Pick<FlatTree<TensorType>, "leaves" | "paths" | "shape">): string | undefined {
    if (this.warned) return undefined;
    const traits = [...leaves.flatMap((leaf, index) => dimsOf(leaf, paths[index] as string)), ...staticsOf(shape, "")];
    const alike = new Map<string, string[]>();
    for (const earlier of this.history) {
      const changed = onlyChange(earlier, traits);
      if (changed !== undefined) alike.set(changed.subject, [...(alike.get(changed.subject) ?? []), changed.value]);
    }
    this.history.push(traits);
    if (this.history.length > mostKept) this.history.shift();
    for (const trait of traits) {
      const values = [...(alike.get(trait.subject) ?? []), trait.value];
      if (values.length < mostAlike) continue;
      this.warned = true;
      this.history.length = 0;
      return this.warning(trait, values);
    }
    return undefined;
  }

  private warning({ subject, advice }: Trait, values: readonly string[]): string {
    const where = describePosition(this.position);
    const madeAt = where === undefined ? "" : ` (made at ${where})`;
    const list = values.map((value) => (value.length > 20 ? `${value.slice(0, 20)}…` : value)).join(", ");
    return `${this.name}${madeAt} has been compiled ${values.length} times, because ${subject} keeps changing: ${list}. ${advice}`;
  }
}

/** The earlier trait that differs, if it is the only one. */
function onlyChange(earlier: readonly Trait[], now: readonly Trait[]): Trait | undefined {
  if (earlier.length !== now.length) return undefined;
  const changed = earlier.filter(
    (trait, index) => trait.subject !== now[index]?.subject || trait.value !== now[index]?.value,
  );
  const [first] = changed;
  return changed.length === 1 && now.some((trait) => trait.subject === first?.subject) ? first : undefined;
}

/** `"0.weight"`: argument 0 (weight). */
function placeOf(path: string): string {
  const [index, ...rest] = path.split(".");
  return rest.length === 0 ? `argument ${index}` : `argument ${index} ('${rest.join(".")}')`;
}

function dimsOf(leaf: TensorType, path: string): Trait[] {
  const sizes = leaf.shape.map((size, dim) => ({
    subject: `dim ${dim} of ${placeOf(path)}`,
    value: String(size),
    advice: "Pad it to a few sizes (the next power of two, say), or cut it into parts of one size.",
  }));
  return [
    { subject: `the dtype of ${placeOf(path)}`, value: `${leaf.dtype}/${leaf.shape.length}`, advice: kind(leaf) },
    ...sizes,
  ];
}

const kind = (leaf: TensorType): string => `Cast it to one dtype before the call (the last was ${formatType(leaf)}).`;

function staticsOf(shape: TreeShape, path: string): Trait[] {
  const below = (key: string | number): string => (path === "" ? String(key) : `${path}.${key}`);
  switch (shape.kind) {
    case "leaf":
      return [];
    case "static":
      return [
        {
          subject: placeOf(path),
          value: staticKey(shape.value),
          advice:
            typeof shape.value === "number"
              ? "A number is part of the program: pass tensor(x) instead, and it is an input."
              : "A value that is not a tensor is part of the program: pass the same object each time, or a tensor.",
        },
      ];
    case "array":
      return shape.items.flatMap((item, index) => staticsOf(item, below(index)));
    case "record":
      return shape.items.flatMap((item, index) => staticsOf(item, below(shape.keys[index] as string)));
  }
}
