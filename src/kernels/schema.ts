/**
 * @module Kernels as data: the fields of a call, the memory that they name, cost, and memory beside the operands. Lowering, checks,
 * printing, costs, the page on lowered programs and the structs of the native core follow from it.
 */
import type { DType } from "../ir/dtype.ts";
import type { KernelCall, Ref } from "../ir/kernel.ts";
import { type Access, accessesIn, scratchBytes } from "./access.ts";
import type { AddressForm, Derived, Field, Fields, Plain, Role, Values, Views } from "./form.ts";

export { type Field, type Fields, type Form, plainForms, type Values, type Views } from "./form.ts";

const plain =
  <Value>(is: Plain) =>
  (): Field<Value, true> => ({ form: { is }, needed: true });

export const word = plain<number>("word");
export const number = plain<number>("number");
export const text = plain<string>("text");
export const dtype = plain<DType>("dtype");
export const strides = plain<readonly number[]>("strides");
export const paddings = plain<readonly (readonly [number, number])[]>("paddings");
export const pairs = plain<readonly (readonly [number, number])[]>("pairs");
export const instructions = plain<readonly (readonly unknown[])[]>("instructions");
export const steps = plain<readonly KernelCall[]>("steps");
export const size = plain<number>("size");

/** Sizes, by name. */
export const sized = <const Name extends string>(...names: Name[]): { readonly [K in Name]: Field<number, true> } =>
  Object.fromEntries(names.map((name) => [name, size()])) as { [K in Name]: Field<number, true> };

/** A size that is 1 by default. */
export const sizeOrOne = (): Field<number, false> => ({ form: { is: "size" }, needed: false, fallback: 1 });

/** A flag that is false by default. */
export const flag = (): Field<boolean, false> => ({ form: { is: "flag" }, needed: false });

export const sizes = (length?: number): Field<readonly number[], true> => ({
  form: { is: "sizes", ...(length === undefined ? {} : { length }) },
  needed: true,
});

export const oneOf = <const Name extends string>(type: string, names: readonly Name[]): Field<Name, true> => ({
  form: { is: "name", type, names },
  needed: true,
});

type AddressOptions = Pick<AddressForm, "strides" | "inPlace">;

const address =
  (role: Role) =>
  (view: Views, options: AddressOptions = {}): Field<Ref, true> => ({
    form: { is: "address", role, view, ...options },
    needed: true,
  });

/** Memory that is read. */
export const reads = address("read");
/** Memory that is written. */
export const writes = address("write");
/** Memory for the duration of the call, with the number of bytes that the kernel derives. */
export const scratch = (): Field<Ref, true> => address("scratch")("u8[bytes]");

/** A list of addresses of this form. */
export const listOf = ({ form }: Field<Ref, true>): Field<readonly Ref[], true> => ({
  form: { ...(form as AddressForm), is: "addresses" },
  needed: true,
});

export const record = <F extends Fields>(type: string, fields: F): Field<Values<F>, true> => ({
  form: { is: "record", type, fields },
  needed: true,
});

export const records = <F extends Fields>(type: string, fields: F): Field<readonly Values<F>[], true> => ({
  form: { is: "records", type, fields },
  needed: true,
});

type StridedFields = { readonly at: Field<Ref, true>; readonly strides: Field<readonly number[], true> };

/** An address with strides. */
export const strided = (of: Field<Ref, true>): Field<Values<StridedFields>, true> => ({
  ...record("StridedJson", {
    at: { ...of, form: { ...(of.form as AddressForm), strides: ["strides"] } },
    strides: strides(),
  }),
});

export const optional = <Value>(field: Field<Value, true>): Field<Value, false> => ({ ...field, needed: false });

/** Work of a following fused call that a kernel can do instead, by fields of its own. */
export type Epilogue<F extends Fields> =
  /** `bias`, with one value per column, and `relu`. */
  | { columns(call: Values<F>): number; when?(call: Values<F>): boolean }
  /** `gate`: 0 where `in` is at most 0. */
  | { gate(call: Values<F>): boolean };

/** The description of a kernel, besides its fields. */
export interface Facts<F extends Fields> {
  /** What the kernel computes, for the page on lowered programs. */
  readonly doc: string;
  /** Sizes in views that are not fields. */
  readonly derived?: { readonly [name: string]: Derived<F> };
  /** Bytes that it needs after the arena, for partial results and workers. */
  work?(call: Values<F>): number;
  /** The operand whose elements are the only ones read and written. */
  readonly moves?: string;
  /** The text of a call, without its operands. */
  title?(call: Values<F>): string;
  /** The field that has the shape of all operands. */
  readonly space?: string;
  /** The kind of an elementwise group: without folds, or with folds over rows or columns. */
  readonly group?: "elements" | "rows" | "columns";
  readonly epilogue?: Epilogue<F>;
  /** Whether it runs its steps repeatedly, or some of them once. */
  readonly control?: "loop" | "branch";
  /** Whether other devices take part. */
  readonly communicates?: true;
  /** Whether the kernel can start an async collective (with a number), or ends one (`wait`). */
  readonly asyncRole?: "starts" | "ends";
  /** The name of its struct in the native core, if several kernels share one. */
  readonly struct?: string;
  /** Groups of fields that are separate structs in the native core, by the name of the field there. */
  readonly groups?: { readonly [field: string]: Group };
}

/** Name and fields of a struct, and sizes derived from the fields that the native core's kernels also use. */
export type Group = readonly [type: string, fields: Fields, sizes?: { readonly [name: string]: string }];

/** A kernel: name, fields, and functions that follow from them. */
export interface Kernel<F extends Fields = Fields> extends Facts<F> {
  readonly name: string;
  readonly fields: F;
  /** Names of the fields that hold steps, in the order in which the steps are numbered. */
  readonly nested: readonly string[];
  /** Makes a call of the kernel, without undefined fields. */
  call(fields: Values<F>): KernelCall;
  /** Makes a call of the kernel with the scratch that it needs. */
  scratched(context: { scratch(bytes: number): Ref }, fields: Omit<Values<F>, "scratch">): KernelCall;
  /** All memory that a call accesses. `axes` are the sizes of the mesh axes. */
  accesses(call: KernelCall, axes?: readonly number[]): readonly Access[];
}

/** Describes a kernel. */
export function kernel<const F extends Fields>(name: string, fields: F, facts: Facts<NoInfer<F>>): Kernel<F> {
  const derived = {
    ...Object.assign({}, ...Object.values(facts.groups ?? {}).map(([, , sizes]) => sizes)),
    ...facts.derived,
  };
  return {
    ...facts,
    name,
    fields,
    nested: Object.keys(fields).filter((field) => fields[field]?.form.is === "steps"),
    call: (values) => ({ k: name, ...present(values) }),
    scratched: (context, values) => {
      const call = { k: name, ...present(values) };
      return { ...call, scratch: context.scratch(scratchBytes(call, fields, derived)) };
    },
    accesses: (call, axes = []) => accessesIn(call, fields, derived, axes),
  };
}

const present = (values: object): object =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
