/**
 * @module Schedules: learning rates as functions of the step. They are those of PyTorch's `lr_scheduler` in closed form, so that
 * the rate depends on the step alone. They count steps of the optimizer, where PyTorch counts calls of `scheduler.step()`.
 */
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import type { Schedule } from "./optimizer.ts";
import { isPlateau } from "./plateau.ts";

/** Options of every schedule. */
export interface ScheduleOptions {
  /** The rate that the schedule scales. */
  readonly learningRate: number;
}

/** Checks the names of options and their values: `numbers` are at least 0, `steps` are whole numbers from 1. */
function check(
  name: string,
  options: object,
  numbers: { readonly [option: string]: number },
  steps: { readonly [option: string]: number } = {},
  others: readonly string[] = [],
): void {
  const what = `schedules.${name}`;
  checkOptions(what, options, [...Object.keys(numbers), ...Object.keys(steps), ...others]);
  for (const [option, value] of Object.entries(numbers)) checkNumber(what, option, value, 0);
  for (const [option, value] of Object.entries(steps)) checkInteger(what, option, value, 1);
}

/** `factor` times the rate (default 1/3) for the first `totalSteps` steps (default 5), then the rate: `ConstantLR`. */
export function constant(
  options: ScheduleOptions & { readonly factor?: number; readonly totalSteps?: number },
): Schedule {
  const { learningRate, factor = 1 / 3, totalSteps = 5 } = asRecord("schedules.constant", options);
  check("constant", options, { learningRate, factor }, { totalSteps });
  return (step) => (step < totalSteps ? learningRate * factor : learningRate);
}

/** From `startFactor` times the rate (default 1/3) to `endFactor` times (default 1) in `totalSteps` (default 5): `LinearLR`. */
export function linear(
  options: ScheduleOptions & {
    readonly startFactor?: number;
    readonly endFactor?: number;
    readonly totalSteps?: number;
  },
): Schedule {
  const { learningRate, startFactor = 1 / 3, endFactor = 1, totalSteps = 5 } = asRecord("schedules.linear", options);
  check("linear", options, { learningRate, startFactor, endFactor }, { totalSteps });
  return (step) => learningRate * (startFactor + ((endFactor - startFactor) * Math.min(step, totalSteps)) / totalSteps);
}

/** The rate times `gamma` (default 0.1) every `stepSize` steps: `StepLR`. */
export function step(options: ScheduleOptions & { readonly stepSize: number; readonly gamma?: number }): Schedule {
  const { learningRate, stepSize, gamma = 0.1 } = asRecord("schedules.step", options);
  check("step", options, { learningRate, gamma }, { stepSize });
  return (step) => learningRate * gamma ** Math.floor(step / stepSize);
}

/** The rate times `gamma` (default 0.1) at each of the steps `milestones`: `MultiStepLR`. */
export function multiStep(
  options: ScheduleOptions & { readonly milestones: readonly number[]; readonly gamma?: number },
): Schedule {
  const { learningRate, milestones, gamma = 0.1 } = asRecord("schedules.multiStep", options);
  check("multiStep", options, { learningRate, gamma }, {}, ["milestones"]);
  milestones.forEach((milestone, index) => {
    checkInteger("schedules.multiStep", `milestones[${index}]`, milestone, 0);
  });
  return (step) => learningRate * gamma ** milestones.filter((milestone) => step >= milestone).length;
}

/** The rate times `gamma` to the step: `ExponentialLR`. */
export function exponential(options: ScheduleOptions & { readonly gamma: number }): Schedule {
  const { learningRate, gamma } = asRecord("schedules.exponential", options);
  check("exponential", options, { learningRate, gamma });
  return (step) => learningRate * gamma ** step;
}

/**
 * The rate divided by `1 + decay · step / decaySteps` (default 1), as Keras' `InverseTimeDecay`; the quotient is rounded
 * down with `staircase`.
 */
export function inverseTime(
  options: ScheduleOptions & { readonly decay: number; readonly decaySteps?: number; readonly staircase?: boolean },
): Schedule {
  const { learningRate, decay, decaySteps = 1, staircase = false } = asRecord("schedules.inverseTime", options);
  check("inverseTime", options, { learningRate, decay }, { decaySteps }, ["staircase"]);
  return (step) => learningRate / (1 + decay * (staircase ? Math.floor(step / decaySteps) : step / decaySteps));
}

