/** Threads of a user's script, with the package as it is built. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { finished } from "./command.ts";

test("a thread in TypeScript runs under heddle run", async () => {
  const file = fileURLToPath(new URL("../launch/scripts/threads.ts", import.meta.url));
  const { status, output } = await finished(["run", file]);
  expect({ status, output }).toEqual({ status: 0, output: "the thread answers 25\n" });
});
