/** @module Builtins that work element by element. */

import { type BinaryName, binary, Matrix, type UnaryName, unary, where } from "../../matrix/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { builtin } from "../builtin.ts";
import { nameOfOperator, operateNamed } from "../operators.ts";
import { asMatrix, asScalar, Scalar, type ScalarType, type Value } from "../values.ts";

const sameSize = "the size of X, or a scalar";

function ofOne(names: string, apply: UnaryName, type?: ScalarType): void {
  builtin(names, "X", `${apply} of each element: ${sameSize}`, (args) => {
    const value = args.value("X");
    if (!(value instanceof Scalar)) return unary(apply, args.matrix("X"));
    return new Scalar(type ?? "double", unary(apply, value.matrix));
  });
}

ofOne("exp", "exp");
ofOne("sqrt", "sqrt");
ofOne("abs", "abs");
ofOne("sign", "sign");
ofOne("floor", "floor");
ofOne("ceil ceiling", "ceil");
ofOne("round", "roundHalfUp");
ofOne("sin", "sin");
ofOne("cos", "cos");
ofOne("tan", "tan");
ofOne("asin", "asin");
ofOne("acos", "acos");
ofOne("atan", "atan");
ofOne("sinh", "sinh");
ofOne("cosh", "cosh");
ofOne("tanh", "tanh");
ofOne("sigmoid", "sigmoid");
ofOne("is.nan is.na isNaN isNA", "isnan", "boolean");
ofOne("is.infinite isInf", "isinf", "boolean");

builtin("log", "X base?", `the natural logarithm, or that of a base: ${sameSize}`, (args) => {
  const value = args.value("X");
  const natural = unary("log", value instanceof Scalar ? value.matrix : args.matrix("X"));
  const result = args.has("base") ? natural.div(unary("log", args.scalar("base").matrix)) : natural;
  return value instanceof Scalar ? new Scalar("double", result) : result;
});

/** `min` and `max`: of all elements of one matrix, or of two values element by element. */
function extremum(name: "min" | "max"): void {
  builtin(
    name,
    "X Y? ...",
    `${name} of all elements: a scalar; of several values element by element: ${sameSize}`,
    (args) => {
      const values = args.all.map(({ value }) => value);
      const [first, ...more] = values;
      if (first === undefined) throw new HeddleError("argument", `${name}: takes at least one value`);
      if (more.length === 0) return first instanceof Scalar ? first : new Scalar("double", asMatrix(first)[name]());
      return more.reduce((left, right) => operateNamed(name, left, right), first);
    },
  );
}

extremum("min");
extremum("max");

for (const [names, apply] of [
  ["pmin", "min"],
  ["pmax", "max"],
  ["xor", "xor"],
  ["bitwAnd", "bitwAnd"],
  ["bitwOr", "bitwOr"],
  ["bitwXor", "bitwXor"],
  ["bitwShiftL", "bitwShiftL"],
  ["bitwShiftR", "bitwShiftR"],
] as const satisfies readonly (readonly [string, BinaryName])[])
  builtin(names, "X Y", `${apply} of each pair of elements: ${sameSize}`, (args) =>
    operateNamed(apply, args.value("X"), args.value("Y")),
  );

// SystemDS takes the three in their order, whatever names they are given.
builtin("ifelse", "test X Y ...", "X where the test is true, else Y: the size of the matrices", (args) => {
  if (args.all.length !== 3) throw new HeddleError("argument", `ifelse: takes test, X and Y, got ${args.all.length}`);
  const [test, x, y] = args.all.map(({ value }) => value) as [Value, Value, Value];
  if ([test, x, y].some((value) => value instanceof Matrix)) return where(asMatrix(test), asMatrix(x), asMatrix(y));
  return asScalar(test).number !== 0 ? x : y;
});

builtin("outer", "X Y op", "op of each element of a column X and of a row Y: nrow(X) x ncol(Y)", (args) => {
  const [x, y] = [args.matrix("X"), args.matrix("Y")];
  // Two matrices of one size SystemDS takes element by element.
  if (x.rows === y.rows && x.columns === y.columns) return binary(nameOfOperator(args.text("op")), x, y);
  if (x.columns !== 1 || y.rows !== 1)
    throw new HeddleError(
      "shape",
      `outer: takes a column and a row, got ${x.rows}x${x.columns} and ${y.rows}x${y.columns}`,
    );
  return binary(nameOfOperator(args.text("op")), x, y);
});

builtin(
  "replace",
  "target pattern replacement",
  "target with one number replaced by another: the size of target",
  (args) => {
    const target = args.matrix("target");
    const pattern = args.scalar("pattern").number;
    const found = Number.isNaN(pattern) ? unary("isnan", target) : binary("eq", target, pattern);
    return where(found, args.scalar("replacement").matrix, target);
  },
);

builtin("contains", "target pattern", "whether an element is a number: a boolean", (args) => {
  const target = args.matrix("target");
  const pattern = args.scalar("pattern").number;
  const found = Number.isNaN(pattern) ? unary("isnan", target) : binary("eq", target, pattern);
  return new Scalar("boolean", target.size === 0 ? false : found.max());
});
