/** @module Finds the user's code of a failed call. */

import type { Node } from "../../ir/node.ts";
import { meaningAt, positionOf } from "../../ir/trace.ts";
import { type NumberedCall, numberedCalls } from "../../lower/cost.ts";
import { type LowerTarget, lowerProgram } from "../../lower/index.ts";
import { originField } from "../../lower/json.ts";
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
 * The error for a value that an op refused, with the same text as on every executor; undefined for other errors. Programs do not
 * store where their calls come from: the failed program is lowered again, which gives the same calls with their nodes. So nothing is
 * paid until a program fails.
 *
 * @param by the function that the user called, for a program that is kept for many calls; `where` is the line of that call
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
  const origin = originOf(fault, call, callsOf(ran));
  const position = origin === undefined ? undefined : positionOf(origin);
  const speaker = position?.by ?? (position === undefined ? by : undefined);
  const name = speaker?.name ?? origin?.op.name ?? ran.program.name;
  const location = { says: meaningAt(origin, speaker), where: placeOf(position) ?? where, mark: position?.mark };
  return refused({ ...withoutNumber(fault), ...on, by: name }, location, error);
}

/** The fault without the number of the division, which only serves to find the node. */
function withoutNumber(fault: Fault): Fault {
  if (fault.kind !== "zeroDivisor") return fault;
  const { division, of, ...rest } = fault;
  return rest;
}

interface Numbered {
  readonly calls: readonly NumberedCall[];
  readonly origins: readonly (readonly Node[])[];
}

const numberedOf = new WeakMap<Ran, Numbered>();

/** The calls of a program with their nodes, made at its first failure. */
function callsOf(ran: Ran): Numbered {
  const cached = numberedOf.get(ran);
  if (cached !== undefined) return cached;
  const origins: (readonly Node[])[] = [];
  const { steps } = lowerProgram(ran.program, { ...ran.target, origins }).json;
  const callsAndNodes = { calls: numberedCalls(steps), origins };
  numberedOf.set(ran, callsAndNodes);
  return callsAndNodes;
}

/** The node that refused a value: the call's only node, or the node of the division that failed. */
function originOf(fault: Fault, number: number, { calls, origins }: Numbered): Node | undefined {
  const nodes = origins[calls[number]?.call[originField] as number] ?? [];
  if (fault.kind !== "zeroDivisor") return nodes.length === 1 ? nodes[0] : undefined;
  // In the order of the group's nodes.
  if (nodes.length === fault.of) return nodes[fault.division as number];
  const sameOp = nodes.filter(({ op }) => op.name === fault.op);
  return sameOp.length === 1 ? sameOp[0] : undefined;
}
