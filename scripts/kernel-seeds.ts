/**
 * @module Valid calls of every kernel, for tests that damage them: samples of sizes and kinds with the operands that the
 * descriptions in `src/kernels` ask for, and what tests may do to each.
 */
import { dtypes } from "../src/ir/dtype.ts";
import type { KernelCall } from "../src/ir/kernel.ts";
import { stridesOf } from "../src/ir/shape.ts";
import type { Access } from "../src/kernels/access.ts";
import { aligned, coveredBytes, descriptionOf } from "../src/kernels/index.ts";
import type { Field, Fields, Form } from "../src/kernels/schema.ts";
import { samples } from "./kernel-samples.ts";

/** Bytes of the arena and of the four buffers behind it. */
const spaces = [256 << 10, 4096, 4096, 4096, 4096];

type Held = { [field: string]: unknown };

/** A call, and places in it. */
interface Seed {
  readonly step: KernelCall;
  /** Fields that may be left out. */
  readonly optional: readonly string[];
  /** Sizes by whose growth an operand leaves its buffer. */
  readonly sizes: readonly string[];
  /** Addresses at which something lies: whether an output may replace it, bytes of an element, and of all of them. */
  readonly operands: readonly {
    readonly at: string;
    readonly role: Access["role"];
    readonly replaced: boolean;
    readonly width: number;
    readonly bytes: number;
  }[];
}

const value = (of: unknown, path: string): unknown =>
  path
    .split("/")
    .slice(1)
    .reduce((one, key) => (one as Held | undefined)?.[key], of);

function put(of: unknown, path: string, by: unknown): void {
  const end = path.lastIndexOf("/");
  (value(of, path.slice(0, end)) as Held)[path.slice(end + 1)] = by;
}

/** Where an access has its address: `parts[0].in` is `/parts/0/in`; an address with strides is in a record. */
function pathOf({ name }: Access, call: KernelCall): string {
  const path = `/${name.replaceAll(/\[(\d+)\]/g, "/$1").replaceAll(".", "/")}`;
  return Array.isArray(value(call, path)) ? path : `${path}/at`;
}

/** A sample with places for addresses: those that are needed, and optional ones that it has as `true`. */
function placed(sample: Held, fields: Fields, call: Held): Held {
  const fill = (form: Form, held: unknown): unknown => {
    switch (form.is) {
      case "address":
        return [0, 0];
      case "addresses": {
        const cases =
          typeof form.view === "object" && "by" in form.view ? form.view.cases[String(call[form.view.by])] : form.view;
        // A sample says how many there are, where the description does not.
        return Array.from(
          { length: typeof cases === "string" ? Number(held ?? 1) : (cases as string[]).length },
          () => [0, 0],
        );
      }
      case "record":
        return placed((held ?? {}) as Held, form.fields, call);
      case "records":
        return (held as Held[]).map((one) => placed(one, form.fields, call));
      case "strides":
        return held ?? [];
      default:
        return held;
    }
  };
  const there = Object.entries(fields).filter(([name, { needed }]) => needed || sample[name] !== undefined);
  return Object.fromEntries(there.map(([name, { form }]) => [name, fill(form, sample[name])]));
}

/** A call of a sample: the first operand that is read has a buffer of its own, the others share one, as those that are written. */
function filled({ k, ...sample }: KernelCall): KernelCall {
  const description = descriptionOf({ k });
  const call: KernelCall = { k, ...placed(sample, description.fields, sample) };
  const next = spaces.map(() => 0);
  const accesses = (): readonly Access[] => description.accesses(call, [1]);
  for (const [index, { shape, strides, role }] of accesses().entries()) {
    const path = pathOf(accesses()[index] as Access, call);
    if (strides.length < shape.length && path.endsWith("/at"))
      put(call, path.replace(/at$/, "strides"), stridesOf(shape));
    const { low, high } = coveredBytes(accesses()[index] as Access);
    const own = role === "read" ? 1 : 3;
    const space = role === "scratch" ? 0 : own + (next[own] === 0 ? 0 : 1);
    const offset = next[space] as number;
    const same = value(sample, path);
    put(call, path, typeof same === "string" ? value(call, `/${same}`) : [space, offset - low]);
    next[space] = aligned(offset + high - low) || 64;
  }
  return call;
}

/** Paths of fields in a call that satisfy a condition. */
function fieldsIn(held: Held, fields: Fields, path: string, wanted: (field: Field) => boolean): string[] {
  return Object.entries(held).flatMap(([name, one]) => {
    const field = fields[name];
    if (field === undefined) return [];
    const here = `${path}/${name}`;
    const { form } = field;
    const inner = !("fields" in form)
      ? []
      : form.is === "record"
        ? fieldsIn(one as Held, form.fields, here, wanted)
        : (one as Held[]).flatMap((item, i) => fieldsIn(item, form.fields, `${here}/${i}`, wanted));
    return wanted(field) ? [here, ...inner] : inner;
  });
}

/** A call with the calls in it. */
function seedOf(step: KernelCall, path = ""): Seed {
  const { fields, nested, accesses } = descriptionOf(step);
  const bytes = (one: Access): number => coveredBytes(one).high - coveredBytes(one).low;
  const touched = accesses(step, [1]);
  const operands = touched
    .filter((one) => bytes(one) > 0)
    .map((one) => {
      const { role, inPlace: replaced, dtype } = one;
      return { at: path + pathOf(one, step), role, replaced, width: dtypes[dtype].bytes, bytes: bytes(one) };
    });
  const grows = (size: string): boolean => {
    const grown = structuredClone(step);
    put(grown, size, 2 ** 20);
    return accesses(grown, [1]).some((one) => coveredBytes(one).high > (spaces[one.at[0]] as number));
  };
  const sizes = fieldsIn(step, fields, "", ({ form }) => form.is === "size" || form.is === "sizes").flatMap((one) => {
    const held = value(step, one);
    return typeof held === "number" ? [one] : (held as number[]).map((_size, i) => `${one}/${i}`);
  });
  const inner = nested.flatMap((name) =>
    ((step[name] ?? []) as KernelCall[]).map((one, i) => seedOf(one, `${path}/${name}/${i}`)),
  );
  return {
    step,
    optional: [...fieldsIn(step, fields, path, ({ needed }) => !needed), ...inner.flatMap(({ optional }) => optional)],
    sizes: [...sizes.filter(grows).map((one) => path + one), ...inner.flatMap((one) => one.sizes)],
    operands: [...operands, ...inner.flatMap((one) => one.operands)],
  };
}

/** The seeds, a line each. */
export const seeds = (): string =>
  `[\n${samples.map((one) => JSON.stringify(seedOf(descriptionOf(one).nested.length > 0 ? one : filled(one)))).join(",\n")}\n]\n`;
