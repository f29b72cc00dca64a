/** @module Builtins of neural networks. A row holds an image: its channels, each row by row. */

import { binary } from "../../matrix/index.ts";
import { builtin } from "../builtin.ts";

builtin("bias_add", "X bias", "a bias for each channel added: the size of X", (args) =>
  perChannel("add", args.matrix("X"), args.matrix("bias")),
);
builtin("bias_multiply", "X bias", "each channel times a number: the size of X", (args) =>
  perChannel("mul", args.matrix("X"), args.matrix("bias")),
);

type M = ReturnType<typeof binary>;

function perChannel(name: "add" | "mul", x: M, bias: M): M {
  const width = x.columns / bias.rows;
  return binary(name, x.reshape(x.rows * bias.rows, width), repeatRows(bias, x.rows)).reshape(x.rows, x.columns);
}

const repeatRows = (bias: M, times: number): M =>
  bias.take(Array.from({ length: bias.rows * times }, (_unused, row) => row % bias.rows));
