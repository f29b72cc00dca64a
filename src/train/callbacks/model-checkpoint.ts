/** @module Writes the weights after epochs: of the best epoch so far, or of each epoch. */

import { savedBy } from "../../io/safetensors.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkNumber, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { listed } from "../../util/text.ts";
import { exportWeights } from "../export-weights.ts";
import type { Callbacks, EpochRecord } from "../history.ts";
import { checkMonitor, logNames, logsOf, type MonitorOptions, type Watched, watched } from "../logs.ts";

/** Options of {@link modelCheckpoint}. */
export interface ModelCheckpointOptions extends MonitorOptions {
  /**
   * The file, such as `"best.safetensors"`. `{epoch}` and the numbers of the epoch, such as `{val_loss}`, are replaced by
   * their values. As in Keras, `{epoch:03d}` has at least 3 digits, `{val_loss:.2f}` has 2 digits after the point; default
   * `02d` and `.4f`.
   */
  readonly path: string;
  /** Write only if the monitored number is better than ever before; default true. With false write after every epoch. */
  readonly bestOnly?: boolean;
  /** By how much the number must be better; default 0. */
  readonly minDelta?: number;
}

/**
 * Writes the weights (with `ema` their average) after epochs, on rank 0, as safetensors with PyTorch's names. To resume a run, use the
 * option `checkpoint` of `train`.
 *
 * @throws HeddleError `option`; `file` in a browser; from the training `disk` or `file` if a file cannot be written
 */
export function modelCheckpoint(options: ModelCheckpointOptions): Callbacks {
  const what = "modelCheckpoint";
  checkOptions(what, options, ["path", "monitor", "mode", "bestOnly", "minDelta"]);
  checkMonitor(what, options);
  const { path, bestOnly = true, minDelta = 0 } = options;
  if (typeof path !== "string" || path === "")
    throw new HeddleError("option", `${what}: path must name a file, got ${shown(path)}`);
  checkNumber(what, "minDelta", minDelta, 0);
  let watch: Watched;
  let rank = 0;
  let best: number | undefined;
  const isBest = (record: EpochRecord): boolean => {
    const value = logsOf(record)[watch.name] as number;
    if (!watch.better(value, best, minDelta)) return false;
    best = value;
    return true;
  };
  return {
    onBegin: (start) => {
      watch = watched(what, options, start);
      ({ rank } = start);
      best = undefined;
      for (const record of start.history) isBest(record);
      checkPlaceholders(path, ["epoch", ...logNames(start)]);
    },
    onEpoch: async (record, control) => {
      const due = isBest(record) || !bestOnly;
      if (!due) return;
      const snapshot = control.snapshot();
      try {
        const { averaged, params, state } = snapshot;
        const tensors = await exportWeights({ params: averaged ?? params, state });
        if (rank === 0) await savedBy("modelCheckpoint", fileName(path, record), tensors);
      } finally {
        snapshot.dispose();
      }
    },
  };
}

const placeholder = /\{([^{}]*)\}/g;
const form = /^(\w+)(?::(?:0?(\d*)d|\.(\d+)f))?$/;

/** The name and digits of a placeholder; undefined if it is malformed. */
function parsed(text: string): { name: string; digits: number | undefined; decimals: number | undefined } | undefined {
  const match = form.exec(text);
  if (match === null) return undefined;
  const [, name = "", digits, decimals] = match;
  // Only counts have a number of digits, only other numbers have decimals.
  if (name === "epoch" ? decimals !== undefined : digits !== undefined) return undefined;
  const count = (text: string | undefined) =>
    text === undefined || text === "" ? undefined : Math.min(Number(text), 100);
  return { name, digits: count(digits), decimals: count(decimals) };
}

function checkPlaceholders(path: string, names: readonly string[]): void {
  for (const [all, text = ""] of path.matchAll(placeholder)) {
    const name = parsed(text)?.name;
    if (name === undefined)
      throw new HeddleError("option", `modelCheckpoint: path has the malformed placeholder ${all}`, {
        hint: `write {epoch}, {epoch:03d}, {${names.at(-1)}} or {${names.at(-1)}:.2f}`,
      });
    if (!names.includes(name))
      throw new HeddleError("option", `modelCheckpoint: path has {${name}}, which is not a number of this training`, {
        hint: `it has ${listed(names, 24)}`,
      });
  }
}

function fileName(path: string, record: EpochRecord): string {
  const values = logsOf(record);
  return path.replace(placeholder, (_all, text: string) => {
    const { name, digits = 2, decimals = 4 } = parsed(text) as NonNullable<ReturnType<typeof parsed>>;
    return name === "epoch" ? String(record.epoch).padStart(digits, "0") : (values[name] as number).toFixed(decimals);
  });
}
