/** @module From a failed call back to what the user wrote. */

import type { Node } from "../../ir/node.ts";
import { meaningAt, positionOf } from "../../ir/trace.ts";
import { type NumberedCall, numberedCalls } from "../../lower/cost.ts";
import { originField } from "../../lower/json.ts";
import { type LowerTarget, lowerProgram } from "../../lower/lower.ts";
import type { Program } from "../../program/program.ts";
import { type HeddleError, refused } from "../../util/errors.ts";
import { codeOf, type Fault, type FaultPlace } from "../../util/faults.ts";
import { placeOf, type Speaker } from "../../util/source.ts";
import type { RunError } from "./error.ts";

/** Which of several devices ran; empty where there is one. */
export type OnDevice = Pick<FaultPlace, "device" | "devices">;

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
  on: OnDevice,
  by: Speaker | undefined,
  where: string | undefined,
): HeddleError | undefined {
  const { program, step, kernel, begun, call, ...fault } = error.fault;
  if (codeOf(error.fault) !== "value" || call === undefined) return undefined;
  const origin = originOf(fault, call, placesOf(ran));
  const position = origin === undefined ? undefined : positionOf(origin);
  const own = position?.by ?? (position === undefined ? by : undefined);
  const name = own?.name ?? origin?.op.name ?? ran.program.name;
  const place = { says: meaningAt(origin, own), where: placeOf(position) ?? where, mark: position?.mark };
  return refused({ ...withoutNumber(fault), ...on, by: name }, place, error);
}

/** Which division of a call it was says only which node. */
function withoutNumber(fault: Fault): Fault {
  if (fault.kind !== "zeroDivisor") return fault;
  const { division, of, ...rest } = fault;
  return rest;
}

interface Places {
  readonly calls: readonly NumberedCall[];
  readonly origins: readonly (readonly Node[])[];
}

const places = new WeakMap<Ran, Places>();

/** The calls of a program with their nodes: made when it fails first. */
function placesOf(ran: Ran): Places {
  const known = places.get(ran);
  if (known !== undefined) return known;
  const origins: (readonly Node[])[] = [];
  const { steps } = lowerProgram(ran.program, { ...ran.target, origins }).json;
  const made = { calls: numberedCalls(steps), origins };
  places.set(ran, made);
  return made;
}

/** The node that refused: where the call leaves one, or the call says which of its divisions it was. */
function originOf(fault: Fault, number: number, { calls, origins }: Places): Node | undefined {
  const found = origins[calls[number]?.call[originField] as number] ?? [];
  if (fault.kind !== "zeroDivisor") return found.length === 1 ? found[0] : undefined;
  // In the order of the group's nodes.
  if (found.length === fault.of) return found[fault.division as number];
  const meant = found.filter(({ op }) => op.name === fault.op);
  return meant.length === 1 ? meant[0] : undefined;
}
