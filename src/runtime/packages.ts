/** @module Finds packages: beside this library, or, for a bundled library, beside the program. */
// The whole module: webpack removes calls of an imported `createRequire` if it cannot tell what will be required.
import nodeModule from "node:module";
import { resolve } from "node:path";

/** This module's URL; undefined in a CommonJS bundle. */
export const ownPlace = import.meta.url as string | undefined;

/** `require` as seen from this library, from the main program, and from the current folder. */
export function requires(): NodeJS.Require[] {
  const [, program] = process.argv;
  const files = [ownPlace, program === undefined ? undefined : resolve(program), resolve("package.json")];
  return files.filter((path) => path !== undefined).map((path) => nodeModule.createRequire(path));
}
