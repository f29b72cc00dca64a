/** @module How the fields of a kernel's call are written, as data: what each holds, and where an address points. */

/** What a call does with the memory at an address. */
export type Role = "read" | "write" | "scratch";

/** One field of a call, or of a record in it. */
export interface Field<Value = unknown, Needed extends boolean = boolean> {
  readonly form: Form;
  readonly needed: Needed;
  /** What the native core takes where the field is left out. */
  readonly fallback?: number;
  /** What the field holds; for the compiler alone. */
  readonly holds?: Value;
}

/** Fields by name. */
export interface Fields {
  readonly [name: string]: Field;
}

/** How a field is written. */
export type Form =
  | { readonly is: Plain }
  | { readonly is: "sizes"; readonly length?: number }
  /** One of some names; `type` is what the native core calls them. */
  | { readonly is: "name"; readonly type: string; readonly names: readonly string[] }
  | AddressForm
  /** Fields within the field, once or in a list; `type` is what the native core calls them. */
  | { readonly is: "record" | "records"; readonly type: string; readonly fields: Fields };

/** A form without anything to say of it. */
export type Plain = keyof typeof plainForms;

/** Forms without anything to say of them, in words. */
export const plainForms = {
  size: "size",
  word: "u32",
  number: "number",
  flag: "true or false",
  text: "text",
  dtype: "dtype",
  strides: "strides",
  paddings: "three pairs of integers",
  pairs: "pairs of an integer and a size",
  instructions: "instructions",
  steps: "steps",
};

/** One address, or a list of them. */
export interface AddressForm {
  readonly is: "address" | "addresses";
  readonly role: Role;
  readonly view: Views;
  /** The fields beside it that have the strides; without any, elements lie without gaps. */
  readonly strides?: readonly string[];
  /** Whether an output may be exactly this view: always, or where fields of the call have these values. */
  readonly inPlace?: true | { readonly [field: string]: string | boolean };
}

/**
 * Dtype and shape of what lies at an address: `i32[rows cols]`; without a dtype that of the nearest field `dtype`. A shape is
 * made of expressions (`sizes.ts`) without spaces, of fields and of sizes that the kernel derives. With `by`, it depends on a field;
 * the entries of a list are then those of a list of addresses.
 */
export type Views =
  | string
  | readonly string[]
  | { readonly by: string; readonly cases: { readonly [name: string]: string | readonly string[] } }
  /** The second where there are fewer strides than dims in the first. */
  | { readonly whole: string; readonly short: string };

type Held<F> = F extends Field<infer Value> ? Value : never;
type Given<F extends Fields> = { [K in keyof F]: F[K] extends Field<unknown, true> ? K : never }[keyof F];

/** What a call holds, or a record in it. */
export type Values<F extends Fields> = { readonly [K in Given<F>]: Held<F[K]> } & {
  readonly [K in Exclude<keyof F, Given<F>>]?: Held<F[K]> | undefined;
};

/**
 * A size that is no field: an expression (`sizes.ts`) of fields and of the sizes of groups; or what a function makes of the call,
 * the record that has the address, and the sizes of the mesh axes, which the native core has as the function `native`.
 */
export type Derived<F extends Fields> =
  | string
  | {
      readonly native: string;
      of(call: Values<F>, item: { readonly [field: string]: unknown }, axes: readonly number[]): number;
    };
