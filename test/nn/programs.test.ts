/** Ordinary programs compile without one type assertion, and run. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { autoencoder, gan, sequences, transfer, transformer } from "./programs.ts";

test("no program asserts a type", () => {
  const text = readFileSync(new URL("programs.ts", import.meta.url), "utf8");
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, "");
  expect(code.match(/ as (?!const\b).*|\bany\b|[\w)\]]![.;,)]/g)).toBeNull();
});

test("a GAN", async () => expect(await gan(3)).toBeGreaterThan(0));
test("an autoencoder", async () => expect(await autoencoder(20)).toBeLessThan(await autoencoder(1)));
test("a classifier of sequences", async () => expect(await sequences(1)).toEqual([2, 8, 32, 8, 20, 8]));
test("a transformer", () => expect(transformer()).toEqual([1, 6, 10, 8, 32, 8]));
test("transfer", async () => expect(await transfer(1)).toEqual([8, 4, 5]));
