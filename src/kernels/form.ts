/** @module The forms of a kernel call's fields, as data: what each field holds, and the view at each address. */

/** What a call does with the memory at an address. */
export type Role = "read" | "write" | "scratch";

/** One field of a call, or of a record in it. */
export interface Field<Value = unknown, Needed extends boolean = boolean> {
  readonly form: Form;
  readonly needed: Needed;
  /** The native core's value for a missing field. */
  readonly fallback?: number;
  /** The type of the field's value; for the TypeScript compiler only. */
  readonly holds?: Value;
}

/** Fields by name. */
export interface Fields {
  readonly [name: string]: Field;
}

/** The form of a field. */
export type Form =
  | { readonly is: Plain }
  | { readonly is: "sizes"; readonly length?: number }
  /** One of several names; `type` is the native core's enum. */
  | { readonly is: "name"; readonly type: string; readonly names: readonly string[] }
  | AddressForm
  /** Fields within the field, once or in a list; `type` is the native core's struct. */
  | { readonly is: "record" | "records"; readonly type: string; readonly fields: Fields };

/** A form without parameters. */
export type Plain = keyof typeof plainForms;

/** Forms without parameters, in words. */
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
  /** The sibling fields that have the strides; default: elements are contiguous. */
  readonly strides?: readonly string[];
  /** Whether an output may be exactly this view: always, or if fields of the call have these values. */
  readonly inPlace?: true | { readonly [field: string]: string | boolean };
}

/**
 * Dtype and shape of the elements at an address: `i32[rows cols]`; without a dtype, the nearest field `dtype` has it. A shape consists
 * of expressions (`sizes.ts`) without spaces, over fields and sizes that the kernel derives. With `by`, the view depends on a field;
 * the entries of a list belong to the addresses of a list.
 */
export type Views =
  | string
  | readonly string[]
  | { readonly by: string; readonly cases: { readonly [name: string]: string | readonly string[] } }
  /** `short` applies if there are fewer strides than dims in `whole`. */
  | { readonly whole: string; readonly short: string };

type Held<F> = F extends Field<infer Value> ? Value : never;
type Given<F extends Fields> = { [K in keyof F]: F[K] extends Field<unknown, true> ? K : never }[keyof F];

/** The values of a call's fields, or of a record's. */
export type Values<F extends Fields> = { readonly [K in Given<F>]: Held<F[K]> } & {
  readonly [K in Exclude<keyof F, Given<F>>]?: Held<F[K]> | undefined;
};

/**
 * A size that is not a field: an expression (`sizes.ts`) of fields and sizes of groups; or a function of the call, the record that has
 * the address, and the sizes of the mesh axes, which the native core has as the function `native`.
 */
export type Derived<F extends Fields> =
  | string
  | {
      readonly native: string;
      of(call: Values<F>, item: { readonly [field: string]: unknown }, axes: readonly number[]): number;
    };
