/** @module Rust that checks what calls read and write, and that computes sizes, from the views and sizes of `src/kernels`. */
import { parseView } from "../src/kernels/access.ts";
import type { AddressForm, Fields, Form } from "../src/kernels/form.ts";
import type { Kernel } from "../src/kernels/index.ts";
import { parseSize, type Size } from "../src/kernels/sizes.ts";
import { fieldName, pascal, structName } from "./kernel-names.ts";

/** Where a field is found: by what Rust expression, and of which form. */
type Found = readonly [place: string, form: Form];
type Scope = (name: string) => Found | undefined;

/** Fields of a value, and those in groups of it. */
function scopeOf(value: string, fields: Fields, groups: Kernel["groups"] = {}): Scope {
  return (name) => {
    const form = fields[name]?.form;
    if (form === undefined) return undefined;
    const group = Object.entries(groups).find(([, [, held]]) => name in held);
    return [[value, ...(group === undefined ? [] : [group[0]]), fieldName(name, form)].join("."), form];
  };
}

const found = (scope: Scope, name: string): Found => {
  const field = scope(name);
  if (field === undefined) throw new Error(`there is no field '${name}'`);
  return field;
};

/** A size in Rust. `sizes` gives those that are no fields. */
function rustSize(size: Size, scope: Scope, sizes: (name: string) => string | undefined): string {
  const inner = (one: Size): string => rustSize(one, scope, sizes);
  if ("number" in size) return `Size::of(${size.number})`;
  if ("name" in size) {
    const made = sizes(size.name);
    if (made !== undefined) return made;
    const [place] = found(scope, size.name);
    return `Size::of(${place}${size.index === undefined ? "" : `[${size.index}]`})`;
  }
  const { of, inputs } = size;
  if (of === "bytes") return `Size::of(${found(scope, (inputs[0] as { name: string }).name)[0]}.size())`;
  const [first, second] = inputs.map((one) =>
    of === "mul" && "of" in one && one.of === "add" ? `(${inner(one)})` : inner(one),
  );
  if (of === "add") return `${first} + ${second}`;
  if (of === "mul") return `${first} * ${second}`;
  return `${of}(${[first, second].filter((one) => one !== undefined).join(", ")})`;
}

/** The sizes of groups, as functions of their structs. */
export function rustSizes(kernels: readonly Kernel[]): string {
  const made = new Map<string, string>();
  for (const { groups = {} } of kernels)
    for (const [type, fields, sizes = {}] of Object.values(groups)) {
      const known = (name: string) => (name in sizes ? `self.${name}()` : undefined);
      const functions = Object.entries(sizes).map(
        ([name, text]) => `    pub fn ${name}(&self) -> Size {
        ${rustSize(parseSize(text), scopeOf("self", fields), known)}
    }`,
      );
      if (functions.length > 0) made.set(type, `impl ${type} {\n${functions.join("\n")}\n}\n`);
    }
  return [...made.values()].join("\n");
}

/** Parts of a shape: lists as they are, sizes beside each other in one slice. */
function rustShape(terms: readonly Size[], scope: Scope): string {
  const parts: string[] = [];
  let sizes: string[] = [];
  const end = (): void => {
    if (sizes.length > 0) parts.push(`&[${sizes.join(", ")}]`);
    sizes = [];
  };
  for (const term of terms) {
    if ("number" in term) sizes.push(String(term.number));
    else if ("name" in term) {
      // What is no field has been computed before.
      const [place, form] = scope(term.name) ?? [term.name, { is: "size" }];
      if (form.is !== "sizes") sizes.push(place);
      else {
        end();
        parts.push(`&${place}`);
      }
    } else {
      const [first, second] = term.inputs.map((input) => found(scope, (input as { name: string }).name)[0]);
      if (term.of === "min") sizes.push(`${first}.min(${second})`);
      else if (term.of === "rank") sizes.push(`${first}.len()`);
      else {
        end();
        parts.push(`${term.of === "half" ? "&" : ""}${term.of}(&${first})`);
      }
    }
  }
  end();
  return `&[${parts.join(", ")}]`;
}

/** What a check of operands is made in. */
interface Place {
  readonly kernel: Kernel;
  /** The fields of the call, and those of the record that has the operand. */
  readonly call: Scope;
  readonly own: Scope;
  /** Name of the operand, for people; `{i}` stands for the place in a list. */
  readonly name: string;
}

const indented = (lines: readonly string[]): string[] => lines.map((line) => `    ${line}`);
const braced = (head: string, lines: readonly string[]): string[] => [`${head} {`, ...indented(lines), "}"];
const quoted = (name: string): string => (name.includes("{") ? `&format!("${name}")` : `"${name}"`);

/** A function that checks what calls of a kernel read and write; `held` are the fields of its struct. */
export function rustOperands(kernel: Kernel, held: Fields): string {
  const call = scopeOf("f", kernel.fields, kernel.groups);
  const lines = fieldLines(kernel.fields, held, { kernel, call, own: call, name: "" });
  if (kernel.asyncRole === "starts") lines.push("c.starts = f.handle;");
  const head = `pub fn ${kernel.name === "loop" ? "r#loop" : kernel.name}(f: &${structName(kernel)}, c: &mut Checker) -> Result<()>`;
  return braced(head, [...lines, "Ok(())"]).join("\n");
}

