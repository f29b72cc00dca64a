import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { checkLayers, importsOf } from "../../scripts/check-layers.ts";

const folders: string[] = [];

/** A tree of files in a temporary folder. */
function tree(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "heddle-layers-"));
  folders.push(root);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return root;
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** A repository's sources, each of which breaks at most one rule, with what is said about it. */
const cases: readonly { name: string; files: Record<string, string>; problems: readonly (string | RegExp)[] }[] = [
  {
    name: "imports to the left",
    files: {
      "src/util/errors.ts": "export const x = 1;",
      "src/ir/node.ts": 'import { x } from "../util/errors.ts";\nexport const y = x;',
      "src/program/program.ts": "export const p = 1;",
      "src/lower/lower.ts": 'import { p } from "../program/program.ts";\nexport const q = p;',
      "src/executors/native/files.ts": 'import { readFileSync } from "node:fs";\nexport const r = readFileSync;',
      "src/cli/main.ts": 'export const main = () => import("./run.ts");',
      "src/cli/run.ts": 'import "../launch/local.ts";',
      "src/launch/local.ts": "export {};",
    },
    problems: [],
  },
  {
    name: "imports to the right",
    files: {
      "src/util/errors.ts": '\nimport type {\n  N,\n} from "../ir/node.ts";',
      "src/ir/node.ts": "export type N = 1;",
    },
    problems: [/^src\/util\/errors\.ts:2: util may not import ir: imports go left only/],
  },
  {
    name: "imports inside a group",
    files: { "src/nn/linear.ts": 'export * from "../losses/mean.ts";', "src/losses/mean.ts": "export const m = 1;" },
    problems: [/^src\/nn\/linear\.ts:1: nn may not import losses: they are of one group/],
  },
  {
    name: "a program that imports lowering",
    files: { "src/program/a.ts": 'import "../lower/b.ts";', "src/lower/b.ts": "export {};" },
    problems: [/^src\/program\/a\.ts:1: program may not import lower/],
  },
  {
    name: "what needs Node in what runs in a browser",
    files: {
      "src/plan/plan.ts": 'import { cpus } from "node:os";\nexport const c = cpus;',
      "src/tensor/a.ts": 'import type { N } from "../executors/native/n.ts";\nimport "../launcher-messages/b.ts";',
      "src/launcher-messages/b.ts": "export {};",
      "src/executors/native/n.ts": "export type N = 1;",
      "src/executors/reference.ts": 'import "./native/n.ts";',
    },
    problems: [
      /^src\/executors\/reference\.ts:1: may not import \.\/native\/n\.ts: the module runs in a browser/,
      /^src\/plan\/plan\.ts:1: may not import node:os: the module runs in a browser/,
      /^src\/tensor\/a\.ts:2: may not import \.\.\/launcher-messages\/b\.ts: the module runs in a browser/,
    ],
  },
  {
    name: "an import inside a function",
    files: {
      "src/train/a.ts": 'export async function f() {\n  await import("./b.ts");\n}',
      "src/train/b.ts": "export {};",
    },
    problems: [/^src\/train\/a\.ts:2: import\("\.\/b\.ts"\) inside the code/],
  },
  {
    name: "an import of a computed name inside a function",
    files: { "src/train/a.ts": "export const f = (name: string) => import(name);" },
    problems: [/^src\/train\/a\.ts:1: import\("\.name"\) inside the code/],
  },
  {
    name: "a package that is loaded when it is needed",
    files: { "src/train/a.ts": 'export const f = () => import("cli-progress");' },
    problems: [],
  },
  {
    name: "a cycle",
    files: {
      "src/ir/a.ts": 'import { b } from "./b.ts";\nexport const a = () => b;',
      "src/ir/b.ts": 'import { c } from "./c.ts";\nexport const b = () => c;',
      "src/ir/c.ts": 'import { a } from "./a.ts";\nexport const c = () => a;',
    },
    problems: ["src/ir/a.ts:1: cycle src/ir/a.ts → src/ir/b.ts → src/ir/c.ts → src/ir/a.ts"],
  },
  {
    name: "one import that closes several cycles, by the shortest of them",
    files: {
      "src/ir/a.ts": 'import "./b.ts";\nimport "./c.ts";\nimport "./d.ts";\nexport {};',
      "src/ir/b.ts": 'import "./d.ts";\nexport {};',
      "src/ir/c.ts": 'import "./d.ts";\nexport {};',
      "src/ir/d.ts": 'import "./a.ts";\nexport {};',
    },
    problems: ["src/ir/a.ts:1: cycle src/ir/a.ts → src/ir/d.ts → src/ir/a.ts"],
  },
  {
    name: "a cycle of types only, neither of which can be read before the other",
    files: {
      "src/ir/a.ts": 'import type { B } from "./b.ts";\nexport type A = B | 1;',
      "src/ir/b.ts": 'import type { A } from "./a.ts";\nexport type B = A[];',
    },
    problems: ["src/ir/a.ts:1: cycle src/ir/a.ts → src/ir/b.ts → src/ir/a.ts"],
  },
  {
    name: "Rust modules that use each other in no circle: comments, unit tests, names passed on, and what is in another crate",
    files: {
      "src/ir/a.ts": "export {};",
      "native/core/src/lib.rs": "mod error;\nmod kernels;\npub use error::{Error, Result};\npub use kernels::Kernel;",
      "native/core/src/error.rs":
        "// use crate::kernels::Kernel;\n#[macro_export]\nmacro_rules! bail { () => { $crate::Error } }\npub struct Error;",
      "native/core/src/kernels/mod.rs": "mod dot;\nmod fold;\nuse crate::{bail, Result};\npub use dot::Kernel;",
      "native/core/src/kernels/dot.rs":
        "use super::fold::Fold;\nuse std::fmt;\nmod inner { use super::Kernel; }\n#[cfg(test)]\nmod tests {\n  use crate::kernels;\n}",
      "native/core/src/kernels/fold.rs": "use crate::Error;\npub struct Fold<'a>(&'a Error);",
    },
    problems: [],
  },
  {
    name: "circles of Rust modules: by declarations, by paths in the code, and by a macro",
    files: {
      "src/ir/a.ts": "export {};",
      "native/core/src/exec.rs": "use crate::{dtype, control::{self, Block as Steps}};",
      "native/core/src/control.rs": "fn run(run: &super::exec::Run) {}",
      "native/core/src/dtype.rs": "",
      "native/comm/src/net/mod.rs": "mod link;\nfn open() -> link::Link { link::Link }",
      "native/comm/src/net/link.rs": "macro_rules! link { () => { $crate::net::open() } }",
    },
    problems: [
      "native/core/src/control.rs:1: cycle native/core/src/control.rs → native/core/src/exec.rs → native/core/src/control.rs",
      "native/comm/src/net/link.rs:1: cycle native/comm/src/net/link.rs → native/comm/src/net/mod.rs → native/comm/src/net/link.rs",
    ],
  },
  {
    name: "an adapter, which has of Heddle what users have",
    files: {
      "src/util/errors.ts": "export const e = 1;",
      "src/extend/index.ts": 'export * from "../util/errors.ts";',
      "src/extend/browser.ts": 'export * from "../util/errors.ts";',
      "src/adapters/caffe/net.ts":
        'import "../../extend/index.ts";\nimport "./text.ts";\nimport "../../util/errors.ts";',
      "src/adapters/caffe/text.ts": 'import "node:fs";\nimport "../../extend/browser.ts";',
      "src/io/index.ts": 'export * from "../adapters/caffe/net.ts";\nexport * from "./read.ts";',
      "src/io/read.ts": 'import "../adapters/caffe/text.ts";',
    },
    problems: [
      /^src\/adapters\/caffe\/net\.ts:3: an adapter may not import \.\.\/\.\.\/util\/errors\.ts/,
      /^src\/io\/read\.ts:1: io may not import adapters\/caffe: imports go left only/,
    ],
  },
  {
    name: "a file that is not there",
    files: { "src/ir/a.ts": 'import "./gone.ts";' },
    problems: [/^src\/ir\/a\.ts:1: \.\/gone\.ts does not exist/],
  },
  {
    name: "a folder without a layer",
    files: { "src/extra/a.ts": "export {};" },
    problems: [/^src\/extra: no layer/],
  },
  {
    name: "the package's own name",
    files: { "src/train/a.ts": 'import { nn } from "heddle";\nexport const n = nn;' },
    problems: [/^src\/train\/a\.ts:1: import "heddle" by its relative path/],
  },
  {
    name: "exports that disagree with the folders",
    files: {
      "package.json": JSON.stringify({ exports: { "./nn": { default: "./dist/nn/index.js" }, "./gone": {} } }),
      "src/nn/index.ts": "export {};",
      "src/ops/index.ts": "export {};",
    },
    problems: [/exports\["\.\/nn"\] should be/, /exports\["\.\/ops"\] should be/, /exports\["\.\/gone"\] has no/],
  },
];

