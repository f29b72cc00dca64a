/** @module Where packages are found: beside this library, or beside the program where a bundle has taken the library in. */
import { createRequire } from "node:module";
import { join } from "node:path";

/** This module's place; undefined in a bundle of the CommonJS kind. */
export const ownPlace = import.meta.url as string | undefined;

/** `require` as seen from this library, and as seen from the folder of the process. */
export function requires(): NodeJS.Require[] {
  const beside = join(process.cwd(), "package.json");
  return (ownPlace === undefined ? [beside] : [ownPlace, beside]).map((place) => createRequire(place));
}
