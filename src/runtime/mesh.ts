/** @module The mesh of a runtime. */
import type { Mesh } from "../plan/mesh.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import type { Runtime } from "./devices.ts";

/** The mesh of a runtime. @throws HeddleError `argument` for a value that is not a runtime. */
export function meshOf(runtime: Runtime): Mesh {
  if (!Array.isArray(runtime?.axes))
    throw new HeddleError("argument", `takes a runtime, got ${shown(runtime)}`, {
      hint: "await connect(mesh) gives one",
    });
  return { axes: runtime.axes };
}
