import { test } from "vitest";
import { splitGraph, verifyProgram } from "heddle/program";
import { lowerProgram } from "heddle/lower";
import * as ops from "heddle/ops";
import { topological } from "heddle/ir";
import { trainingStep } from "./graphs.ts";
test("fig", () => {
  for (const layers of [50, 100, 200, 400]) {
    const params = Array.from({ length: layers }, (_, i) => [{ name: `w${i}`, type: { dtype: "f32" as const, shape: [64, 64] } }, { name: `b${i}`, type: { dtype: "f32" as const, shape: [64] } }]).flat();
    const t0 = performance.now();
    const step = trainingStep("deep", params, [{ name: "x", type: { dtype: "f32", shape: [32, 64] } }], (w, [x]) => {
      let y = x!;
      for (let i = 0; i < layers; i++) { const z = ops.maximum(ops.add(ops.matmul(y, w[2 * i]!), w[2 * i + 1]!), 0); y = ops.add(y, z); }
      return ops.mean(ops.mul(y, y));
    });
    const t = performance.now(); const p = splitGraph(step.graph, [], step); const t1 = performance.now(); const l = lowerProgram(p, { slots: 2 }); const t2 = performance.now(); verifyProgram(p); const t3 = performance.now();
    console.log(layers, "nodes", topological(step.graph.outputs).length, "trace", (t - t0).toFixed(0), "split", (t1 - t).toFixed(0), "lower", (t2 - t1).toFixed(0), "verify", (t3 - t2).toFixed(0), "calls", l.json.steps.length, "arena", l.arenaBytes, l.peak.bytes);
  }
}, 100000);
