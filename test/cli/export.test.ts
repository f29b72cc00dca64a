/** Exporting what is trained, and functions, as StableHLO. */
import { grad, mesh, stablehlo, type Tensor, tensor } from "heddle";
import { expect, test } from "vitest";
import { heddle, script } from "./heddle-process.ts";

test("heddle export writes the training step", () => {
  const { status, stdout, stderr } = heddle(["export", "--to", "stablehlo", script("trains.ts")]);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "before train\n" });
  expect(stdout).toMatch(/^module @\S+ \{\n {2}func\.func public @main\(/);
  expect(stdout).toContain('"stablehlo.dot_general"');
});

test("a function, for one device and for several", () => {
  const loss = (x: Tensor): Tensor =>
    x
      .mul(tensor([1, 2]))
      .exp()
      .sum();
  const one = stablehlo(grad(loss), [{ shape: [2], dtype: "f32" }]);
  expect(one).toMatch(/func\.func public @main\(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>\) -> tensor<2xf32>/);
  expect(one).toContain('"stablehlo.exponential"');
  expect(stablehlo(loss, [{ shape: [2], dtype: "f32" }], { mesh: mesh({ data: 2 }) })).toContain("num_replicas = 2");
});
