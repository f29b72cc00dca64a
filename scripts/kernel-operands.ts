/** @module Rust that checks what calls read and write, and that computes sizes, from the views and sizes of `src/kernels`. */
import { parseView } from "../src/kernels/access.ts";
import type { AddressForm, Fields, Form } from "../src/kernels/form.ts";
import type { Kernel } from "../src/kernels/index.ts";
import { parseSize, type Size } from "../src/kernels/sizes.ts";
import { fieldName, pascal, structName } from "./kernel-names.ts";

/** The Rust expression that reads a field, and the form of the field. */
type Found = readonly [place: string, form: Form];
type Scope = (name: string) => Found | undefined;

/** A lookup of the fields of the Rust variable `value`, including the fields in its groups. */
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

/** A size as a Rust expression. `sizes` gives the expressions of the sizes that are not fields. */
function rustSize(size: Size, scope: Scope, sizes: (name: string) => string | undefined): string {
  const inner = (input: Size): string => rustSize(input, scope, sizes);
  if ("number" in size) return `Size::of(${size.number})`;
  if ("name" in size) {
    const derived = sizes(size.name);
    if (derived !== undefined) return derived;
    const [place] = found(scope, size.name);
    return `Size::of(${place}${size.index === undefined ? "" : `[${size.index}]`})`;
  }
  const { of, inputs } = size;
  if (of === "bytes") return `Size::of(${found(scope, (inputs[0] as { name: string }).name)[0]}.size())`;
  const [first, second] = inputs.map((input) =>
    of === "mul" && "of" in input && input.of === "add" ? `(${inner(input)})` : inner(input),
  );
  if (of === "add") return `${first} + ${second}`;
  if (of === "mul") return `${first} * ${second}`;
  return `${of}(${[first, second].filter((operand) => operand !== undefined).join(", ")})`;
}

/** Rust source of the sizes of groups, as methods of the structs of the groups. */
export function rustSizes(kernels: readonly Kernel[]): string {
  const impls = new Map<string, string>();
  for (const { groups = {} } of kernels)
    for (const [type, fields, sizes = {}] of Object.values(groups)) {
      const known = (name: string) => (name in sizes ? `self.${name}()` : undefined);
      const functions = Object.entries(sizes).map(
        ([name, text]) => `    pub fn ${name}(&self) -> Size {
        ${rustSize(parseSize(text), scopeOf("self", fields), known)}
    }`,
      );
      if (functions.length > 0) impls.set(type, `impl ${type} {\n${functions.join("\n")}\n}\n`);
    }
  return [...impls.values()].join("\n");
}

/** A shape as a Rust slice of slices: lists as they are, neighbouring sizes in one slice. */
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
      // A name that is not a field is a variable that the lines before have declared.
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

/** The operand that is being checked, and the fields that the check may read. */
interface Place {
  readonly kernel: Kernel;
  /** `call` finds the fields of the call; `own` those of the record that holds the operand. */
  readonly call: Scope;
  readonly own: Scope;
  /** Name of the operand in error messages; `{i}` stands for the index in a list. */
  readonly name: string;
}

const indented = (lines: readonly string[]): string[] => lines.map((line) => `    ${line}`);
const braced = (head: string, lines: readonly string[]): string[] => [`${head} {`, ...indented(lines), "}"];
const quoted = (name: string): string => (name.includes("{") ? `&format!("${name}")` : `"${name}"`);

/** A function that checks what calls of a kernel read and write; `held` are the fields of its struct. */
export function rustOperands(kernel: Kernel, structFields: Fields): string {
  const call = scopeOf("f", kernel.fields, kernel.groups);
  const lines = fieldLines(kernel.fields, structFields, { kernel, call, own: call, name: "" });
  if (kernel.asyncRole === "starts") lines.push("c.starts = f.handle;");
  const head = `pub fn ${kernel.name === "loop" ? "r#loop" : kernel.name}(f: &${structName(kernel)}, c: &mut Checker) -> Result<()>`;
  return braced(head, [...lines, "Ok(())"]).join("\n");
}

function fieldLines(fields: Fields, structFields: Fields, place: Place): string[] {
  return Object.entries(fields).flatMap(([name, { form, needed }]) => {
    if (!("role" in form || "fields" in form)) return [];
    const path = place.name === "" ? name : name === "at" ? place.name : `${place.name}.${name}`;
    const inside = (value: string): string[] => formLines(form, value, { ...place, name: path });
    const [value] = found(place.own, name);
    if (structFields[name]?.needed === true) return inside(value);
    // The field is optional in a struct that several kernels share, but this kernel needs it.
    if (needed) return inside(`required("${name}", ${form.is === "address" ? value : `${value}.as_ref()`})?`);
    const rustName = fieldName(name, form);
    return braced(`if let Some(${rustName}) = ${form.is === "address" ? "" : "&"}${value}`, inside(rustName));
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

/** A Rust `match` with one arm for each name that a field may hold. */
function cases<T>(
  by: string,
  of: { readonly [name: string]: T },
  place: Place,
  lines: (views: T) => string[],
): string[] {
  const [value, form] = found(place.call, by);
  const type = form.is === "name" ? form.type : "";
  const arms = Object.entries(of).flatMap(([name, views]) => braced(`${type}::${pascal(name)} =>`, lines(views)));
  return braced(`match ${value}`, arms);
}

function listLines(form: AddressForm, value: string, place: Place): string[] {
  const { view } = form;
  const list = (views: readonly string[]): string[] => {
    const names = views.map((_view, index) => `at${index}`);
    const checks = views.map((viewName, i) =>
      viewLines(form, viewName, `at${i}`, { ...place, name: `${place.name}[${i}]` }),
    );
    return [`let [${names.join(", ")}] = exactly("${place.name}", &${value})?;`, ...checks.flat()];
  };
  if (typeof view === "object" && "by" in view)
    return cases(view.by, view.cases, place, (views) => list([views].flat()));
  return list(view as readonly string[]);
}

function addressLines(form: AddressForm, value: string, place: Place): string[] {
  const { view } = form;
  const lines = (text: string): string[] => viewLines(form, text, value, place);
  if (typeof view === "string") return lines(view);
  if ("by" in view) return cases(view.by, view.cases, place, (text) => lines(String(text)));
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

/** The Rust expression of a size that the kernel derives from its fields. */
function derivedSize(name: string, place: Place): string {
  const { kernel, call } = place;
  const size = kernel.derived?.[name];
  if (size === undefined) throw new Error(`${kernel.name}: there is no size '${name}'`);
  if (typeof size !== "string") return `crate::${size.native}(f, item)`;
  const groups = Object.entries(kernel.groups ?? {});
  const known = (sizeName: string): string | undefined => {
    const group = groups.find(([, [, , sizes = {}]]) => sizeName in sizes);
    return group === undefined ? undefined : `f.${group[0]}.${sizeName}()`;
  };
  const expression = rustSize(parseSize(size), call, known);
  return `${/ [+*] /.test(expression) ? `(${expression})` : expression}.get("${place.name}")`;
}

/** The Rust expression of the role of an operand; the role may depend on fields of the call. */
function rustRole({ role, inPlace }: AddressForm, { call }: Place): string {
  if (inPlace === undefined) return pascal(role);
  if (inPlace === true) return "Replaced";
  const conditions = Object.entries(inPlace).map(([name, value]) => {
    const [field, form] = found(call, name);
    return typeof value === "boolean" ? field : `${field} == ${form.is === "name" ? form.type : ""}::${pascal(value)}`;
  });
  return `if ${conditions.join(" && ")} { Replaced } else { Read }`;
}
