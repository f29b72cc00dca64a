import { expect, test } from "vitest";
import { evaluateGraph } from "heddle/ops";
import { splitGraph, verifyProgram } from "heddle/program";
import { checkLowered, lowerProgram, printLowered } from "heddle/lower";
import { attentionStep, inputsFor, lenetStep, mlpStep } from "./graphs.ts";
import { simulate } from "./simulate.ts";

for (const [name, step] of [["mlp", mlpStep("f64", [4, 6, 5, 3])], ["attention", attentionStep()], ["lenet", lenetStep("f64", 3, 8, [2, 3, 5])]] as const) {
  test(name, () => {
    const program = splitGraph(step.graph, [], step);
    verifyProgram(program);
    const lowered = lowerProgram(program, { slots: 2 });
    console.log(printLowered(lowered));
    checkLowered(lowered);
    const inputs = inputsFor(step.graph);
    const expected = evaluateGraph(step.graph, inputs);
    const got = simulate(lowered, inputs);
    expected.forEach((tensor, index) => {
      let worst = 0;
      tensor.data.forEach((v, i) => { worst = Math.max(worst, Math.abs(v - (got[index]!.data[i] as number))); });
      expect(worst).toBeLessThan(1e-12);
    });
  });
}
