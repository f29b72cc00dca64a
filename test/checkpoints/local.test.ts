/** A folder of this machine as storage. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openStorage, registerStorage } from "../../src/checkpoints/index.ts";
import { localStorage } from "../../src/checkpoints/local.ts";
import { conforms } from "./conformance.ts";

const root = mkdtempSync(join(tmpdir(), "heddle-storage-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const empty = (): string => join(mkdtempSync(join(root, "place-")), "checkpoints");

conforms("a folder", async () => {
  const folder = empty();
  return { storage: localStorage(folder), inside: async (name) => localStorage(join(folder, name)) };
});

test("nothing is left beside what was written", async () => {
  const folder = empty();
  const storage = localStorage(folder);
  await Promise.all(Array.from({ length: 4 }, () => storage.create("lock", Buffer.from("x"))));
  expect(readdirSync(folder)).toEqual(["lock"]);
});

test("a driver by one object serves its scheme", async () => {
  registerStorage({ scheme: "memory", open: async (address) => ({ ...localStorage(empty()), place: address }) });
  expect((await openStorage("memory://here/")).place).toBe("memory://here");
});

test.each<[string, () => unknown, string]>([
  ["an unknown scheme", () => openStorage("gs://bucket"), "no driver for gs://"],
  ["a malformed address", () => openStorage("s3://"), "is not an address of S3"],
  ["an address that climbs", () => openStorage("s3://bucket/a/../b"), "is not an address of S3"],
  ["no place", () => openStorage(undefined as never), "takes a folder or an address"],
  ["a malformed driver", async () => registerStorage({ scheme: "S 3" } as never), "takes { scheme, open }"],
])("%s is refused", async (_name, call, message) => {
  await expect(call()).rejects.toThrow(message);
});
