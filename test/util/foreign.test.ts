/** What the table of foreign names says is here, is here. */
import * as heddle from "heddle";
import { expect, test } from "vitest";
import { foreignNames, methodHint, nameHint, optionHint } from "../../src/util/foreign.ts";

test.each([...new Set(Object.values(foreignNames))])("%s", (name) => {
  const found = name
    .split(".")
    .reduce<unknown>((space, part) => (space as { [name: string]: unknown })?.[part], heddle);
  expect(found).toBeDefined();
});

test("keys are spelt plainly, and no name of Heddle's is taken for a foreign one", () => {
  for (const name of Object.keys(foreignNames)) expect(name).toMatch(/^[a-z0-9]+$/);
  expect(nameHint("Linear", ["linear"])).toBe("linear");
  expect(nameHint("MSELoss", ["mse"])).toBe("losses.mse");
  expect(nameHint("whatever", ["linear"])).toBeUndefined();
  expect(methodHint("zero_grad")).toMatch(/leave it out/);
  expect(methodHint("toFixed")).toBeUndefined();
});

test.each([
  ["lr", ["learningRate"], "it is called 'learningRate' here"],
  ["learning_rate", ["learningRate"], "it is called 'learningRate' here"],
  ["stride", ["strides"], "it is called 'strides' here"],
  ["batchSize", ["data"], "datasets are batched: data.fromArrays(…).batch(32)"],
  ["drop_last", ["data"], "datasets drop it: .batch(32, { dropRemainder: true })"],
  ["lr", ["epochs"], undefined],
  ["whatever", ["data"], undefined],
])("the option %s beside %o", (name, allowed, says) => {
  expect(optionHint(name, allowed)).toBe(says);
});
