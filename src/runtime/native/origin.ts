/** @module From a failed call back to what the user wrote. */

import type { Node } from "../../ir/node.ts";
import { positionOf } from "../../ir/trace.ts";
import type { LoweredStep } from "../../lower/index.ts";
import { originField } from "../../lower/json.ts";
import { type LowerTarget, lowerProgram } from "../../lower/lower.ts";
import type { Program } from "../../program/program.ts";
import { type HeddleError, refused } from "../../util/errors.ts";
import { placeOf, type Speaker } from "../../util/source.ts";
import { type RunError, type Way, wayOf } from "./error.ts";

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
  ran: Ran,
  by: Speaker | undefined,
  where: string | undefined,
): HeddleError | undefined {
  if (error.code !== "value") return undefined;
  const { steps, origins } = placesOf(ran);
  const way = wayOf(error, ran.program.name, steps);
  if (way === undefined) return undefined;
  const { iterations, reason } = way;
  const origin = originOf(way, origins);
  const position = origin === undefined ? undefined : positionOf(origin);
  const own = position?.by ?? (position === undefined ? by : undefined);
  const refusal = {
    name: own?.name ?? origin?.op.name ?? ran.program.name,
    iterations,
    reason: withoutNumber(reason),
    says: own?.says,
    where: placeOf(position) ?? where,
    mark: position?.mark,
  };
  const { failure } = error;
  return refused(failure === undefined ? refusal : { ...refusal, name: undefined, reason: failure }, error);
}

interface Places {
  readonly steps: readonly LoweredStep[];
  readonly origins: readonly (readonly Node[])[];
}

const places = new WeakMap<Ran, Places>();

/** The calls of a program with their nodes: made when it fails first. */
function placesOf(ran: Ran): Places {
  const known = places.get(ran);
  if (known !== undefined) return known;
  const origins: (readonly Node[])[] = [];
  const { steps } = lowerProgram(ran.program, { ...ran.target, origins }).json;
  const made = { steps, origins };
  places.set(ran, made);
  return made;
}

/** What a group says of its quotients and remainders, of which each refuses zeros. */
const byZero = /^integer (division|remainder) by zero \(\w+\)(, quotient (\d+) of (\d+))?$/;

/** The node that refused: where the calls that can be meant leave one, or groups say which. */
function originOf({ calls, reason }: Way, origins: Places["origins"]): Node | undefined {
  const found = [...new Set(calls.flatMap((call) => origins[call[originField] as number] ?? []))];
  const [, by, , number, all] = byZero.exec(reason) ?? [];
  // In the order of the group's nodes.
  if (number !== undefined) return found.length === Number(all) ? found[Number(number) - 1] : undefined;
  const meant = by === undefined ? found : found.filter(({ op }) => op.name === (by === "division" ? "div" : "rem"));
  return meant.length === 1 ? meant[0] : undefined;
}

const withoutNumber = (reason: string): string => {
  const [, , which] = byZero.exec(reason) ?? [];
  return which === undefined ? reason : reason.slice(0, -which.length);
};
