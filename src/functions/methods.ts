/** @module The methods of tensors: the functions of the folder `methods`. */

import { formatType } from "../ir/shape.ts";
import { Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { foreignMembers, methodHint } from "../util/foreign.ts";
import * as functions from "./methods/index.ts";

type Method<F> = F extends (x: never, ...rest: infer Rest) => infer Result ? (...rest: Rest) => Result : never;

/** The methods: each is the exported function of its name, with this tensor as the first argument. */
export type Methods = { [Name in keyof typeof functions]: Method<(typeof functions)[Name]> };

declare module "../tensor/tensor.ts" {
  interface Tensor extends Methods {}
}

for (const [name, call] of Object.entries(
  functions as { readonly [name: string]: (...operands: never[]) => unknown },
)) {
  const value = function (this: Tensor, ...rest: never[]): unknown {
    return call(this as never, ...rest);
  };
  Object.defineProperty(Tensor.prototype, name, { value, writable: true, configurable: true });
}

// Members of other libraries' tensors are not members by type; for users without types they throw an error that names Heddle's own.
// An iterator is not among them: deep comparisons of test runners iterate over everything that has one.
for (const name of foreignMembers) {
  const missing = function (this: Tensor): undefined {
    if (this === Tensor.prototype) return;
    const hint = methodHint(name);
    throw new HeddleError("argument", `${formatType(this)} has no '${name}'`, hint === undefined ? {} : { hint });
  };
  Object.defineProperty(Tensor.prototype, name, {
    configurable: true,
    ...(name === "T" ? { get: missing } : { value: missing, writable: true }),
  });
}
