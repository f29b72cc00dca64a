/**
 * @module Caffe's solvers, by its own update rules: momentum holds the learning rate of each past step, unlike PyTorch's, which
 * shows wherever the rate changes.
 */

import { flattenTree, HeddleError, unflattenTree } from "../../extend/index.ts";
import { isTensor, sqrt, type Tensor, type Tensors } from "../../functions/index.ts";
import {
  biasCorrection,
  type Optimizer,
  perParameter,
  type Rule,
  type Schedule,
  type StepScalars,
} from "../../optim/index.ts";
import { errorAt, type Message } from "./text.ts";

/** How a layer's parameter learns: its `lr_mult` and `decay_mult`. */
export interface Multipliers {
  readonly rate: number;
  readonly decay: number;
}

/** A solver, as a file declares it. */
export interface CaffeSolver {
  /** The network file it names (`net`, or `train_net`), if any, as written. */
  readonly net: string | undefined;
  /** The stages of its `train_state` and of its first `test_state`, which rules of layers ask for. */
  readonly stages: { readonly train: readonly string[]; readonly test: readonly string[] };
  /** Iterations to train: one batch each. */
  readonly maxIterations: number;
  /** Iterations between tests; 0 for none. */
  readonly testInterval: number;
  /** Batches of each test. */
  readonly testIterations: number;
  /** The learning rate of each iteration. */
  readonly learningRate: Schedule;
  /** The update rule, for parameters with multipliers by dotted name; default 1. */
  optimizer(multipliers?: ReadonlyMap<string, Multipliers>): Optimizer;
}

const policies = ["fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid"] as const;

/** Learning rate by iteration, as Caffe's `lr_policy` defines it. */
function schedule(solver: Message, maxIterations: number): Schedule {
  const base = solver.number("base_lr");
  const gamma = (): number => solver.number("gamma");
  switch (solver.word("lr_policy", policies)) {
    case "fixed":
      return () => base;
    case "step": {
      const [factor, size] = [gamma(), solver.integer("stepsize", 1)];
      return (at) => base * factor ** Math.floor(at / size);
    }
    case "exp": {
      const factor = gamma();
      return (at) => base * factor ** at;
    }
    case "inv": {
      const [factor, power] = [gamma(), solver.number("power")];
      return (at) => base * (1 + factor * at) ** -power;
    }
    case "multistep": {
      const [factor, steps] = [gamma(), solver.numbers("stepvalue")];
      return (at) => base * factor ** steps.filter((step) => at >= step).length;
    }
    case "poly": {
      const power = solver.number("power");
      return (at) => base * (1 - Math.min(at, maxIterations) / maxIterations) ** power;
    }
    case "sigmoid": {
      const [factor, size] = [gamma(), solver.integer("stepsize", 1)];
      return (at) => base / (1 + Math.exp(-factor * (at - size)));
    }
  }
}

type Apply = Rule<"history" | "second">["apply"];
type Slot = "history" | "second";

/** The update rule of each type, on gradients that include the weight decay. */
function rules(solver: Message): { readonly slots: readonly Slot[]; readonly apply: Apply } {
  const momentum = solver.number("momentum", 0);
  const delta = solver.number("delta", 1e-8);
  switch (solver.word("type", ["SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"], "SGD")) {
    case "SGD":
      return withHistory("history", (gradient, history, { learningRate }) => {
        const next = history.mul(momentum).add(gradient.mul(learningRate));
        return [next, next];
      });
    case "Nesterov":
      return withHistory("history", (gradient, history, { learningRate }) => {
        const next = history.mul(momentum).add(gradient.mul(learningRate));
        return [next, next.mul(1 + momentum).sub(history.mul(momentum))];
      });
    case "AdaGrad":
      return withHistory("history", (gradient, history, { learningRate }) => {
        const next = history.add(gradient.mul(gradient));
        return [next, gradient.mul(learningRate).div(sqrt(next).add(delta))];
      });
    case "RMSProp": {
      const decay = solver.number("rms_decay", 0.99);
      return withHistory("history", (gradient, history, { learningRate }) => {
        const next = history.mul(decay).add(gradient.mul(gradient).mul(1 - decay));
        return [next, gradient.mul(learningRate).div(sqrt(next).add(delta))];
      });
    }
    case "AdaDelta":
      return adaDelta(momentum, delta);
    case "Adam":
      return adam(momentum, solver.number("momentum2", 0.999), delta);
  }
}

function withHistory(
  slot: Slot,
  step: (gradient: Tensor, history: Tensor, scalars: StepScalars) => readonly [history: Tensor, change: Tensor],
): { readonly slots: readonly Slot[]; readonly apply: Apply } {
  return {
    slots: [slot],
    apply: (gradient, parameter, slots, scalars) => {
      const [history, change] = step(decayed(gradient, parameter, scalars), slots.history, scalars);
      return { parameter: parameter.sub(change), slots: { history } };
    },
  };
}

const decayed = (gradient: Tensor, parameter: Tensor, { weightDecay }: StepScalars): Tensor =>
  weightDecay === 0 ? gradient : gradient.add(parameter.mul(weightDecay));

