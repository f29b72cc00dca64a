/** @module Optimizers by groups of parameters. */
import { isTensor, type Tensor, type Tensors } from "../functions/index.ts";
import { chosenNames, partOf, withParts } from "../functions/parts.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord } from "../util/options.ts";
import { folded, matching } from "../util/pattern.ts";
import { shown } from "../util/show.ts";
import { flattenTree } from "../util/tree.ts";
import type { Optimizer, UpdateOptions } from "./optimizer.ts";

/**
 * An optimizer for each group of parameters, which are named by a pattern: the first that matches a parameter counts. So groups have
 * learning rates, schedules, weight decay and rules of their own. `null` leaves its group as it is. The state is that of each group's
 * optimizer, by its place.
 *
 * `update` takes as `learningRate` a vector with a rate for each group that has an optimizer, or one for all. The learning rate that
 * `train` tells is that of the first.
 *
 * @throws HeddleError `option` for what is no optimizer; from `init` for a pattern that matches no parameter, and for parameters of no
 * group
 * @example optim.groups({ head: optim.adam({ learningRate: 1e-3 }), "**.bias": null, "**": optim.sgd({ learningRate: 1e-4 }) })
 */
export function groups(optimizers: { readonly [pattern: string]: Optimizer | null }): Optimizer {
  const patterns = Object.keys(asRecord("groups", optimizers));
  for (const pattern of patterns) checkGroup(pattern, optimizers[pattern]);
  const parts = Object.values(optimizers).filter((one) => one !== null);
  const [first] = parts;
  if (first === undefined) throw new HeddleError("option", "groups: there is no optimizer for any parameter");
  const eachGroup = <Result>(
    params: Tensors,
    body: (optimizer: Optimizer, names: ReadonlySet<string>, place: number) => Result,
  ): Result[] => {
    checkLeft(optimizers, params);
    const members = membersOf(patterns, params);
    let place = 0;
    return patterns.flatMap((pattern, index) => {
      const optimizer = optimizers[pattern];
      return optimizer ? [body(optimizer, members[index] as ReadonlySet<string>, place++)] : [];
    });
  };
  const placed = (states: readonly Tensors[]): Tensors =>
    Object.fromEntries(states.map((state, place) => [String(place), state]));
  return {
    name: `groups of ${parts.map(({ name }) => name).join(", ")}`,
    learningRate: first.learningRate,
    parts,
    init: (params) => placed(eachGroup(params, (optimizer, names) => optimizer.init(partOf(params, names)))),
    update(grads, state, params, options) {
      const updated = eachGroup(params, (optimizer, names, place) =>
        optimizer.update(
          partOf(grads, names),
          (state[String(place)] ?? {}) as Tensors,
          partOf(params, names),
          optionsOf(options, place, parts.length),
        ),
      );
      return {
        params: withParts(params, ...updated.map((one) => one.params)),
        state: placed(updated.map((one) => one.state)),
      };
    },
  };
}

function checkGroup(pattern: string, optimizer: unknown): void {
  const { init, update, parts } = (optimizer ?? {}) as Partial<Optimizer>;
  if (optimizer !== null && (typeof init !== "function" || typeof update !== "function"))
    throw new HeddleError("option", `groups: of "${pattern}" is ${shown(optimizer)}, not an optimizer or null`, {
      hint: 'such as { head: optim.adam({ learningRate: 1e-3 }), "**": optim.sgd({ learningRate: 1e-4 }) }',
    });
  if (parts !== undefined)
    throw new HeddleError("option", `groups: of "${pattern}" are groups again`, { hint: "write all in one record" });
}

/** A group that is left as it is, and of which there is nothing: most likely it is frozen, and then no optimizer sees it. */
function checkLeft(optimizers: { readonly [pattern: string]: Optimizer | null }, params: Tensors): void {
  const { paths } = flattenTree(params, isTensor);
  const left = Object.keys(optimizers).filter((pattern) => optimizers[pattern] === null);
  const none = left.find((pattern) => !paths.some(matching("groups", pattern)));
  if (none === undefined) return;
  throw new HeddleError("option", `groups: "${none}" with null matches none of the parameters that are trained`, {
    hint: `leave it out if it is frozen (nn.frozen, trainable): no optimizer is given that; there are ${folded(paths)}`,
  });
}

/** The names in each group. */
function membersOf(patterns: readonly string[], params: Tensors): readonly ReadonlySet<string>[] {
  const left = new Set(flattenTree(params, isTensor).paths);
  const members = patterns.map((pattern) => {
    const own = [...chosenNames("groups", pattern, params)].filter((name) => left.has(name));
    for (const name of own) left.delete(name);
    return new Set(own);
  });
  const empty = members.findIndex(({ size }) => size === 0);
  if (empty >= 0)
    throw new HeddleError("option", `groups: all that "${patterns[empty]}" matches is in groups before it`);
  if (left.size === 0) return members;
  throw new HeddleError("option", `groups: ${folded([...left])} are in no group`, {
    hint: 'a last group "**" takes all others, with null to leave them as they are',
  });
}

/** What one group's optimizer is told: of a vector of rates its own. */
function optionsOf(options: UpdateOptions, place: number, count: number): UpdateOptions {
  const { learningRate } = options;
  if (!isTensor(learningRate) || learningRate.shape.length === 0) return options;
  if (learningRate.shape[0] !== count)
    throw new HeddleError("shape", `groups: ${learningRate.shape[0]} learning rates for ${count} groups`);
  return { ...options, learningRate: (learningRate as Tensor).slice([place], [place + 1]).reshape([]) };
}
