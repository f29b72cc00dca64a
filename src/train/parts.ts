/** @module The parts of a run. */
import type { Runtime } from "../runtime/devices.ts";
import type { Elastic } from "./elastic.ts";
import type { Ending } from "./ending.ts";
import type { Feed } from "./feed.ts";
import type { Saver } from "./host-interface.ts";
import type { Settings } from "./options.ts";
import type { Programs } from "./programs.ts";
import type { Reporter } from "./progress.ts";
import type { Updates } from "./updates.ts";
import type { ModelTypes } from "./values.ts";

/** The parts of a run: settings, runtime, programs, data and reports. */
export interface RunParts {
  readonly settings: Settings;
  readonly types: ModelTypes;
  readonly runtime: Runtime;
  readonly programs: Programs;
  readonly feed: Feed;
  readonly reporter: Reporter;
  /** Undefined if this process takes no part in checkpoints. */
  readonly saver: Saver | undefined;
  readonly signal: AbortSignal;
  readonly ending: Ending;
  /** Undefined if the training ends with the first lost worker. */
  readonly elastic: Elastic | undefined;
  /** Undefined if a step updates the parameters itself. */
  readonly updates?: Updates | undefined;
}