/** Caffe's AdaDelta (Zeiler 2012): `momentum` is the decay of both averages, and the learning rate scales the step. */
function adaDelta(decay: number, delta: number): { readonly slots: readonly Slot[]; readonly apply: Apply } {
  const average = (old: Tensor, x: Tensor): Tensor => old.mul(decay).add(x.mul(x).mul(1 - decay));
  return {
    slots: ["history", "second"],
    apply: (raw, parameter, slots, scalars) => {
      const gradient = decayed(raw, parameter, scalars);
      const history = average(slots.history, gradient);
      const change = gradient.mul(sqrt(slots.second.add(delta).div(history.add(delta))));
      const second = average(slots.second, change);
      return { parameter: parameter.sub(change.mul(scalars.learningRate)), slots: { history, second } };
    },
  };
}

/** Caffe's Adam: epsilon is added to the root before the bias is corrected. */
function adam(
  beta1: number,
  beta2: number,
  epsilon: number,
): { readonly slots: readonly Slot[]; readonly apply: Apply } {
  return {
    slots: ["history", "second"],
    apply: (raw, parameter, slots, scalars) => {
      const gradient = decayed(raw, parameter, scalars);
      const history = slots.history.mul(beta1).add(gradient.mul(1 - beta1));
      const second = slots.second.mul(beta2).add(gradient.mul(gradient).mul(1 - beta2));
      const [first, spread] = [biasCorrection(beta1, scalars.count), biasCorrection(beta2, scalars.count)];
      const change = history.div(first).mul(scalars.learningRate).div(sqrt(second).add(epsilon));
      const corrected = typeof spread === "number" ? change.mul(Math.sqrt(spread)) : change.mul(sqrt(spread));
      return { parameter: parameter.sub(corrected), slots: { history, second } };
    },
  };
}

/**
 * An optimizer whose steps are scaled by each parameter's `lr_mult`, which equals a scaled learning rate under every
 * rule.
 */
function withRates(optimizer: Optimizer, rateOf: (name: string) => number): Optimizer {
  return {
    ...optimizer,
    update(grads, state, params, options) {
      const updated = optimizer.update(grads, state, params, options);
      const [before, after] = [params, updated.params].map((tree) => flattenTree<Tensor>(tree, isTensor));
      const leaves = (after as NonNullable<typeof after>).leaves.map((leaf, index) => {
        const rate = rateOf((before as NonNullable<typeof before>).paths[index] as string);
        const old = (before as NonNullable<typeof before>).leaves[index] as Tensor;
        return rate === 1 ? leaf : old.add(leaf.sub(old).mul(rate));
      });
      const tree = unflattenTree((after as NonNullable<typeof after>).shape, leaves);
      return { ...updated, params: tree as typeof params & Tensors };
    },
  };
}

/** The stages of a phase's state; those of the first test where there are several. */
function stagesOf(solver: Message, field: string): string[] {
  const states = solver.messages(field).map((state) => {
    const stages = state.texts("stage");
    state.ignore("phase", "level");
    state.finish();
    return stages;
  });
  return states[0] ?? [];
}

/** Reads a solver's fields. @throws HeddleError `format` for what is missing, misspelt or not imported, with its place. */
export function solverOf(message: Message): CaffeSolver {
  if (!message.has("max_iter") && (message.has("layer") || message.has("layers")))
    throw errorAt(
      message,
      "this is a network, not a solver",
      "give loadCaffe the solver that trains it; parseCaffeNet reads a network alone",
    );
  const maxIterations = message.integer("max_iter", 1);
  const learningRate = schedule(message, maxIterations);
  const { slots, apply } = rules(message);
  const weightDecay = message.number("weight_decay", 0);
  message.word("regularization_type", ["L2"], "L2");
  if (message.integer("iter_size", 1, 1) !== 1)
    throw new HeddleError("option", `${message.file}: iter_size is not imported`, {
      hint: "leave it out, and give train the option accumulate",
    });
  const name = ["net", "train_net"].find((field) => message.has(field));
  const net = name === undefined ? undefined : message.text(name);
  const [train = [], test = []] = ["train_state", "test_state"].map((field) => stagesOf(message, field));
  const [testInterval, testIterations] = [message.integer("test_interval", 0, 0), message.integer("test_iter", 0, 0)];
  // train() has options for what is shown, kept and run on.
  message.ignore("display", "snapshot", "snapshot_prefix", "snapshot_format", "snapshot_after_train");
  message.ignore("solver_mode", "device_id", "random_seed", "average_loss", "debug_info", "test_initialization");
  // One network is read for both phases; loadCaffe takes a network inside the solver's file as a separate file.
  message.ignore("net", "test_net", "net_param", "test_net_param", "train_net_param", "test_compute_loss");
  message.ignore("gamma", "power", "stepsize", "stepvalue", "momentum", "momentum2", "delta", "rms_decay");
  message.finish();
  return {
    net,
    stages: { train, test },
    maxIterations,
    testInterval,
    testIterations,
    learningRate,
    optimizer(multipliers = new Map()) {
      const decays = [...multipliers.values()].map(({ decay }) => decay);
      const odd = decays.find((decay) => decay !== 0 && decay !== 1);
      if (odd !== undefined && weightDecay !== 0)
        throw new HeddleError("option", `${message.file}: a decay_mult of ${odd}; 0 and 1 are imported`);
      const optimizer = perParameter<Slot>({
        name: "caffe",
        learningRate,
        weightDecay,
        decayMask: ({ name }) => multipliers.get(name)?.decay !== 0,
        slots,
        apply,
      });
      const rates = [...multipliers.values()].some(({ rate }) => rate !== 1);
      return rates ? withRates(optimizer, (name) => multipliers.get(name)?.rate ?? 1) : optimizer;
    },
  };
}
