/**
 * @module The program of a parameter server: state that persists, and a closed table of handlers, each a program. A request
 * names a handler and carries its arguments; nothing else can be requested.
 */
import { formatType, sameType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { printProgram } from "./print.ts";
import type { Program, ProgramInput } from "./program.ts";
import { verifyProgram } from "./verify.ts";

/** One entry of the table. The first inputs of its program are the state; the further inputs come with the request. */
export interface Handler {
  readonly name: string;
  readonly program: Program;
  /** Whether its first outputs are the next values of the state, which take over the buffers of the old values. */
  readonly writes: boolean;
}

/** State and handlers of a server device, which runs the handlers of requests in the order of their arrival. */
export interface ServerProgram {
  readonly kind: "server";
  readonly name: string;
  readonly state: readonly ProgramInput[];
  readonly handlers: readonly Handler[];
}

/** Prints the program of a server: its state, then each handler's program. */
export function printServerProgram({ name, state, handlers }: ServerProgram): string {
  const lines = [`server @${name} {`];
  for (const { name: value, type } of state) lines.push(`  state ${formatType(type)} ${value}`);
  for (const handler of handlers) {
    lines.push(`  handler ${handler.name}${handler.writes ? " writes" : ""}`);
    for (const line of printProgram(handler.program).trimEnd().split("\n")) lines.push(`    ${line}`);
  }
  return `${lines.join("\n")}\n}\n`;
}

/**
 * Verifies the program of a server and the programs of its handlers.
 *
 * @throws HeddleError `verify` naming the handler that does not fit the state.
 */
export function verifyServerProgram({ name, state, handlers }: ServerProgram): void {
  const fail = (handler: Handler, problem: string): never => {
    throw new HeddleError("verify", `server '${name}', handler '${handler.name}': ${problem}`);
  };
  const names = new Set<string>();
  for (const handler of handlers) {
    const { program } = handler;
    verifyProgram(program);
    if (names.has(handler.name)) fail(handler, "two handlers have this name");
    names.add(handler.name);
    state.forEach(({ name: value, type }, index) => {
      const input = program.inputs[index];
      if (input === undefined || !sameType(input.type, type))
        fail(handler, `does not take '${value}' ${formatType(type)}`);
      const output = program.outputs[index];
      if (!handler.writes) return;
      if (output === undefined || !sameType(output.type, type))
        fail(handler, `does not return '${value}' ${formatType(type)}`);
      if (program.donated[index] !== index) fail(handler, `does not write '${value}' in place`);
    });
    const firstFreeOutput = handler.writes ? state.length : 0;
    if (program.donated.slice(firstFreeOutput).some((input) => input !== undefined && input < state.length)) {
      fail(handler, "donates a buffer of the state");
    }
  }
}
