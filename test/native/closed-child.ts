/** Runs a collective on closed runtimes, compiled before and not; prints what each call says. The process must then end by itself. */
import { comm, distribute, HeddleError } from "heddle";
import { parseLayout } from "heddle/plan";
import { localRuntime } from "heddle/runtime";

const told: Record<string, string> = {};
for (const warm of [false, true]) {
  const runtime = localRuntime({ executor: "native", axes: [{ name: "data", size: 2 }] });
  const x = distribute(runtime, Float32Array.of(1, 2), { dtype: "f32", shape: [2, 1] }, parseLayout("S(0)"));
  if (warm) await comm.allReduce(x).data();
  runtime.close();
  try {
    await comm.allReduce(x).data();
    told[warm ? "warm" : "cold"] = "no error";
  } catch (error) {
    told[warm ? "warm" : "cold"] = error instanceof HeddleError ? error.message : `not a HeddleError: ${String(error)}`;
  }
}
console.log(JSON.stringify(told));
