/** @module The key-value store through which workers find each other. It runs in the launcher's process. */

import { loadNative } from "../executors/native/binding.ts";
import { openRunStore } from "../hosts/store.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";

/** A running store. */
export interface Store {
  readonly port: number;
  /** Waits until nobody uses the store, at most for so many seconds; then stops the store and frees its port. */
  close(seconds: number): void | Promise<void>;
}

/** Options of a store. */
export interface StoreOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly secret: string;
  readonly runId: string;
}

/** Starts a store; tests replace it. */
export type StartStore = (options: StoreOptions) => Promise<Store>;

/** Starts the native core's store. */
export const startNativeStore: StartStore = async ({ host, port, secret, runId }) => {
  const native = loadNative();
  if ("error" in native) {
    throw new HeddleError("native", `several workers need the native core, which did not load: ${native.error}`, {
      hint: "npm run setup builds it (heddle doctor says more); --workers 1 --executor reference runs without it",
    });
  }
  const { networkInterface: choice } = readEnvironment();
  const hint =
    port === 0 ? "is the network up?" : "another program may use it; leave out --port to let the system choose";
  return openRunStore(() => new native.StoreServer(), { host, port, secret, runId, choice, hint });
};
