/** @module Builtins that turn frames into numbers and back, and their cells into others. */

import { HeddleError } from "../../util/errors.ts";
import { type Args, builtin } from "../builtin.ts";
import { cellOf, type Lambda, parseLambda } from "../lambda.ts";
import { tokenized } from "../tokens.ts";
import { columnMap, decoded, encoded, encodingsOf, learned, metadataOf, specOf } from "../transform.ts";
import { Frame, kindOf } from "../values.ts";
import { asFrame } from "./reorganize.ts";

function frameOf(what: string, args: Args, name: string): Frame {
  const value = args.value(name);
  if (value instanceof Frame) return value;
  throw new HeddleError("argument", `${what}: '${name}' is ${kindOf(value)}, not a frame`, {
    hint: "write as.frame(X)",
  });
}

builtin(
  "transformencode",
  "target spec",
  "[the frame as numbers, the metadata]: columns are recoded, binned, hashed, dummy-coded or taken as they are",
  (args) => {
    const target = frameOf("transformencode", args, "target");
    const spec = specOf(args.text("spec"), target.names);
    const encodings = learned(target, spec);
    return [encoded(target, encodings, spec), metadataOf(encodings, target.names)];
  },
);
builtin("transformapply", "target spec meta", "a frame as numbers by the metadata of another one", (args) => {
  const target = frameOf("transformapply", args, "target");
  const meta = frameOf("transformapply", args, "meta");
  const spec = specOf(args.text("spec"), target.names);
  return encoded(target, encodingsOf(meta, spec), spec);
});
builtin("transformdecode", "target spec meta", "encoded numbers as a frame: nrow(target) x ncol(meta)", (args) => {
  const target = args.matrix("target");
  const meta = frameOf("transformdecode", args, "meta");
  const spec = specOf(args.text("spec"), meta.names);
  return decoded(target.dataSync(), target.rows, encodingsOf(meta, spec), meta.names);
});
builtin(
  "transformcolmap",
  "target spec",
  "for each column of the metadata: itself, and the first and last column that it is encoded as: ncol(target) x 3",
  (args) => {
    const meta = frameOf("transformcolmap", args, "target");
    return columnMap(encodingsOf(meta, specOf(args.text("spec"), meta.names)));
  },
);

builtin(
  "tokenize",
  "target spec max_tokens",
  "the words of a column: a row for each word with identifiers, place or count",
  (args) => {
    const most = args.int("max_tokens");
    if (most < 1) throw new HeddleError("argument", `tokenize: max_tokens is ${most}`);
    return tokenized(frameOf("tokenize", args, "target"), args.text("spec"), most);
  },
);

/** Each pair of different rows of the first column, above the diagonal. */
function ofPairs({ columns: [column = []] }: Frame, lambda: Lambda): Frame {
  return new Frame(
    column.map((_cell, j) =>
      column.map((cell, i) => (i < j ? cellOf(lambda.apply(cell, column[j] as string)) : "0.0")),
    ),
  );
}

/** Whole rows (margin 1) or columns (margin 2), as arrays of texts. */
function ofLines(frame: Frame, lambda: Lambda, margin: number): Frame {
  const lines =
    margin === 2
      ? frame.columns
      : Array.from({ length: frame.rows }, (_unused, row) => frame.columns.map((column) => column[row] as string));
  const results = lines.map((line) => {
    const result = lambda.apply(line);
    if (Array.isArray(result)) return result as readonly string[];
    throw new HeddleError("argument", "map: a function of rows or columns gives an array", {
      hint: 'write new String[]{…}, or leave "margin" away',
    });
  });
  if (margin === 2) return new Frame(results);
  return new Frame((results[0] ?? []).map((_cell, at) => results.map((line) => line[at] ?? "")));
}

builtin(
  "map",
  "target expression margin?",
  "a frame whose cells, rows (margin 1) or columns (margin 2) are those of target, changed by a lambda expression of Java",
  (args) => {
    const frame = asFrame(args.value("target"));
    const lambda = parseLambda(args.text("expression"));
    const margin = args.int("margin", 0);
    if (margin < 0 || margin > 2) throw new HeddleError("argument", `map: margin is 0, 1 or 2, not ${margin}`);
    if (lambda.parameters.length === 2) return ofPairs(frame, lambda);
    if (margin > 0) return ofLines(frame, lambda, margin);
    return new Frame(
      frame.columns.map((column) => column.map((cell) => cellOf(lambda.apply(cell)))),
      frame.names,
    );
  },
);
