import { existsSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { finalizesAtOnce, namesMusl, ownPlatform, platformName } from "../../src/executors/native/platform.ts";

/** The list that native packages are built and packed by, in plain JavaScript. */
const { targets, packages, ownTarget } = (await import(new URL("../../native/targets.mjs", import.meta.url).href)) as {
  readonly targets: Readonly<Record<string, { os: string; cpu: string; libc?: string }>>;
  readonly packages: string;
  readonly ownTarget: () => string;
};

test("a machine asks for the native package that is built for it", () => {
  for (const [name, { os, cpu, libc }] of Object.entries(targets)) {
    expect(platformName(os, cpu, libc === "musl")).toBe(name);
  }
  expect(ownPlatform()).toBe(ownTarget());
  if (existsSync(packages)) expect(Object.keys(targets)).toEqual(expect.arrayContaining(readdirSync(packages)));
});

test.each([
  { system: "Alpine", library: "/lib/ld-musl-x86_64.so.1", musl: true },
  { system: "Void", library: "/usr/lib/libc.so", musl: true },
  { system: "Debian", library: "/usr/lib/x86_64-linux-gnu/libc.so.6", musl: false },
  { system: "an older Debian", library: "/lib/aarch64-linux-gnu/libc-2.28.so", musl: false },
])("the C library of $system is told from what is mapped", ({ library, musl }) => {
  const line = (path: string) => `7f0d2c000000-7f0d2c021000 r-xp 00000000 08:01 1234    ${path}\n`;
  expect(namesMusl(line("/usr/bin/node") + line(library) + line("[stack]"))).toBe(musl);
});

test("Nodes that end the process where a finalizer deletes its reference are known", () => {
  const late = ["20.17.0", "20.18.2", "22.11.0", "22.12.0", "23.3.0"];
  const atOnce = ["20.18.3", "20.19.0", "22.13.0", "24.0.0", "26.1.0"];
  expect(late.filter(finalizesAtOnce)).toEqual([]);
  expect(atOnce.filter((version) => !finalizesAtOnce(version))).toEqual([]);
});
