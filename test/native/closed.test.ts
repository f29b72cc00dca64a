import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { bundled } from "../support/bundled.ts";
import { missing } from "./evaluate.ts";

test.skipIf(missing !== undefined)("a call on a closed runtime is an error, and the process ends", async () => {
  const child = bundled(new URL("closed-child.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [child], { timeout: 60_000 });
  const closed = "the device is closed, with its runtime";
  expect(JSON.parse(stdout)).toEqual({ cold: closed, warm: closed });
});