/** From the rate to `minimum` (default 0) as `(1 - step / totalSteps)^power` (default 1), then `minimum`: `PolynomialLR`. */
export function polynomial(
  options: ScheduleOptions & { readonly totalSteps: number; readonly power?: number; readonly minimum?: number },
): Schedule {
  const { learningRate, totalSteps, power = 1, minimum = 0 } = asRecord("schedules.polynomial", options);
  check("polynomial", options, { learningRate, power, minimum }, { totalSteps });
  return (step) => minimum + (learningRate - minimum) * (1 - Math.min(step, totalSteps) / totalSteps) ** power;
}

const wave = (from: number, to: number, share: number): number =>
  to + ((from - to) * (1 + Math.cos(Math.PI * share))) / 2;

/**
 * From the rate to `minimum` (default 0) along half a cosine (Loshchilov and Hutter, 2017) in `totalSteps`, then back up
 * in as many steps: `CosineAnnealingLR`.
 */
export function cosine(
  options: ScheduleOptions & { readonly totalSteps: number; readonly minimum?: number },
): Schedule {
  const { learningRate, totalSteps, minimum = 0 } = asRecord("schedules.cosine", options);
  check("cosine", options, { learningRate, minimum }, { totalSteps });
  return (step) => wave(learningRate, minimum, step / totalSteps);
}

/**
 * Half a cosine as in {@link cosine} in `period` steps, then again from the rate; each period is `periodFactor` times (default 1) as
 * long as the last: `CosineAnnealingWarmRestarts`.
 */
export function cosineRestarts(
  options: ScheduleOptions & { readonly period: number; readonly periodFactor?: number; readonly minimum?: number },
): Schedule {
  const { learningRate, period, periodFactor = 1, minimum = 0 } = asRecord("schedules.cosineRestarts", options);
  check("cosineRestarts", options, { learningRate, minimum }, { period, periodFactor });
  return (step) => {
    let [position, length] = [step, period];
    if (periodFactor === 1) position %= period;
    for (; position >= length; length *= periodFactor) position -= length;
    return wave(learningRate, minimum, position / length);
  };
}

/** Options of {@link cyclic}. */
export interface CyclicOptions extends ScheduleOptions {
  /** The highest rate; `learningRate` is the lowest. */
  readonly maxLearningRate: number;
  /** Steps from the lowest to the highest; default 2000. */
  readonly stepsUp?: number;
  /** Steps from the highest to the lowest; default `stepsUp`. */
  readonly stepsDown?: number;
  /** Height of the cycles: all equal (default), each half as high as the last, or scaled by `gamma` to the power of the step. */
  readonly mode?: "triangular" | "triangular2" | "expRange";
  /** Factor per step of the mode `expRange`; default 1. */
  readonly gamma?: number;
}

/** Rises and falls in straight lines, without end (Smith, 2017): `CyclicLR`. */
export function cyclic(options: CyclicOptions): Schedule {
  const {
    learningRate,
    maxLearningRate,
    stepsUp = 2000,
    stepsDown = stepsUp,
    mode = "triangular",
    gamma = 1,
  } = asRecord("schedules.cyclic", options);
  check("cyclic", options, { learningRate, maxLearningRate, gamma }, { stepsUp, stepsDown }, ["mode"]);
  if (mode !== "triangular" && mode !== "triangular2" && mode !== "expRange")
    throw new HeddleError(
      "option",
      `schedules.cyclic: mode must be triangular, triangular2 or expRange, got ${String(mode)}`,
    );
  const period = stepsUp + stepsDown;
  return (step) => {
    const position = step % period;
    const share = position <= stepsUp ? position / stepsUp : (period - position) / stepsDown;
    const scale = { triangular: 1, triangular2: 2 ** -Math.floor(step / period), expRange: gamma ** step }[mode];
    return learningRate + (maxLearningRate - learningRate) * share * scale;
  };
}

/** Options of {@link oneCycle}. */
export interface OneCycleOptions {
  readonly maxLearningRate: number;
  readonly totalSteps: number;
  /** Share of the steps in which the rate rises; default 0.3. */
  readonly pctStart?: number;
  /** Shape of rise and fall; default `"cosine"`. */
  readonly anneal?: "cosine" | "linear";
  /** The first rate is the largest divided by this; default 25. */
  readonly divFactor?: number;
  /** The last rate is the first divided by this; default 10000. */
  readonly finalDivFactor?: number;
  /** Fall to the first rate as fast as it rose, and then to the last rate; default false: fall directly to the last rate. */
  readonly threePhase?: boolean;
}

