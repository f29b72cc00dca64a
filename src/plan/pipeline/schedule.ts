/**
 * @module Pipeline schedules as data: for each rank its actions in order. `1B0` is the backward pass of stage 1 on
 * micro-batch 0. A schedule prints as a grid of ranks by time, and the text can be read back.
 */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger } from "../../util/options.ts";

/** Name of the axis of micro-batches, which is time. */
export const microAxis = "microBatch";

/**
 * `F` is the forward pass of a stage on one micro-batch, `B` its backward pass. Where a schedule has `W`, the backward pass is in two parts: `B`
 * computes what the stage before needs, `W` the gradients by the weights, at any later time. `U` follows `B` where a stage updates its parameters by the
 * gradients of the micro-batches since its last update.
 */
export type ActionKind = "F" | "B" | "W" | "U";

/** One cell of a schedule. */
export interface Action {
  readonly stage: number;
  readonly kind: ActionKind;
  readonly microBatch: number;
}

/** The actions of each rank, in order. A rank may hold several stages; a stage is on one rank. */
export interface Schedule {
  readonly name: string;
  readonly stages: number;
  readonly microBatches: number;
  readonly ranks: readonly (readonly Action[])[];
  /**
   * With updates within a step: the number of updates by which the parameters of a micro-batch are behind, on every stage alike. The micro-batches of update
   * `k` use the parameters after `k - delay` updates. Undefined: each forward pass uses the newest parameters of its stage.
   */
  readonly delay?: number;
}

/** Makes a schedule for numbers of stages, micro-batches, and ranks where the mesh is known; a maker may ignore the number of ranks. */
export type ScheduleMaker = (stages: number, microBatches: number, ranks?: number) => Schedule;

/** `2F0`: stage, kind, micro-batch (as PyTorch writes actions). */
export const formatAction = ({ stage, kind, microBatch }: Action): string => `${stage}${kind}${microBatch}`;

/** The inverse of {@link formatAction}. @throws HeddleError `schedule`. */
export function parseAction(text: string): Action {
  const match = /^(\d+)([FBWU])(\d+)$/.exec(text);
  if (match === null)
    throw new HeddleError("schedule", `'${text}' is not an action`, {
      hint: "write stage, F, B, W or U, micro-batch, as in 2F0",
    });
  return { stage: Number(match[1]), kind: match[2] as ActionKind, microBatch: Number(match[3]) };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_unused, index) => index);

function checkSizes(name: string, stages: number, microBatches: number): void {
  checkInteger(name, "stages", stages, 1);
  checkInteger(name, "microBatches", microBatches, 1);
}

/** All forward passes, then all backward passes, each in the order of the micro-batches (Huang et al., 2019). */
export function gpipe(stages: number, microBatches: number): Schedule {
  checkSizes("gpipe", stages, microBatches);
  const pass = (stage: number, kind: ActionKind): Action[] =>
    upTo(microBatches).map((microBatch) => ({ stage, kind, microBatch }));
  const ranks = upTo(stages).map((stage) => [...pass(stage, "F"), ...pass(stage, "B")]);
  return { name: "gpipe", stages, microBatches, ranks };
}

/**
 * One forward, one backward: stage `s` of `p` runs `p - s` forward passes ahead (fewer where there are fewer
 * micro-batches), so that it holds the values of no more than that many micro-batches (Narayanan et al., 2019, with a flush).
 */
export function oneFOneB(stages: number, microBatches: number): Schedule {
  checkSizes("oneFOneB", stages, microBatches);
  const ranks = upTo(stages).map((stage): Action[] => {
    const ahead = Math.min(microBatches, stages - stage - 1);
    const forward = (microBatch: number): Action => ({ stage, kind: "F", microBatch });
    const backward = (microBatch: number): Action => ({ stage, kind: "B", microBatch });
    return [
      ...upTo(ahead).map(forward),
      ...upTo(microBatches - ahead).flatMap((index) => [forward(ahead + index), backward(index)]),
      ...upTo(ahead).map((index) => backward(microBatches - ahead + index)),
    ];
  });
  return { name: "1f1b", stages, microBatches, ranks };
}

/** The schedules that the option `schedule` can name; `src/pipelines` and `registerPipelineSchedule` add others. */
export const schedules = new Map<string, ScheduleMaker>([
  ["gpipe", gpipe],
  ["1f1b", oneFOneB],
]);

/** The kinds of actions of a schedule. */
export const kindsOf = ({ ranks }: Schedule): readonly ActionKind[] =>
  (["F", "B", "W", "U"] as const).filter((kind) => kind < "G" || ranks.flat().some((action) => action.kind === kind));

/** The rank of each stage: the one that has its actions. Undefined for a stage without actions. */
export function rankOfStages({ stages, ranks }: Schedule): (number | undefined)[] {
  return upTo(stages).map((stage) => {
    const rank = ranks.findIndex((actions) => actions.some((action) => action.stage === stage));
    return rank < 0 ? undefined : rank;
  });
}

/**
 * Reads a grid: `schedule 1f1b stages=2 microBatches=4`, then a row per rank. Cells that are not actions are ignored (the
 * line of times, `.` for idle, `=` where an action continues).
 *
 * @param firstLine the number of the first line, for errors
 * @throws HeddleError `schedule` naming the line.
 */
export function parseSchedule(text: string, firstLine = 1): Schedule {
  const [first = "", ...lines] = text.trimEnd().split("\n");
  const head = /^schedule (\S+) stages=(\d+) microBatches=(\d+)(?: delay=(\d+))?$/.exec(first);
  if (head === null)
    throw new HeddleError("schedule", `line ${firstLine}: expected 'schedule name stages=2 microBatches=4' and a grid`);
  const ranks: Action[][] = [];
  lines.forEach((line, index) => {
    if (line === "" || line.startsWith("time")) return;
    const row = /^rank (\d+)\s+(.*)$/.exec(line);
    if (row === null || Number(row[1]) !== ranks.length)
      throw new HeddleError(
        "schedule",
        `line ${firstLine + index + 1}: expected the row of rank ${ranks.length}, got '${line}'`,
      );
    const cells = (row[2] as string).split(/\s+/).filter((cell) => cell !== "." && cell !== "=" && cell !== "");
    ranks.push(cells.map(parseAction));
  });
  const delay = head[4] === undefined ? {} : { delay: Number(head[4]) };
  return { name: head[1] as string, stages: Number(head[2]), microBatches: Number(head[3]), ranks, ...delay };
}
