/** @module From a failed call back to what the user wrote. */

import type { Node } from "../../ir/node.ts";
import { positionOf } from "../../ir/trace.ts";
import type { LoweredStep } from "../../lower/index.ts";
import { type LowerTarget, lowerProgram, originField } from "../../lower/lower.ts";
import type { Program } from "../../program/program.ts";
import { type HeddleError, refused } from "../../util/errors.ts";
import { placeOf } from "../../util/source.ts";
import { type RunError, wayOf } from "./error.ts";

/** The program that a device ran. */
export interface Ran {
  readonly program: Program;
  readonly target: LowerTarget;
}

/**
 * A value that an op refused, in the words of every executor; undefined where it is no such error. Programs know nothing of
 * where their calls come from: the one that failed is lowered once more, which gives the same calls, with their nodes. That
 * costs nothing until then.
 *
 * @param by what the user called, where the program is kept for many calls; `where` is the line of that
 */
export function refusalOf(
  error: RunError,
  { program, target }: Ran,
  by: string | undefined,
  where: string | undefined,
): HeddleError | undefined {
  if (error.code !== "value") return undefined;
  const nodes: Node[] = [];
  const { steps } = lowerProgram(program, { ...target, origins: nodes }).json;
  const way = wayOf(error, program.name, steps);
  if (way === undefined) return undefined;
  const { iterations, reason } = way;
  const origin = originOf(way.calls, nodes);
  const position = origin === undefined ? undefined : positionOf(origin);
  const own = position?.by?.name ?? (position === undefined ? by : undefined);
  const refusal = {
    name: own ?? origin?.op.name ?? program.name,
    iterations,
    reason,
    where: placeOf(position) ?? where,
  };
  const { failure } = error;
  return refused(failure === undefined ? refusal : { ...refusal, name: undefined, reason: failure }, error);
}

/** The node of the calls that can be meant, where it is one. */
function originOf(calls: readonly LoweredStep[], nodes: readonly Node[]): Node | undefined {
  const found = new Set(calls.map((call) => nodes[call[originField] as number]));
  return found.size === 1 ? [...found][0] : undefined;
}
