/** @module The kinds of encoders, by the names under which they stand in files. */
import type { Kind } from "../encoder.ts";
import { oneHotKind, ordinalKind, recodeKind } from "./categories.ts";
import { dateKind } from "./dates.ts";
import { binKind, scaleKind } from "./numbers.ts";
import { hashKind, wordsKind } from "./words.ts";

/** A closed table: nothing in a file names anything else. */
export const kinds: ReadonlyMap<string, Kind> = new Map([
  ["scale", scaleKind],
  ["bin", binKind],
  ["recode", recodeKind],
  ["ordinal", ordinalKind],
  ["oneHot", oneHotKind],
  ["words", wordsKind],
  ["hash", hashKind],
  ["date", dateKind],
]);