function fieldLines(fields: Fields, held: Fields, place: Place): string[] {
  return Object.entries(fields).flatMap(([name, { form, needed }]) => {
    if (!("role" in form || "fields" in form)) return [];
    const path = place.name === "" ? name : name === "at" ? place.name : `${place.name}.${name}`;
    const inside = (value: string): string[] => formLines(form, value, { ...place, name: path });
    const [value] = found(place.own, name);
    if (held[name]?.needed === true) return inside(value);
    // A struct that kernels share has fields that only some of them need.
    if (needed) return inside(`required("${name}", ${form.is === "address" ? value : `${value}.as_ref()`})?`);
    const given = fieldName(name, form);
    return braced(`if let Some(${given}) = ${form.is === "address" ? "" : "&"}${value}`, inside(given));
  });
}

function formLines(form: Form, value: string, place: Place): string[] {
  const record = (fields: Fields, item: string, name: string): string[] =>
    fieldLines(fields, fields, { ...place, own: scopeOf(item, fields), name });
  const each = (lines: readonly string[]): string[] => braced(`for (i, item) in ${value}.iter().enumerate()`, lines);
  switch (form.is) {
    case "record":
      return record(form.fields, value, place.name);
    case "records":
      return each(record(form.fields, "item", `${place.name}[{i}]`));
    case "address":
      return addressLines(form, value, place);
    case "addresses":
      if (typeof form.view === "string")
        return each(addressLines(form, "*item", { ...place, name: `${place.name}[{i}]` }));
      return listLines(form, value, place);
    default:
      return [];
  }
}

/** One arm for each name that a field may hold. */
function cases<T>(by: string, of: { readonly [name: string]: T }, place: Place, lines: (one: T) => string[]): string[] {
  const [value, form] = found(place.call, by);
  const type = form.is === "name" ? form.type : "";
  const arms = Object.entries(of).flatMap(([name, one]) => braced(`${type}::${pascal(name)} =>`, lines(one)));
  return braced(`match ${value}`, arms);
}

function listLines(form: AddressForm, value: string, place: Place): string[] {
  const { view } = form;
  const list = (views: readonly string[]): string[] => {
    const names = views.map((_view, index) => `at${index}`);
    const checks = views.map((one, i) => viewLines(form, one, `at${i}`, { ...place, name: `${place.name}[${i}]` }));
    return [`let [${names.join(", ")}] = exactly("${place.name}", &${value})?;`, ...checks.flat()];
  };
  if (typeof view === "object" && "by" in view) return cases(view.by, view.cases, place, (one) => list([one].flat()));
  return list(view as readonly string[]);
}

function addressLines(form: AddressForm, value: string, place: Place): string[] {
  const { view } = form;
  const lines = (one: string): string[] => viewLines(form, one, value, place);
  if (typeof view === "string") return lines(view);
  if ("by" in view) return cases(view.by, view.cases, place, (one) => lines(String(one)));
  if (!("whole" in view) || view.whole === view.short) return lines("whole" in view ? view.whole : String(view));
  const dims = parseView(view.whole).terms.map((term) => `${rustShape([term], scopeIn(place)).slice(3, -1)}.len()`);
  const strides = (form.strides ?? []).map((name) => `${found(place.own, name)[0]}.len()`);
  const short = braced(`if ${strides.join(" + ")} < ${dims.join(" + ")}`, lines(view.short));
  return [...short.slice(0, -1), ...braced("} else", lines(view.whole))];
}

const scopeIn =
  ({ own, call }: Place): Scope =>
  (name) =>
    own(name) ?? call(name);

function viewLines(form: AddressForm, text: string, value: string, place: Place): string[] {
  const { dtype, terms } = parseView(text);
  const scope = scopeIn(place);
  const names = terms.flatMap((term) => ("name" in term && scope(term.name) === undefined ? [term.name] : []));
  const derived = names.map((name) => `let ${name} = ${derivedSize(name, place)}?;`);
  const type = dtype === undefined ? found(scope, "dtype")[0] : `DType::${pascal(dtype)}`;
  const of = `${rustRole(form, place)}, ${quoted(place.name)}, ${value}, ${type}, ${rustShape(terms, scope)}`;
  const strides = form.strides?.map((name) => `&${found(place.own, name)[0]}`).join(", ");
  return [...derived, strides === undefined ? `c.dense(${of})?;` : `c.strided(${of}, &[${strides}])?;`];
}

/** A size that is no field. */
function derivedSize(name: string, place: Place): string {
  const { kernel, call } = place;
  const size = kernel.derived?.[name];
  if (size === undefined) throw new Error(`${kernel.name}: there is no size '${name}'`);
  if (typeof size !== "string") return `crate::${size.native}(f, item)`;
  const groups = Object.entries(kernel.groups ?? {});
  const known = (one: string): string | undefined => {
    const group = groups.find(([, [, , sizes = {}]]) => one in sizes);
    return group === undefined ? undefined : `f.${group[0]}.${one}()`;
  };
  const made = rustSize(parseSize(size), call, known);
  return `${/ [+*] /.test(made) ? `(${made})` : made}.get("${place.name}")`;
}

/** The role of an operand, which may depend on fields of the call. */
function rustRole({ role, inPlace }: AddressForm, { call }: Place): string {
  if (inPlace === undefined) return pascal(role);
  if (inPlace === true) return "Replaced";
  const conditions = Object.entries(inPlace).map(([name, value]) => {
    const [field, form] = found(call, name);
    return typeof value === "boolean" ? field : `${field} == ${form.is === "name" ? form.type : ""}::${pascal(value)}`;
  });
  return `if ${conditions.join(" && ")} { Replaced } else { Read }`;
}
