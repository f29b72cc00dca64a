/** @module The structs of kernels' calls for the native core, and the table of kernels for the docs, from `src/kernels`. */
import { type Kernel, kernels } from "../src/kernels/index.ts";
import { type Field, type Fields, type Form, plainForms, type Views } from "../src/kernels/schema.ts";
import { fieldName, pascal, structName } from "./kernel-names.ts";
import { rustOperands, rustSizes } from "./kernel-operands.ts";

const all = [...kernels.values()];
const madeBy = "made of src/kernels by `vitest run test/repo/made-pages -u`.";
const plainTypes: { readonly [K in keyof typeof plainForms]: string } = {
  size: "usize",
  word: "u32",
  number: "f64",
  flag: "bool",
  text: "String",
  dtype: "DType",
  strides: "Vec<isize>",
  paddings: "[[i64; 2]; 3]",
  pairs: "Vec<(i64, usize)>",
  instructions: "Vec<Vec<Value>>",
  steps: "Vec<Value>",
};

function typeOf(form: Form): string {
  switch (form.is) {
    case "sizes":
      return form.length === undefined ? "Vec<usize>" : `[usize; ${form.length}]`;
    case "name":
      return form.type;
    case "address":
      return "At";
    case "addresses":
      return "Vec<At>";
    case "record":
      return form.type;
    case "records":
      return `Vec<${form.type}>`;
    default:
      return plainTypes[form.is];
  }
}

/** A member of a Rust struct: its name, its type, and the Rust expression that takes it from the fields of a call. */
function member(name: string, field: Field): readonly [name: string, type: string, taken: string] {
  const { form, needed, fallback } = field;
  const [rustName, type] = [fieldName(name, form), typeOf(form)];
  if (form.is === "flag") return [rustName, type, `f.flag("${name}")?`];
  if (needed) return [rustName, type, `f.need("${name}")?`];
  if (fallback !== undefined) return [rustName, type, `f.optional("${name}")?.unwrap_or(${fallback})`];
  return [rustName, `Option<${type}>`, `f.optional("${name}")?`];
}

function struct(type: string, fields: Fields, groups: NonNullable<Kernel["groups"]> = {}): string {
  const grouped = new Set(Object.values(groups).flatMap(([, of]) => Object.keys(of)));
  const members = [
    ...Object.entries(groups).map(([name, [of]]) => [name, of, `${of}::take(f)?`] as const),
    ...Object.entries(fields).flatMap(([name, field]) => (grouped.has(name) ? [] : [member(name, field)])),
  ];
  return `    ${type} from f {
${members.map(([name, of, taken]) => `        ${name}: ${of} = ${taken},`).join("\n")}
    }`;
}

/** The fields of a struct that several kernels may share; a field that not all of them need is optional. */
function fieldsOf(type: string): Fields {
  const family = all.filter((kernel) => structName(kernel) === type);
  const merged: { [name: string]: Field } = {};
  for (const { fields } of family)
    for (const [name, field] of Object.entries(fields))
      merged[name] = { ...field, needed: family.every(({ fields: other }) => other[name]?.needed === true) };
  return merged;
}

/** Rust source of the structs that hold the calls of kernels. */
export function rustCalls(): string {
  const names = new Map<string, string>();
  const structs = new Map<string, string>();
  const visit = (fields: Fields): void => {
    for (const { form } of Object.values(fields)) {
      if (form.is === "name") names.set(form.type, form.names.map((name) => `${pascal(name)} = "${name}"`).join(", "));
      if (form.is !== "record" && form.is !== "records") continue;
      visit(form.fields);
      structs.set(form.type, struct(form.type, form.fields));
    }
  };
  for (const kernel of all) {
    visit(kernel.fields);
    for (const [type, fields] of Object.values(kernel.groups ?? {})) structs.set(type, struct(type, fields));
    const type = structName(kernel);
    structs.set(type, struct(type, fieldsOf(type), kernel.groups));
  }
  const table = all.map(
    ({ name, fields }) =>
      `    ("${name}", &[${Object.keys(fields)
        .map((field) => `"${field}"`)
        .join(", ")}]),`,
  );
  return `//! What the calls of kernels hold: ${madeBy}
#![cfg_attr(rustfmt, rustfmt::skip)]

use serde_json::Value;

use crate::dtype::DType;
use crate::fields::{names, structs};
use crate::sizes::{aligned, min, reach, Size};
use crate::verify::At;

/// The fields of each kernel.
pub const KERNELS: &[(&str, &[&str])] = &[
${table.join("\n")}
];

names! {
${[...names].map(([type, of]) => `    ${type} { ${of} }`).join("\n")}
}

structs! {
${[...structs.values()].join("\n")}
}

${rustSizes(all)}`;
}

