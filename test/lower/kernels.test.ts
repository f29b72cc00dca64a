import { readdirSync, readFileSync } from "node:fs";
import { Ref } from "heddle/ir";
import { accessesOf, axisIndex, checkFields, descriptionOf, kernels } from "heddle/kernels";
import { expect, test } from "vitest";

const out = new Ref({}, 0);

test("a call names its kernel; fields that are undefined are left out", () => {
  expect(axisIndex.call({ axis: 0, out })).toEqual({ k: "axisIndex", axis: 0, out });
  expect(kernels.get("send")?.call({ axis: 0, label: undefined })).toEqual({ k: "send", axis: 0 });
  // @ts-expect-error a field is missing
  axisIndex.call({ axis: 0 });
  // @ts-expect-error a field is misspelt
  axisIndex.call({ axes: 0, out });
});

test.each([
  [{ axes: 0, out }, "axisIndex: there is no field 'axes', only axis, out"],
  [{ axis: 0 }, "axisIndex: the field 'out' is missing"],
])("what is no call of a kernel is refused: %o", (fields, message) => {
  expect(() => checkFields({ k: "axisIndex", ...fields })).toThrow(message);
});

test("fields within fields are checked, too", () => {
  const parts = [{ in: out, counts: 1 }];
  expect(() => checkFields({ k: "send", axis: 0, to: 1, dtype: "f32", parts })).toThrow(
    "send.parts: there is no field",
  );
  expect(() => descriptionOf({ k: "nonsense" })).toThrow("there is no kernel 'nonsense'");
});

test("of the collectives all-reduce alone may leave its result where its input lies", () => {
  const { form } = descriptionOf({ k: "collective" }).fields["op"] as { form: { names: readonly string[] } };
  const parts = [{ in: out, out, count: 4 }];
  const inPlace = form.names.filter((op) =>
    accessesOf({ k: "collective", op, axis: 0, dtype: "f32", parts, receives: [] }, [2]).some((one) => one.inPlace),
  );
  expect(inPlace).toEqual(["allReduce"]);
});

test("the lowering knows kernels by their descriptions, not by their names", () => {
  const folder = new URL("../../src/lower/", import.meta.url);
  const named = readdirSync(folder).flatMap((file) => {
    const code = readFileSync(new URL(file, folder), "utf8").replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
    return [...kernels.keys()].filter((name) => code.includes(`"${name}"`) || code.includes(`'${name}'`));
  });
  // These words are not kernels there: a combination of folds, the kinds of control flow, and a kind of program step.
  expect(new Set(named)).toEqual(new Set(["argMax", "loop", "branch", "collective"]));
});
