import { lowerProgram, printLowered } from "heddle/lower";
import { printProgram, splitGraph } from "heddle/program";
import { expect, test } from "vitest";
import { dataParallelStep } from "../program/graphs.ts";
import { lenetStep, mlpStep } from "./graphs.ts";

// A change that means to leave the work alone must leave these texts alone. `npx vitest -u` writes them anew.
const steps = { mlp: mlpStep(), lenet: lenetStep() };

for (const [name, step] of Object.entries(steps)) {
  test(`${name}: program and kernel calls`, async () => {
    const program = splitGraph(step.graph, [], step);
    await expect(printProgram(program)).toMatchFileSnapshot(`golden/${name}.program.txt`);
    await expect(printLowered(lowerProgram(program, { slots: 2 }))).toMatchFileSnapshot(`golden/${name}.lowered.txt`);
  });
}

test("data parallel: program and kernel calls", async () => {
  const program = splitGraph(dataParallelStep(2, 64, 32, 4), [{ name: "data", size: 4 }], {
    donated: [0, 1, undefined],
  });
  await expect(printProgram(program)).toMatchFileSnapshot("golden/data-parallel.program.txt");
  await expect(printLowered(lowerProgram(program, { slots: 2 }), [4])).toMatchFileSnapshot(
    "golden/data-parallel.lowered.txt",
  );
});