/** Rust source of the functions that check what the calls of each kernel read and write. */
export const rustChecks = (): string => `//! What calls of each kernel read and write: ${madeBy}
#![cfg_attr(rustfmt, rustfmt::skip)]
#![allow(non_snake_case, unused_variables)]

use crate::calls::*;
use crate::dtype::DType;
use crate::sizes::{half, init, tail, Size};
use crate::verify::Role::{Read, Replaced, Scratch, Write};
use crate::verify::{exactly, required, Checker};
use crate::Result;

${all.map((kernel) => rustOperands(kernel, fieldsOf(structName(kernel)))).join("\n\n")}
`;

function viewText(view: Views): string {
  if (typeof view === "string") return view;
  if ("whole" in view) return view.whole === view.short ? view.whole : `${view.whole} or ${view.short}`;
  if (!("by" in view)) return view.join(" ");
  const cases = Object.entries(view.cases).map(([name, of]) => `${name} ${[of].flat().join(" ")}`);
  return `by ${view.by}: ${cases.join(", ")}`;
}

const conditionText = (inPlace: true | { readonly [field: string]: string | boolean }): string =>
  inPlace === true
    ? ""
    : ` if ${Object.entries(inPlace)
        .map(([field, value]) => (value === true ? field : `${field} is ${value}`))
        .join(" and ")}`;

const formName = (form: Form): string => {
  switch (form.is) {
    case "sizes":
      return form.length === undefined ? "sizes" : `${form.length} sizes`;
    case "name":
      return form.names.join("\\|");
    case "address":
    case "addresses": {
      const { role, view, strides, inPlace } = form;
      const marks = [
        ...(strides === undefined ? [] : ["strided"]),
        ...(inPlace === undefined ? [] : [`an output may replace it${conditionText(inPlace)}`]),
      ];
      const list = form.is === "addresses" ? "list of " : "";
      return `${role} ${list}${viewText(view)}${marks.length > 0 ? ` (${marks.join("; ")})` : ""}`;
    }
    case "record":
    case "records":
      if (form.type === "StridedJson") return formName(form.fields["at"]?.form as Form);
      return `${form.is === "records" ? "list of " : ""}{ ${fieldsText(form.fields)} }`;
    default:
      return plainForms[form.is];
  }
};

/** Text of a cell as code: the site would read braces in plain text as attributes. */
const cell = (text: string): string => (text === "" ? "" : `\`${text}\``);

/** Fields of a call in one line; a size or dtype shows its name alone. */
const fieldsText = (fields: Fields): string =>
  Object.entries(fields)
    .map(([name, { form, needed }]) => {
      const optional = needed ? "" : "?";
      return form.is === "size" || form.is === "dtype" ? `${name}${optional}` : `${name}${optional}: ${formName(form)}`;
    })
    .join(", ");

/** The table of kernels for docs/internals/lowered-program.md. */
export const kernelTable = (): string =>
  [
    "| kernel | fields | what it does |",
    "| --- | --- | --- |",
    ...all.map(
      ({ name, fields, doc }) => `| \`${name}\` | ${cell(fieldsText(fields))} | ${doc.replaceAll("|", "\\|")} |`,
    ),
  ].join("\n");
