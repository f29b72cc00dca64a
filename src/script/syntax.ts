/** @module The syntax tree of DML scripts. */

/** Where something stands in a file. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** An argument of a call, by position or by name. */
export interface Argument {
  readonly name: string | undefined;
  readonly value: Term;
}

/** One dim of an index: everything, one position, or a range with both ends. */
export type IndexRange =
  | { readonly kind: "all" }
  | { readonly kind: "one"; readonly at: Term }
  | { readonly kind: "range"; readonly from: Term; readonly to: Term };

/** An expression. */
export type Term = { readonly at: Place } & (
  | { readonly kind: "int" | "double"; readonly value: number }
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "boolean"; readonly value: boolean }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "parameter"; readonly name: string }
  | { readonly kind: "unary"; readonly op: "-" | "+" | "!"; readonly operand: Term }
  | { readonly kind: "binary"; readonly op: string; readonly left: Term; readonly right: Term }
  | { readonly kind: "call"; readonly name: string; readonly args: readonly Argument[] }
  | { readonly kind: "index"; readonly name: string; readonly ranges: readonly IndexRange[] }
);

/** What is assigned to: a variable, or a part of one. */
export interface Target {
  readonly at: Place;
  readonly name: string;
  readonly ranges: readonly IndexRange[] | undefined;
}

/** A statement. */
export type Statement = { readonly at: Place } & (
  | { readonly kind: "assign"; readonly target: Target; readonly adds: boolean; readonly value: Term }
  | { readonly kind: "results"; readonly targets: readonly Target[]; readonly value: Term }
  | { readonly kind: "call"; readonly value: Term }
  | { readonly kind: "if"; readonly test: Term; readonly then: Block; readonly otherwise: Block }
  | { readonly kind: "while"; readonly test: Term; readonly body: Block }
  | {
      readonly kind: "for";
      readonly parallel: boolean;
      readonly variable: string;
      readonly from: Term;
      readonly to: Term | undefined;
      readonly body: Block;
    }
  | { readonly kind: "source"; readonly path: string; readonly as: string }
  | { readonly kind: "setwd"; readonly path: string }
);

/** Statements, one after another. */
export type Block = readonly Statement[];

/** A parameter or a result of a function. */
export interface Parameter {
  readonly name: string;
  /** `matrix`, `frame`, `list`, or the type of a scalar, in small letters. */
  readonly type: string;
  readonly byDefault: Term | undefined;
}

/** A function of a script. */
export interface FunctionDefinition {
  readonly at: Place;
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly results: readonly Parameter[];
  readonly body: Block;
  /** Names that the body reads somewhere: what else is assigned is not asked for. */
  readonly reads: ReadonlySet<string>;
}

/** A file: its functions and its statements. */
export interface ScriptFile {
  readonly path: string;
  readonly functions: ReadonlyMap<string, FunctionDefinition>;
  readonly body: Block;
  readonly reads: ReadonlySet<string>;
}

/** Where a place is, for messages. */
export const formatPlace = ({ file, line, column }: Place): string => `${file}:${line}:${column}`;
