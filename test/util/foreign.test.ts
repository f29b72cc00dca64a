/** What the table of foreign names says is here, is here. */

import { inspect } from "node:util";
import * as heddle from "heddle";
import { expect, test } from "vitest";
import { foreignMembers, foreignNames, methodHint, nameHint, optionHint } from "../../src/util/foreign.ts";

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

const x = heddle.tensor([1, 2]);

test.each(foreignMembers)("x.%s says what to write", (name) => {
  const call = (): unknown => {
    const member = (x as unknown as Record<string, unknown>)[name];
    return (member as () => unknown).call(x);
  };
  const hint = methodHint(name) as string;
  expect(hint).toMatch(/\w/);
  expect(call).toThrow(
    new RegExp(`^f32\\[2\\] has no '${name}'\\n[\\s\\S]*hint: ${hint.replace(/[()[\]{}.?]/g, "\\$&")}$`),
  );
});

test("types have no such member", () => {
  // @ts-expect-error
  expect(() => x.backward()).toThrow(heddle.HeddleError);
  // @ts-expect-error
  expect(() => x.to("cuda")).toThrow(/cast/);
  // @ts-expect-error
  expect(() => x.T).toThrow(/x\.transpose\(\)/);
});

test("nothing that looks at a tensor meets them", async () => {
  const names: readonly string[] = foreignMembers;
  for (const name in x) expect(names).not.toContain(name);
  expect(Object.keys({ ...x }).filter((name) => names.includes(name))).toEqual([]);
  expect(inspect({ x }, { showHidden: true, getters: true })).toMatch(/tensor<f32\[2\]> \[1, 2\]/);
  expect(inspect(heddle.Tensor.prototype, { showHidden: true, getters: true })).toMatch(/\[Function/);
  expect(await x).toBe(x);
  expect(x).toEqual(x);
  expect({ x }).toStrictEqual({ x });
  expect({ x }).not.toEqual({ x: heddle.tensor([1, 2]) });
  expect(() => expect(x).toEqual(heddle.tensor([1, 2]))).toThrow(/to deeply equal/);
});
