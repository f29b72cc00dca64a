/** @module Whether a checkpoint is one of this run: its seed, optimizer, data, names, shapes and types, each error with what differs. */
import type { OpenCheckpoint } from "../checkpoints/types.ts";
import { fitsDevices } from "../compression/state.ts";
import { formatType, isTensorType, sameType, type TensorType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { canonicalJson, type Plain } from "../util/text.ts";
import { flattenTree } from "../util/tree.ts";
import { keptDifference } from "./kept.ts";
import { isByWorker } from "./local-training.ts";
import type { Settings } from "./options.ts";
import { groups, type ModelTypes, tablesState } from "./values.ts";

/**
 * Compares a checkpoint with a run, without reading values.
 *
 * @throws HeddleError `checkpoint` if it belongs to another model, optimizer, dataset or seed.
 */
export function checkFits(checkpoint: OpenCheckpoint, settings: Settings, types: ModelTypes): void {
  checkSameRun(checkpoint, settings);
  checkTensorNames(checkpoint, types);
  for (const group of groups) {
    const { leaves, paths } = flattenTree(types.state[group], isTensorType);
    for (const [index, type] of leaves.entries()) {
      const name = `${group}/${paths[index]}`;
      if (settings.localSteps !== undefined && isByWorker(`${group}.${paths[index]}`))
        checkWorkers(checkpoint, name, type);
      checkType(checkpoint, name, type);
    }
  }
}

/** @throws HeddleError `checkpoint` if tables are on servers in one of the two alone */
function checkTables(checkpoint: OpenCheckpoint, ours: readonly string[], theirs: readonly string[]): void {
  const name = `state/${tablesState}`;
  const isServed = ours.includes(name);
  if (isServed === theirs.includes(name)) return;
  const problem = isServed
    ? `its tables are parameters, and this run has them on servers: it has no ${name}`
    : `its tables were on servers, which have the rows (in ${name}), and this run has no servers`;
  const hint = isServed
    ? "go on without servers, as the run that wrote it"
    : 'go on with servers, as many as you like: heddle run --servers, or train\'s option "server"';
  throw mismatch(checkpoint, problem, hint);
}

/** @throws HeddleError `checkpoint` if the checkpoint has other tensors than the run, naming the option that makes the difference. */
function checkTensorNames(checkpoint: OpenCheckpoint, types: ModelTypes): void {
  const ours = groups.flatMap((group) =>
    flattenTree(types.state[group], isTensorType).paths.map((path) => `${group}/${path}`),
  );
  const theirs = [...checkpoint.entries.keys()];
  checkTables(checkpoint, ours, theirs);
  const optimizerNames = (names: readonly string[]): string[] =>
    names.filter((name) => name.startsWith("optimizer/")).map((name) => name.slice("optimizer/".length));
  const difference = keptDifference(optimizerNames(theirs), optimizerNames(ours));
  if (difference !== undefined) throw mismatch(checkpoint, `it ${difference}`);
  const known = new Set(ours);
  const extra = theirs.filter((name) => !known.has(name));
  // `checkType` reports missing tensors and other types.
  if (extra.length === 0 || ours.some((name) => !checkpoint.entries.has(name))) return;
  const more = extra.length === 1 ? "" : ` and ${extra.length - 1} more`;
  throw mismatch(checkpoint, `it has ${extra[0]}${more}, which this run does not have`);
}

/** Whether a value has another size in each checkpoint: the rows of tables on servers. */
export const hasAnySize = (name: string, { dtype, shape }: TensorType): boolean =>
  name === `state/${tablesState}` && dtype === "u8" && shape.length === 1;

/** The name of a value that compression keeps; undefined for other values. */
const residual = (name: string): string | undefined => /^optimizer\/compression\.(.*)$/.exec(name)?.[1];

/** @throws HeddleError `checkpoint` if a value with a row for each worker is that of another number of workers. */
function checkWorkers(checkpoint: OpenCheckpoint, name: string, { dtype, shape: [ours, ...rest] }: TensorType): void {
  const found = checkpoint.entries.get(name);
  const theirs = found?.shape[0];
  if (theirs === ours || found === undefined || !sameType(found, { dtype, shape: [theirs ?? 0, ...rest] })) return;
  throw mismatch(
    checkpoint,
    `it is of ${theirs} workers with local steps, each with an optimizer state of its own, and this run has ${ours}`,
    `go on with --workers ${theirs}, or begin anew from its values: train's option "from", with io.loadVariables`,
  );
}

function checkType(checkpoint: OpenCheckpoint, name: string, type: TensorType): void {
  const found = checkpoint.entries.get(name);
  if (found === undefined) throw mismatch(checkpoint, `it has no ${name}`);
  if (sameType(found, type) || hasAnySize(name, found)) return;
  const sent = residual(name);
  if (sent !== undefined && fitsDevices(sent, found, type)) return;
  throw mismatch(checkpoint, `its ${name} is ${formatType(found)}, this run's is ${formatType(type)}`);
}

function checkSameRun(checkpoint: OpenCheckpoint, settings: Settings): void {
  const { seed, extra } = checkpoint.description;
  if (seed !== settings.seed) throw mismatch(checkpoint, `its seed is ${seed}, this run's is ${settings.seed}`);
  if (extra["optimizer"] !== settings.optimizer.name) {
    throw mismatch(
      checkpoint,
      `its optimizer is ${String(extra["optimizer"])}, this run's is ${settings.optimizer.name}`,
    );
  }
  const theirs = (extra["data"] ?? {}) as { [key: string]: Plain };
  const ours = settings.data.describe(settings.seed);
  for (const part of new Set([...Object.keys(theirs), ...Object.keys(ours)])) {
    const [left, right] = [canonicalJson(theirs[part] ?? null), canonicalJson(ours[part] ?? null)];
    if (left !== right) throw mismatch(checkpoint, `its data has ${part} ${left}, this run's has ${right}`);
  }
  const [known, own] = [extra["frame"] ?? null, settings.frame?.toJSON() ?? null].map(canonicalJson);
  if (known !== own) throw mismatch(checkpoint, "its frame is another than this run's");
  if (typeof extra["tally"] !== "object" || !Array.isArray(extra["history"])) {
    throw mismatch(checkpoint, "it was not written by train()");
  }
}

function mismatch(
  { path }: OpenCheckpoint,
  problem: string,
  hint = "run with the options of the run that wrote it, or without resume",
): HeddleError {
  return new HeddleError("checkpoint", `cannot resume from ${path}: ${problem}`, { hint });
}
