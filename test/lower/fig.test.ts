import { test } from "vitest";
import { splitGraph } from "heddle/program";
import { lowerProgram, printLowered } from "heddle/lower";
import { loadNative } from "../../src/runtime/native/binding.ts";
import { inputsFor, lenetStep, mlpStep } from "./graphs.ts";
test("fig", () => {
  const b = loadNative(); if ("error" in b) return;
  for (const step of [mlpStep(), lenetStep()]) {
    const lowered = lowerProgram(splitGraph(step.graph, [], step), { slots: 2 });
    const inputs = inputsFor(step.graph);
    const program = new b.NativeProgram(lowered.text); const device = new b.NativeDevice({ threads: 2 });
    const buffers = lowered.arguments.map((a) => { const x = new b.NativeBuffer(a.bytes); if (a.input !== undefined) x.write(new Uint8Array(inputs[a.input]!.data.buffer)); return x; });
    const sums = new Float64Array(lowered.json.steps.length);
    const N = 20; let best = Infinity;
    for (let i = 0; i < N + 3; i++) { const t = performance.now(); device.runSync(program, buffers); best = Math.min(best, performance.now() - t); if (i >= 3) device.timings().forEach((v, k) => { sums[k]! += v / N / 1e3; }); }
    const lines = printLowered(lowered).trimEnd().split("\n");
    console.log(lines[0] + ` best ${best.toFixed(2)} ms\n` + lines.slice(1).map((l, i) => `${sums[i]!.toFixed(0).padStart(7)} us  ${l}`).join("\n") + `\n total ${(sums.reduce((a, c) => a + c, 0) / 1e3).toFixed(2)} ms`);
    device.close();
  }
});
