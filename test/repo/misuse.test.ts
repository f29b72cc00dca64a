/** Whatever a user hands over by mistake, to any public function, is an error of Heddle's: JavaScript's own name nothing of it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as heddle from "heddle";
import { HeddleError, tensor } from "heddle";
import { afterAll, expect, test } from "vitest";
import { partOf } from "../support/sample.ts";

/** Every public function by its dotted name; those of the form `Capital` are classes. */
function functionsOf(space: object, prefix = ""): [string, (...args: unknown[]) => unknown][] {
  return Object.entries(space).flatMap(([key, value]: [string, unknown]) => {
    const name = `${prefix}${key}`;
    if (typeof value === "function")
      return /^[A-Z]/.test(key) ? [] : [[name, value as (...args: unknown[]) => unknown]];
    const isSpace = typeof value === "object" && value !== null && prefix.split(".").length < 4;
    return isSpace ? functionsOf(value, `${name}.`) : [];
  });
}

// Some functions write the files that they are told to.
const folder = mkdtempSync(join(tmpdir(), "misuse-"));
process.chdir(folder);

const matrix = tensor([
  [1, 2],
  [3, 4],
]);
const mistakes: readonly unknown[] = [
  undefined,
  null,
  Number.NaN,
  -1,
  1.5,
  1n,
  true,
  "x",
  {},
  { a: 1 },
  [],
  [1, "x"],
  () => 1,
  Promise.resolve(1),
  tensor(2),
  matrix,
  tensor([1, 2], { dtype: "i32" }),
  heddle.zeros([0, 2]),
];
const some = [null, "x", {}, [1, "x"], () => 1, matrix];

const later: Promise<void>[] = [];
const raw: string[] = [];
function attempt(name: string, fn: (...args: unknown[]) => unknown, args: readonly unknown[]): unknown {
  const told = (error: unknown): void => {
    if (!(error instanceof HeddleError)) raw.push(`${name}(${args.map((arg) => String(arg)).join(", ")}): ${error}`);
  };
  try {
    const result = fn(...args);
    if (result instanceof Promise) later.push(result.then(() => {}, told));
    return result;
  } catch (error) {
    told(error);
    return undefined;
  }
}

const methods = Object.entries(Object.getOwnPropertyDescriptors(heddle.Tensor.prototype)).flatMap(
  ([name, { value }]): [string, (...args: unknown[]) => unknown][] =>
    // Methods that are functions are tried as those.
    typeof value === "function" && !["constructor", "dispose"].includes(name) && !(name in heddle)
      ? [[`Tensor.${name}`, (...args) => (value as (...args: unknown[]) => unknown).apply(matrix, args)]]
      : [],
);

/** What the library alone calls, with what it has made itself. */
const inside = [
  "optim.weightsOnly",
  "optim.learningRateAt",
  "metrics.rootMeanSquaredError.value",
  "Tensor.markDonated",
];

test.each([...functionsOf(heddle), ...methods].filter(([name]) => !inside.includes(name)))("%s", (name, fn) => {
  for (const [place, first] of mistakes.entries()) {
    const made = attempt(name, fn, [first]);
    // Of what comes second, and of what is made, another part for each mistake.
    for (const second of partOf(some, 6, place)) attempt(name, fn, [first, second]);
    attempt(name, fn, [matrix, matrix, first]);
    for (const method of ["init", "apply", "update"]) {
      const inner = (made as { [name: string]: unknown } | undefined | null)?.[method];
      if (typeof made === "function" || typeof inner !== "function" || made instanceof heddle.Tensor) continue;
      const call = (...args: unknown[]) => (inner as (...args: unknown[]) => unknown).apply(made, args);
      for (const [given, other] of partOf([...mistakes.entries()], 6, place))
        attempt(`${name}().${method}`, call, [other, mistakes.at(-given)]);
    }
  }
  expect(raw.splice(0)).toEqual([]);
});

afterAll(async () => {
  await Promise.all(later);
  rmSync(folder, { recursive: true });
  expect(raw).toEqual([]);
});
