/** @module Machines as data: what users give to a compile, or write into a file for machines that are not here. */
import { HeddleError } from "../util/errors.ts";
import { checkNumber, checkOptions } from "../util/options.ts";
import { readEnvironment } from "../util/settings.ts";
import { shown } from "../util/show.ts";
import { isRecord } from "../util/tree.ts";
import { type Machine, machineFor } from "./machine.ts";

const links = ["latency", "bandwidth"] as const;
const thread = ["count", "flops", "memory", "share"] as const;
const rates = ["flops", "memory", ...links, "call", "handover", "devices"] as const;

function checkRates(what: string, given: object, names: readonly string[]): void {
  for (const name of names) {
    const value = (given as { readonly [name: string]: number | undefined })[name];
    if (value === undefined) throw new HeddleError("option", `${what}: '${name}' is missing`);
    // What takes time may take none; a rate of nothing never ends.
    checkNumber(what, name, value, ["latency", "call", "handover", "share"].includes(name) ? 0 : Number.MIN_VALUE);
  }
}

/**
 * Checks a machine; `call` and `handover` may be missing, and are then what is assumed of any.
 *
 * @throws HeddleError `option` naming a field that is missing, misspelt or no rate.
 */
export function checkMachine(what: string, given: Partial<Machine>): Machine {
  if (!isRecord(given))
    throw new HeddleError("option", `${what}: a machine is a record of rates, got ${shown(given)}`, {
      hint: `it has ${rates.join(", ")} (docs/distributed.md); heddle machine measures one`,
    });
  checkOptions(what, given, [...rates, "name", "links", "thread"]);
  const { call, handover } = machineFor(1);
  const machine = { call, handover, ...given } as Machine;
  checkRates(what, machine, machine.devices === undefined ? rates.filter((name) => name !== "devices") : rates);
  if (machine.name !== undefined && typeof machine.name !== "string")
    throw new HeddleError("option", `${what}: name must be text`);
  if (machine.thread !== undefined) {
    checkOptions(`${what}: thread`, machine.thread, thread);
    checkRates(`${what}: thread`, machine.thread, thread);
  }
  if (machine.links === undefined) return machine;
  if (!isRecord(machine.links)) throw new HeddleError("option", `${what}: links must be a record of mesh axes`);
  for (const [axis, link] of Object.entries(machine.links)) {
    checkOptions(`${what}: links.${axis}`, link, links);
    checkRates(`${what}: links.${axis}`, link, links);
  }
  return machine;
}

/** Reads a machine from JSON. @param what the file, for messages @throws HeddleError `format` or `option` */
export function parseMachine(text: string, what: string): Machine {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new HeddleError("format", `${what} is not JSON: ${(error as Error).message}`);
  }
  return checkMachine(what, given as Partial<Machine>);
}

/** The machine that `--machine` names, which HEDDLE_MACHINE holds as JSON; undefined without. @throws as {@link parseMachine} */
export function environmentMachine(): Machine | undefined {
  const { machine } = readEnvironment();
  return machine === undefined ? undefined : parseMachine(machine, "HEDDLE_MACHINE");
}