describe("check-layers", () => {
  test.each(cases)("$name", ({ files, problems }) => {
    const found = checkLayers(tree(files));
    expect(found).toHaveLength(problems.length);
    for (const [index, problem] of problems.entries()) expect(found[index]).toMatch(problem);
  });

  test("finds imports of every form, and none in comments", () => {
    const text = `
import a from "./a.ts";
import type { B } from "./b.ts";
import * as c from './c.ts'; // import x from "./no.ts"
export { d } from "./d.ts";
export * from "./e.ts";
/* import "./no.ts"; */
import "./f.ts";
const url = "https://example.org"; const g = import("./g.ts");
type H = typeof import("./h.ts");
let i: import("./i.ts").I;
import {
  j,
  type K,
} from "./j.ts";
`;
    expect(
      importsOf(text.trimStart()).map(({ specifier, line, late, typeOnly }) => [specifier, line, late, typeOnly]),
    ).toEqual([
      ["./a.ts", 1, false, false],
      ["./b.ts", 2, false, true],
      ["./c.ts", 3, false, false],
      ["./d.ts", 4, false, false],
      ["./e.ts", 5, false, false],
      ["./f.ts", 7, false, false],
      ["./g.ts", 8, true, false],
      ["./h.ts", 9, false, true],
      ["./i.ts", 10, false, true],
      ["./j.ts", 11, false, false],
    ]);
  });
});
