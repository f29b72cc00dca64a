/** @module The machine of a training in a browser, without files and processes: bundlers put this file in the place of `host.ts`. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { CsvLoggerOptions } from "./callbacks/csv-logger.ts";
import type { ModelCheckpointOptions } from "./callbacks/model-checkpoint.ts";
import type { TensorBoardOptions } from "./callbacks/tensorboard.ts";
import type { Callbacks } from "./history.ts";
import type { Host } from "./host-interface.ts";
import { noFiles } from "./no-files.ts";
import { lineReporter, silentReporter } from "./progress.ts";

/** @throws HeddleError `file` */
export function csvLogger(_options: CsvLoggerOptions): Callbacks {
  throw noFiles("csvLogger writes a file");
}

/** @throws HeddleError `file` */
export function modelCheckpoint(_options: ModelCheckpointOptions): Callbacks {
  throw noFiles("modelCheckpoint writes files");
}

/** @throws HeddleError `file` */
export function tensorBoard(_options: TensorBoardOptions = {}): Callbacks {
  throw noFiles("tensorBoard writes files");
}

const output = { line: (text: string) => console.log(text), warn: (text: string) => console.warn(text) };

export const host: Host = {
  sha256: (bytes) => bytesToHex(sha256(bytes)),
  makeReporter: async (mode, unit) => (mode === "silent" ? silentReporter : lineReporter(output, unit)),
  files: undefined,
  process: undefined,
};
