/** @module The runtime whose devices exchange values. */
import { connect as connectRuntime } from "../functions/index.ts";
import type { Mesh } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { meshOf } from "../runtime/mesh.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";

let connected: Runtime | undefined;

/**
 * Joins the other processes of the run, as `connect` does, and makes them the default devices of all functions of `comm`.
 *
 * @param mesh default: `data` over all workers
 * @throws HeddleError `world` if a variable is missing or the other workers cannot be reached in time
 */
export async function connect(mesh?: Mesh): Promise<Runtime> {
  const runtime = await connectRuntime(mesh);
  connected = runtime;
  return runtime;
}

/** The devices that a call is for: those asked for, those of its tensors, or those of the last `comm.connect()`. */
export function runtimeFor(what: string, wanted: Runtime | undefined, tensors: readonly Tensor[]): Runtime {
  if (wanted !== undefined) meshOf(wanted);
  const runtime = wanted ?? tensors.find(({ value }) => value.runtime.axes.length > 0)?.value.runtime ?? connected;
  if (runtime !== undefined) return runtime;
  throw new HeddleError("world", `comm: '${what}' needs the other devices, and this process has not joined them`, {
    hint: "await comm.connect() first, or name a runtime: { runtime }",
  });
}
