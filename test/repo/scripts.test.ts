import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { linesOf } from "../../scripts/count-lines.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

test.each([
  { script: "setup.mjs", args: ["--only", "everything"], status: 1, says: 'unknown part "everything"; the parts are' },
  { script: "test.mjs", args: ["--only", "all"], status: 2, says: "use: npm test [-- --only lint|types|" },
  { script: "test.mjs", args: ["test/launch"], status: 2, says: "use: npm test [-- --only lint|types|" },
  { script: "pack.mjs", args: [], status: 1, says: "use: node scripts/pack.mjs --out <folder> [--check]" },
  { script: "try-cross.mjs", args: ["--all"], status: 1, says: "use: npm run test:cross [-- --write |" },
  { script: "try-runtimes.mjs", args: ["--all"], status: 1, says: "use: npm run test:runtimes [-- --write]" },
])("scripts/$script $args is refused", ({ script, args, status, says }) => {
  const result = spawnSync(process.execPath, [`scripts/${script}`, ...args], { cwd: root, encoding: "utf8" });
  expect(result.status).toBe(status);
  expect(result.stderr).toContain(says);
});

test("an addon is looked at before it is packed: its processor and its C library", async () => {
  const { mismatch } = (await import(new URL("../../native/cross.mjs", import.meta.url).href)) as {
    readonly mismatch: (file: Buffer, target: { cpu: string; libc: string; glibc?: string }) => string | undefined;
  };
  const library = (machine: number, text: string): Buffer => {
    const header = Buffer.from([0x7f, 0x45, 0x4c, 0x46, ...new Array<number>(14).fill(0), machine, 0]);
    return Buffer.concat([header, Buffer.from(text)]);
  };
  const gnu = { cpu: "x64", libc: "glibc", glibc: "2.28" };
  expect(mismatch(library(62, "GLIBC_2.2.5 GLIBC_2.28"), gnu)).toBeUndefined();
  expect(mismatch(library(62, "GLIBC_2.34"), gnu)).toBe("asks for glibc 2.34, newer than 2.28");
  expect(mismatch(library(183, ""), gnu)).toBe("made for machine 183, not for x64");
  expect(mismatch(library(62, "GLIBC_2.17"), { cpu: "x64", libc: "musl" })).toBe("linked with glibc, not with musl");
  expect(mismatch(Buffer.from("MZ".padEnd(20)), gnu)).toBe("no library of Linux");
});

test("numbers of two machines are compared bit by bit, a NaN with any other", async () => {
  const { differences } = (await import(new URL("../../scripts/cross/compare.mjs", import.meta.url).href)) as {
    readonly differences: (ours: readonly object[], theirs: readonly object[]) => readonly object[];
  };
  const row = (name: string, ...values: number[]): object => {
    return { name, results: [["f32", Buffer.from(Float32Array.from(values).buffer).toString("base64")]] };
  };
  const negativeNaN = { name: "nan", results: [["f32", Buffer.from([0, 0, 0xc0, 0xff]).toString("base64")]] };
  expect(
    differences(
      [row("same", 1, 2), row("near", 1, 3), row("far", 0), row("nan", Number.NaN), row("zero", 0)],
      [row("same", 1, 2), row("near", 1, 3.5), row("far", 2), negativeNaN, row("zero", -0)],
    ),
  ).toEqual([
    { name: "far", apart: 2 },
    { name: "near", apart: 0.125 },
    { name: "zero", apart: Number.MIN_VALUE },
  ]);
  expect(() => differences([row("one", 1)], [])).toThrow("1 rows here, 0 there");
});

test("packing asks for a build where dist is not that of the sources", () => {
  const clone = mkdtempSync(join(tmpdir(), "heddle-unbuilt-"));
  for (const name of ["scripts", "native/targets.mjs", "src", "package.json", "tsconfig.json", "tsconfig.build.json"]) {
    cpSync(join(root, name), join(clone, name), { recursive: true });
  }
  const result = spawnSync(process.execPath, ["scripts/pack.mjs", "--out", clone], { cwd: clone, encoding: "utf8" });
  rmSync(clone, { recursive: true });
  expect(result.stderr).toBe("heddle pack: dist is missing, or older than src: build first (npm run build)\n");
  expect(result.status).toBe(1);
});

test.each([
  { name: "blanks and comments", text: "/** What. */\n\nconst x = 1; // one\n/* a\n b */\n", rust: false, lines: 1 },
  {
    name: "what looks like a comment in a text",
    text: 'const x = "// not";\nconst y = `/*\n*/`;\n',
    rust: false,
    lines: 3,
  },
  {
    name: "lifetimes and characters",
    text: "fn f<'a>(x: &'a str) {} // it's\n//! a\nlet q = '\"';\n",
    rust: true,
    lines: 2,
  },
])("lines of code are counted without $name", ({ text, rust, lines }) => {
  expect(linesOf(text, rust)).toBe(lines);
});
