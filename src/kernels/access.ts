/** @module The memory that a call accesses, from the description of its fields. */
import { type DType, dtypes } from "../ir/dtype.ts";
import type { KernelCall } from "../ir/kernel.ts";
import { type Shape, stridesOf } from "../ir/shape.ts";
import { invariant } from "../util/errors.ts";
import type { AddressForm, Derived, Fields, Role, Views } from "./form.ts";
import { evaluateSize, parseSize, type Size } from "./sizes.ts";

/** One strided access of a kernel call. */
export interface Access {
  /** Name of the field. */
  readonly name: string;
  readonly role: Role;
  /** `[space, byteOffset]`; a reference before memory is assigned. */
  readonly at: readonly [space: number, byteOffset: number];
  readonly dtype: DType;
  readonly shape: Shape;
  /** The strides, in elements. */
  readonly strides: readonly number[];
  /** Whether an output may be exactly this view. */
  readonly inPlace: boolean;
}

type Held = { readonly [field: string]: unknown };

// biome-ignore lint/suspicious/noExplicitAny: of any kernel
type DerivedSizes = { readonly [name: string]: Derived<any> };

/** The scope in which names of fields and sizes are resolved. */
interface Scope {
  readonly call: Held;
  readonly item: Held;
  readonly axes: readonly number[];
  readonly fields: Fields;
  readonly derived: DerivedSizes;
}

/** A parsed view. */
export interface View {
  readonly dtype: DType | undefined;
  /** Sizes, and lists of them. */
  readonly terms: readonly Size[];
}

/** Parses a view of a description. */
export function parseView(text: string): View {
  const [, dtype, terms] = /^(\w*)\[(.*)\]$/.exec(text) ?? [];
  invariant(dtype !== undefined && (dtype === "" || dtype in dtypes), `'${text}' is not a view`);
  return { dtype: dtype === "" ? undefined : (dtype as DType), terms: (terms?.match(/\S+/g) ?? []).map(parseSize) };
}

function valueOf(size: Size, scope: Scope): number | readonly number[] {
  const held = (name: string): unknown => {
    const found = scope.item[name] ?? scope.call[name] ?? scope.fields[name]?.fallback;
    if (found !== undefined) return found;
    const derived = scope.derived[name];
    return typeof derived === "string"
      ? evaluateSize(parseSize(derived), held)
      : derived?.of(scope.call, scope.item, scope.axes);
  };
  return evaluateSize(size, held);
}

/** Bytes of scratch that a call needs. */
export const scratchBytes = (call: KernelCall, fields: Fields, derived: DerivedSizes): number =>
  valueOf({ name: "bytes" }, { call, item: call, axes: [], fields, derived }) as number;

/** All memory that a call with these fields accesses, in the order of the fields. */
export function accessesIn(
  call: KernelCall,
  fields: Fields,
  derived: DerivedSizes,
  axes: readonly number[],
): readonly Access[] {
  const found: Access[] = [];
  collect(fields, { call, item: call, axes, fields, derived }, "", found);
  return found;
}

function collect(fields: Fields, scope: Scope, path: string, found: Access[]): void {
  for (const name in fields) {
    const { form } = fields[name] as Fields[string];
    const held = scope.item[name];
    if (held === undefined || !("role" in form || "fields" in form)) continue;
    const here = path === "" ? name : name === "at" ? path : `${path}.${name}`;
    const visit = (value: unknown, valuePath: string, index: number): void => {
      if ("role" in form) found.push(accessAt(form, scope, value, valuePath, index));
      else collect(form.fields, { ...scope, item: value as Held }, valuePath, found);
    };
    if (form.is === "address" || form.is === "record") visit(held, here, 0);
    else for (const [index, value] of (held as readonly unknown[]).entries()) visit(value, `${here}[${index}]`, index);
  }
}

function accessAt(form: AddressForm, scope: Scope, at: unknown, name: string, index: number): Access {
  const { role, inPlace } = form;
  const strides = form.strides?.flatMap((field) => scope.item[field] as readonly number[]);
  const read = (text: string): { dtype: DType; shape: number[] } => {
    const { dtype, terms } = viewOf(text);
    const shape = terms.flatMap((term) => valueOf(term, scope));
    return { dtype: dtype ?? ((scope.item["dtype"] ?? scope.call["dtype"]) as DType), shape };
  };
  let { dtype, shape } = read(viewText(form.view, scope, index));
  if (typeof form.view === "object" && "short" in form.view && (strides?.length ?? 0) < shape.length)
    ({ dtype, shape } = read(form.view.short));
  const conditions = inPlace === undefined || inPlace === true ? [] : Object.entries(inPlace);
  const replaced = inPlace !== undefined && conditions.every(([field, value]) => scope.call[field] === value);
  return {
    ...{ name, role, at: at as Access["at"], dtype, shape },
    strides: strides ?? stridesOf(shape),
    inPlace: replaced,
  };
}

function viewText(view: Views, { call }: Scope, index: number): string {
  if (typeof view === "string") return view;
  if (isList(view)) return view[index] ?? "[]";
  if ("whole" in view) return view.whole;
  const found = view.cases[call[view.by] as string];
  return (typeof found === "string" ? found : found?.[index]) ?? "[]";
}

const isList = (view: Views): view is readonly string[] => Array.isArray(view);

const views = new Map<string, View>();

function viewOf(text: string): View {
  const view = views.get(text) ?? parseView(text);
  views.set(text, view);
  return view;
}

/** The range of bytes that an access covers: from the lowest to one past the highest. */
export function coveredBytes(access: Access): { readonly low: number; readonly high: number } {
  const width = dtypes[access.dtype].bytes;
  let [low, high] = [access.at[1], access.at[1]];
  if (access.shape.includes(0)) return { low, high };
  access.shape.forEach((size, dim) => {
    const span = (size - 1) * (access.strides[dim] as number) * width;
    if (span < 0) low += span;
    else high += span;
  });
  return { low, high: high + width };
}
