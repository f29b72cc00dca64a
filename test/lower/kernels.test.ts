import { Ref } from "heddle/ir";
import { axisIndex, checkFields, descriptionOf, kernels } from "heddle/kernels";
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
