/** @module A server device: it has state and runs its handlers, one after another, in the order of the requests. */

import { type CompiledFunction, compileFunction, isTensor, meshOf, planFunction } from "../functions/index.ts";
import { typeOf } from "../ir/shape.ts";
import { type Handler, type ServerProgram, verifyServerProgram } from "../program/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";

/** A handler as a user writes it: from the state and the arguments of a request to the next state and a reply. */
export interface HandlerFunction<State> {
  /** Pure. A handler that gives no `state` only reads. */
  // biome-ignore lint/suspicious/noExplicitAny: arguments of any form; their types are given beside
  readonly run: (state: State, ...inputs: any[]) => { readonly state?: State; readonly reply?: unknown };
  /** Types of the arguments after the state, in trees. */
  readonly inputs: readonly unknown[];
}

// biome-ignore lint/suspicious/noExplicitAny: see HandlerFunction
type Compiled = CompiledFunction<(...inputs: any[]) => any>;

/** A device of a parameter server: it has state, and runs one handler for each request. */
export class ServerDevice<State> {
  /** The state and the handlers of the device, as data. */
  readonly program: ServerProgram;
  private state: State;
  private readonly handlers: ReadonlyMap<string, { readonly compiled: Compiled; readonly writes: boolean }>;

  /** @throws HeddleError `verify` when a handler does not fit the state. */
  constructor(
    runtime: Runtime,
    name: string,
    state: State,
    handlers: { readonly [name: string]: HandlerFunction<State> },
  ) {
    this.state = state;
    const types = flattenTree(state, isTensor);
    const stateTypes = unflattenTree(types.shape, types.leaves.map(typeOf));
    const compiled = Object.entries(handlers).map(([handler, { run, inputs }]) => {
      const traced = (current: State, ...requestInputs: unknown[]): unknown => {
        const { state: next = [], reply = [] } = run(current, ...requestInputs);
        return [next, reply];
      };
      const example = [stateTypes, ...inputs];
      // A state that is only read must not be donated, so this first looks whether the handler returns a next state.
      const options = { name: handler, argumentNames: ["state"] };
      const { outputPaths } = planFunction(traced, example, meshOf(runtime), options);
      const writes = outputPaths.some((path) => path.split(".")[0] === "0");
      const handlerFunction = compileFunction(traced, example, runtime, {
        ...options,
        donate: writes ? ["state"] : [],
      });
      return [handler, { compiled: handlerFunction as Compiled, writes }] as const;
    });
    this.handlers = new Map(compiled);
    this.program = {
      kind: "server",
      name,
      state: types.leaves.map((leaf, index) => ({ name: types.paths[index] as string, type: typeOf(leaf) })),
      handlers: compiled.map(
        ([handler, { compiled: handlerFunction, writes }]): Handler => ({
          name: handler,
          program: handlerFunction.compiled.program,
          writes,
        }),
      ),
    };
    verifyServerProgram(this.program);
  }

  /**
   * Enqueues a request; the reply's contents come later.
   *
   * @throws HeddleError `argument` when the handler does not exist, or takes arguments of another form.
   */
  ask(name: string, ...inputs: readonly unknown[]): unknown {
    const handler = this.handlers.get(name);
    if (handler === undefined) {
      throw new HeddleError("argument", `${this.program.name} has no handler '${name}'`, {
        hint: `it has ${[...this.handlers.keys()].join(", ")}`,
      });
    }
    const [state, reply] = handler.compiled.run(this.state, ...inputs) as [State, unknown];
    if (handler.writes) this.state = state;
    return reply;
  }
}