/** Rises to the largest rate and falls to nearly 0 (Smith and Topin, 2018): `OneCycleLR`. Later steps have the last rate. */
export function oneCycle(options: OneCycleOptions): Schedule {
  const {
    maxLearningRate,
    totalSteps,
    pctStart = 0.3,
    anneal = "cosine",
    threePhase = false,
  } = asRecord("schedules.oneCycle", options);
  const { divFactor = 25, finalDivFactor = 1e4 } = options;
  const names = ["maxLearningRate", "totalSteps", "pctStart", "anneal", "divFactor", "finalDivFactor", "threePhase"];
  checkOptions("schedules.oneCycle", options, names);
  checkNumber("schedules.oneCycle", "maxLearningRate", maxLearningRate, 0);
  checkInteger("schedules.oneCycle", "totalSteps", totalSteps, 1);
  checkNumber("schedules.oneCycle", "pctStart", pctStart, 0, 1);
  for (const [name, value] of Object.entries({ divFactor, finalDivFactor }))
    checkNumber("schedules.oneCycle", name, value, Number.MIN_VALUE);
  if (anneal !== "cosine" && anneal !== "linear")
    throw new HeddleError("option", `schedules.oneCycle: anneal must be cosine or linear, got ${String(anneal)}`);
  const first = maxLearningRate / divFactor;
  const rise = { end: pctStart * totalSteps - 1, from: first, to: maxLearningRate };
  const last = { end: totalSteps - 1, from: threePhase ? first : maxLearningRate, to: first / finalDivFactor };
  const fall = { end: 2 * pctStart * totalSteps - 2, from: maxLearningRate, to: first };
  const phases = threePhase ? [rise, fall, last] : [rise, last];
  return (step) => {
    const phase = phases.findIndex(({ end }, index) => step <= end || index === phases.length - 1);
    const { end, from, to } = phases[phase] as typeof rise;
    const start = phase === 0 ? 0 : (phases[phase - 1] as typeof rise).end;
    const share = end > start ? Math.min(1, (step - start) / (end - start)) : 1;
    return anneal === "cosine" ? wave(from, to, share) : from + (to - from) * share;
  };
}

/**
 * One schedule after another; each counts its steps from the milestone at which it begins: `SequentialLR`. One of them may be a
 * {@link plateau}, which observes every epoch from the first on.
 *
 * @throws HeddleError `option` when the milestones do not fit, or two schedules are plateaus
 */
export function sequence(schedules: readonly Schedule[], milestones: readonly number[]): Schedule {
  const areSchedules = Array.isArray(schedules) && schedules.every((schedule) => typeof schedule === "function");
  if (!areSchedules || !Array.isArray(milestones))
    throw new HeddleError(
      "argument",
      `schedules.sequence: takes arrays of schedules and of milestones, got ${shown(schedules)} and ${shown(milestones)}`,
    );
  if (schedules.length !== milestones.length + 1) {
    throw new HeddleError(
      "option",
      `schedules.sequence: ${schedules.length} schedules need ${schedules.length - 1} milestones, got ${milestones.length}`,
    );
  }
  milestones.forEach((milestone, index) => {
    checkInteger("schedules.sequence", `milestones[${index}]`, milestone, milestones[index - 1] ?? 0);
  });
  const [plateauSchedule, second] = schedules.filter(isPlateau);
  if (second !== undefined) throw new HeddleError("option", "schedules.sequence: only one schedule can be a plateau");
  const sequence = (step: number): number => {
    const passed = milestones.filter((milestone) => step >= milestone).length;
    return (schedules[passed] as Schedule)(step - (milestones[passed - 1] ?? 0));
  };
  if (plateauSchedule === undefined) return sequence;
  const { monitor, observe, restart } = plateauSchedule;
  return Object.assign(sequence, { monitor, observe, restart });
}

/**
 * Rises in `steps` from `startFactor` (default 0) times the first rate to that rate, then follows the schedule from its
 * beginning.
 */
export function warmUp(
  learningRate: number | Schedule,
  options: { readonly steps: number; readonly startFactor?: number },
): Schedule {
  const { steps, startFactor = 0 } = asRecord("schedules.warmUp", options);
  check("warmUp", options, { startFactor }, { steps });
  const mainSchedule: Schedule = typeof learningRate === "number" ? () => learningRate : learningRate;
  return sequence([linear({ learningRate: mainSchedule(0), startFactor, totalSteps: steps }), mainSchedule], [steps]);
}

export { isPlateau, type PlateauOptions, type PlateauSchedule, plateau } from "./plateau.ts";
