/** @module Errors that come of the loss of a worker. */
import { HeddleError } from "../util/errors.ts";

/** Error codes that mean only that another worker is gone or late. */
export const consequences: ReadonlySet<string> = new Set(["peer", "peerClosed", "peerAborted", "aborted", "timeout"]);

/** Codes of a world that was not joined, beside {@link consequences}: those who were to be met may be gone. */
const unmet: ReadonlySet<string> = new Set(["world", "auth", "protocol", "store", "io"]);

/** Whether an error may come of the loss of another worker, so that a new epoch can go on. */
export const isLoss = (error: unknown): error is HeddleError =>
  error instanceof HeddleError && (consequences.has(error.code) || unmet.has(error.code));
