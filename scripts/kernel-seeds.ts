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

/** A valid call, and the places in it that tests may damage. */
interface Seed {
  readonly step: KernelCall;
  /** Fields that may be left out. */
  readonly optional: readonly string[];
  /** Sizes that, when they grow, make an operand reach past the end of its buffer. */
  readonly sizes: readonly string[];
  /** Addresses of operands that are not empty: `replaced` says whether an output may replace the operand, `width` is the bytes of an element, `bytes` of the whole operand. */
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
    .reduce((held, key) => (held as Held | undefined)?.[key], of);

function put(of: unknown, path: string, by: unknown): void {
  const end = path.lastIndexOf("/");
  (value(of, path.slice(0, end)) as Held)[path.slice(end + 1)] = by;
}

/** Path of the address of an access: `parts[0].in` becomes `/parts/0/in`; an address with strides stands in a record, under `at`. */
function pathOf({ name }: Access, call: KernelCall): string {
  const path = `/${name.replaceAll(/\[(\d+)\]/g, "/$1").replaceAll(".", "/")}`;
  return Array.isArray(value(call, path)) ? path : `${path}/at`;
}

/** A sample with an empty address for each address that the kernel needs, and for each optional address that the sample marks with `true`. */
function placed(sample: Held, fields: Fields, call: Held): Held {
  const fill = (form: Form, held: unknown): unknown => {
    switch (form.is) {
      case "address":
        return [0, 0];
      case "addresses": {
        const cases =
          typeof form.view === "object" && "by" in form.view ? form.view.cases[String(call[form.view.by])] : form.view;
        // The sample holds the length of the list where the description leaves it open.
        return Array.from(
          { length: typeof cases === "string" ? Number(held ?? 1) : (cases as string[]).length },
          () => [0, 0],
        );
      }
      case "record":
        return placed((held ?? {}) as Held, form.fields, call);
      case "records":
        return (held as Held[]).map((item) => placed(item, form.fields, call));
      case "strides":
        return held ?? [];
      default:
        return held;
    }
  };
  const present = Object.entries(fields).filter(([name, { needed }]) => needed || sample[name] !== undefined);
  return Object.fromEntries(present.map(([name, { form }]) => [name, fill(form, sample[name])]));
}

/** The call of a sample, with addresses. The first operand that is read has a buffer to itself and the other read operands share one; so do the operands that are written. */
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
    const buffer = role === "read" ? 1 : 3;
    const space = role === "scratch" ? 0 : buffer + (next[buffer] === 0 ? 0 : 1);
    const offset = next[space] as number;
    const same = value(sample, path);
    put(call, path, typeof same === "string" ? value(call, `/${same}`) : [space, offset - low]);
    next[space] = aligned(offset + high - low) || 64;
  }
  return call;
}

/** Paths of the fields of a call that satisfy a condition. */
function fieldsIn(held: Held, fields: Fields, path: string, wanted: (field: Field) => boolean): string[] {
  return Object.entries(held).flatMap(([name, part]) => {
    const field = fields[name];
    if (field === undefined) return [];
    const here = `${path}/${name}`;
    const { form } = field;
    const inner = !("fields" in form)
      ? []
      : form.is === "record"
        ? fieldsIn(part as Held, form.fields, here, wanted)
        : (part as Held[]).flatMap((item, i) => fieldsIn(item, form.fields, `${here}/${i}`, wanted));
    return wanted(field) ? [here, ...inner] : inner;
  });
}

/** The seed of a call, including the places in the calls that it holds. */
function seedOf(step: KernelCall, path = ""): Seed {
  const { fields, nested, accesses } = descriptionOf(step);
  const bytes = (access: Access): number => coveredBytes(access).high - coveredBytes(access).low;
  const touched = accesses(step, [1]);
  const operands = touched
    .filter((access) => bytes(access) > 0)
    .map((access) => {
      const { role, inPlace: replaced, dtype } = access;
      return { at: path + pathOf(access, step), role, replaced, width: dtypes[dtype].bytes, bytes: bytes(access) };
    });
  const grows = (size: string): boolean => {
    const grown = structuredClone(step);
    put(grown, size, 2 ** 20);
    return accesses(grown, [1]).some((access) => coveredBytes(access).high > (spaces[access.at[0]] as number));
  };
  const sizes = fieldsIn(step, fields, "", ({ form }) => form.is === "size" || form.is === "sizes").flatMap((field) => {
    const held = value(step, field);
    return typeof held === "number" ? [field] : (held as number[]).map((_size, i) => `${field}/${i}`);
  });
  const inner = nested.flatMap((name) =>
    ((step[name] ?? []) as KernelCall[]).map((nestedCall, i) => seedOf(nestedCall, `${path}/${name}/${i}`)),
  );
  return {
    step,
    optional: [...fieldsIn(step, fields, path, ({ needed }) => !needed), ...inner.flatMap(({ optional }) => optional)],
    sizes: [...sizes.filter(grows).map((size) => path + size), ...inner.flatMap((seed) => seed.sizes)],
    operands: [...operands, ...inner.flatMap((seed) => seed.operands)],
  };
}

/** All seeds as JSON, one a line. */
export const seeds = (): string =>
  `[\n${samples.map((sample) => JSON.stringify(seedOf(descriptionOf(sample).nested.length > 0 ? sample : filled(sample)))).join(",\n")}\n]\n`;
