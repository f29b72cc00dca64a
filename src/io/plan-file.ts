/** @module Plans in files. */
import { readFileSync } from "node:fs";
// The graphs of a plan name all ops.
import "../functions/composites/index.ts";
import { type Plan, type PlanLayouts, parseAnyPlan } from "../plan/index.ts";
import { HeddleError } from "../util/errors.ts";
import { unreadable } from "./read.ts";

/**
 * Reads a plan, with graphs or without. Messages about it name the file.
 *
 * @throws HeddleError `file` when the file cannot be read, `parse` with file and line when it is not a plan
 */
export function readPlan(path: string): Plan | PlanLayouts {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw unreadable("plan", path, error);
  }
  try {
    return { ...parseAnyPlan(text), file: path };
  } catch (error) {
    throw error instanceof HeddleError ? error.saying(`${path}: ${error.plain}`) : error;
  }
}
