/** What the native core takes for buffers, as the prediction of memory counts it. */
import { describe, expect, test } from "vitest";
import { allocatedBytes } from "../../src/executors/native/allocation.ts";
import { loadNative } from "../../src/executors/native/binding.ts";

const native = loadNative();

describe.skipIf("error" in native)("allocated bytes", () => {
  const sizes = [1, 255, 256, 257, 320, 321, 1000, 1024, 1025, 1281, 99_999, 2 ** 20, 2 ** 20 + 1, 1_900_000];
  test.each([...sizes, 2 ** 21 - 1, 2 ** 21, 2 ** 21 + 1, 5_000_000, 33_000_000])("of a buffer of %i", (bytes) => {
    if ("error" in native) throw new Error(native.error);
    const before = native.memory().liveBytes;
    const buffer = new native.NativeBuffer(bytes);
    expect(native.memory().liveBytes - before).toBe(allocatedBytes(bytes));
    buffer.dispose();
    expect(native.memory().liveBytes).toBe(before);
  });
});
