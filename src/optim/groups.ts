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
 * One optimizer per group of parameters. A pattern of names chooses each group; the first pattern that matches a parameter counts. So
 * each group has its own learning rate, schedule, weight decay and rule. With `null`, a group is not trained. The state has the state of
 * each group's optimizer, by the optimizer's index.
 *
 * `update` takes as `learningRate` one rate for all groups, or a vector with a rate for each group that has an optimizer. `train`
 * reports the learning rate of the first group.
 *
 * @throws HeddleError `option` for a value that is not an optimizer; from `init` for a pattern that matches no parameter, and for
 * parameters in no group
 * @example optim.groups({ head: optim.adam({ learningRate: 1e-3 }), "**.bias": null, "**": optim.sgd({ learningRate: 1e-4 }) })
 */
export function groups(optimizers: { readonly [pattern: string]: Optimizer | null }): Optimizer {
  const patterns = Object.keys(asRecord("groups", optimizers));
  for (const pattern of patterns) checkGroup(pattern, optimizers[pattern]);
  const parts = Object.values(optimizers).filter((optimizer) => optimizer !== null);
  const [first] = parts;
  if (first === undefined) throw new HeddleError("option", "groups: there is no optimizer for any parameter");
  const eachGroup = <Result>(
    params: Tensors,
    body: (optimizer: Optimizer, names: ReadonlySet<string>, ordinal: number) => Result,
  ): Result[] => {
    checkNullGroups(optimizers, params);
    const members = membersOf(patterns, params);
    let ordinal = 0;
    return patterns.flatMap((pattern, index) => {
      const optimizer = optimizers[pattern];
      return optimizer ? [body(optimizer, members[index] as ReadonlySet<string>, ordinal++)] : [];
    });
  };
  const byOrdinal = (states: readonly Tensors[]): Tensors =>
    Object.fromEntries(states.map((state, ordinal) => [String(ordinal), state]));
  return {
    name: `groups of ${parts.map(({ name }) => name).join(", ")}`,
    learningRate: first.learningRate,
    parts,
    init: (params) => byOrdinal(eachGroup(params, (optimizer, names) => optimizer.init(partOf(params, names)))),
    update(grads, state, params, options) {
      const updated = eachGroup(params, (optimizer, names, ordinal) =>
        optimizer.update(
          partOf(grads, names),
          (state[String(ordinal)] ?? {}) as Tensors,
          partOf(params, names),
          optionsOf(options, ordinal, parts.length),
        ),
      );
      return {
        params: withParts(params, ...updated.map((group) => group.params)),
        state: byOrdinal(updated.map((group) => group.state)),
      };
    },
  };
}

function checkGroup(pattern: string, optimizer: unknown): void {
  const { init, update, parts } = (optimizer ?? {}) as Partial<Optimizer>;
  if (optimizer !== null && (typeof init !== "function" || typeof update !== "function"))
    throw new HeddleError(
      "option",
      `groups: the value of "${pattern}" is ${shown(optimizer)}, not an optimizer or null`,
      {
        hint: 'such as { head: optim.adam({ learningRate: 1e-3 }), "**": optim.sgd({ learningRate: 1e-4 }) }',
      },
    );
  if (parts !== undefined)
    throw new HeddleError("option", `groups: the value of "${pattern}" is itself made by groups`, {
      hint: "write all groups in one record",
    });
}

/** Refuses a group with `null` that matches no parameter: most likely its parameters are frozen, and no optimizer gets those. */
function checkNullGroups(optimizers: { readonly [pattern: string]: Optimizer | null }, params: Tensors): void {
  const { paths } = flattenTree(params, isTensor);
  const frozenPatterns = Object.keys(optimizers).filter((pattern) => optimizers[pattern] === null);
  const unmatched = frozenPatterns.find((pattern) => !paths.some(matching("groups", pattern)));
  if (unmatched === undefined) return;
  throw new HeddleError("option", `groups: "${unmatched}" with null matches none of the parameters that are trained`, {
    hint: `leave it out if it is frozen (nn.frozen, trainable): no optimizer gets frozen parameters; there are ${folded(paths)}`,
  });
}

/** The names of the parameters in each group. */
function membersOf(patterns: readonly string[], params: Tensors): readonly ReadonlySet<string>[] {
  const remaining = new Set(flattenTree(params, isTensor).paths);
  const members = patterns.map((pattern) => {
    const names = [...chosenNames("groups", pattern, params)].filter((name) => remaining.has(name));
    for (const name of names) remaining.delete(name);
    return new Set(names);
  });
  const empty = members.findIndex(({ size }) => size === 0);
  if (empty >= 0)
    throw new HeddleError("option", `groups: all parameters that "${patterns[empty]}" matches are in earlier groups`);
  if (remaining.size === 0) return members;
  throw new HeddleError("option", `groups: ${folded([...remaining])} are in no group`, {
    hint: 'a last group "**" takes all others; with null they are not trained',
  });
}

/** The options of one group's optimizer, with its own rate from a vector of rates. */
function optionsOf(options: UpdateOptions, ordinal: number, count: number): UpdateOptions {
  const { learningRate } = options;
  if (!isTensor(learningRate) || learningRate.shape.length === 0) return options;
  if (learningRate.shape[0] !== count)
    throw new HeddleError("shape", `groups: ${learningRate.shape[0]} learning rates for ${count} groups`);
  return { ...options, learningRate: (learningRate as Tensor).slice([ordinal], [ordinal + 1]).reshape([]) };
}
