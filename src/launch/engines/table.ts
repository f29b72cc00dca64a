/** @module The engines. A new one is a file beside this one, and a line here. */
import { HeddleError } from "../../util/errors.ts";
import type { Engine } from "./engine.ts";
import { k8s } from "./k8s.ts";
import { mpi } from "./mpi.ts";
import { ray } from "./ray.ts";
import { slurm } from "./slurm.ts";

/** The engines by name. */
export const engines: readonly Engine[] = [mpi, slurm, ray, k8s];

/** An engine by its name. @throws HeddleError `option` for an unknown name. */
export function findEngine(name: string): Engine {
  const found = engines.find((engine) => engine.name === name);
  if (found !== undefined) return found;
  throw new HeddleError("option", `there is no engine '${name}'`, {
    hint: `engines are ${engines.map((engine) => engine.name).join(", ")}`,
  });
}
