/** @module Where packages are found: beside this library, or beside the program where a bundle has taken the library in. */
// The whole module: webpack takes calls of an imported `createRequire` out, where it cannot tell what will be required.
import nodeModule from "node:module";
import { resolve } from "node:path";

/** This module's place; undefined in a bundle of the CommonJS kind. */
export const ownPlace = import.meta.url as string | undefined;

/** `require` as seen from this library, from the program that runs, and from the folder of the process. */
export function requires(): NodeJS.Require[] {
  const [, program] = process.argv;
  const places = [ownPlace, program === undefined ? undefined : resolve(program), resolve("package.json")];
  return places.filter((place) => place !== undefined).map((place) => nodeModule.createRequire(place));
}
