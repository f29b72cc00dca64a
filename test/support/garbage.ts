import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Collects all garbage. */
export function collect(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

/** Collects all garbage, and lets what is called at the end of a value run. */
export async function collectAll(): Promise<void> {
  for (let round = 0; round < 3; round++) {
    collect();
    await sleep(1);
  }
}
