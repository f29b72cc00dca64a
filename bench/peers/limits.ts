/** @module A small program, run under `heddle profile` for the machine's limits in its report. */
import { jit, ones } from "heddle";

await jit((x) => x.add(1))(ones([8])).data();
