import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const native = join(root, "native/npm/linux-x64-gnu");
const project = mkdtempSync(join(tmpdir(), "heddle-package-"));
const built = existsSync(join(root, "dist/.stamp"));
const nativeBuilt = existsSync(native) && readdirSync(native).some((name) => name.endsWith(".node"));

/** A user's machine: Node and the system's tools, no Rust. */
const environment = {
  ...process.env,
  PATH: [dirname(process.execPath), "/usr/bin", "/bin"].join(delimiter),
  CARGO_HOME: join(project, "no-cargo"),
  NO_COLOR: "1",
};

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, env: environment, encoding: "utf8" });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")}: status ${status}\n${stdout}${stderr}`);
  return stdout;
}

/** The tarballs as npm would publish them: the package, and the native one of this platform where it is built. */
const pack = (): string[] =>
  run(process.execPath, [join(root, "scripts/pack.mjs"), "--out", project, "--check"], root)
    .trim()
    .split("\n")
    .filter((path) => /\/heddle-(?:linux-x64-gnu-)?\d[^/]*$/.test(path));

describe.skipIf(!built)("the package, installed into an empty project without Rust", () => {
  const app = join(project, "app");

  beforeAll(() => {
    const tarballs = pack();
    mkdirSync(app);
    writeFileSync(join(app, "package.json"), '{ "name": "app", "private": true }\n');
    run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", ...tarballs], app);
  }, 180_000);

  afterAll(() => rmSync(project, { recursive: true, force: true }));

  test("holds what is needed, and nothing else", () => {
    const files = readdirSync(join(app, "node_modules/heddle"));
    const expected = ["CHANGELOG.md", "LICENSE", "README.md", "bin", "dist", "package.json"];
    expect(files.filter((name) => name !== "node_modules").sort()).toEqual(expected);
  });

  test("its README leads to files that are packed, or to the repository's", () => {
    const { repository, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      readonly repository: { readonly url: string };
      readonly version: string;
    };
    const home = repository.url.replace(/^git\+|\.git$/g, "");
    const readme = readFileSync(join(app, "node_modules/heddle/README.md"), "utf8");
    const links = [...readme.matchAll(/\]\(([^)\s]+)|(?:src|href)="([^"]+)/g)].map(
      ([, link, html]) => link ?? html ?? "",
    );
    expect(links.length).toBeGreaterThan(5);
    for (const link of links.filter((each) => !each.startsWith("#"))) {
      const [, path] = new RegExp(`^${home}/(?:blob|raw)/v${version}/([^#]+)`).exec(link) ?? [];
      const found = /^[a-z]+:/.test(link)
        ? path === undefined || existsSync(join(root, path))
        : existsSync(join(app, "node_modules/heddle", link.replace(/#.*/, "")));
      expect({ link, found }).toEqual({ link, found: true });
    }
  });

  test("takes less than 40 MB with all that it needs", () => {
    // esbuild links its program into place: a file of two names is on the disk once.
    const sizes = new Map<number, number>();
    for (const file of readdirSync(join(app, "node_modules"), { recursive: true, withFileTypes: true })) {
      const { ino, size } = statSync(join(file.parentPath, file.name));
      if (file.isFile()) sizes.set(ino, size);
    }
    expect([...sizes.values()].reduce((sum, size) => sum + size, 0) / 1e6).toBeLessThan(40);
  });

  test("asks for the native packages of its own version, as npm finds them by platform", () => {
    const read = (folder: string) =>
      JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
        readonly version: string;
        readonly optionalDependencies: Readonly<Record<string, string>>;
      };
    const { version, optionalDependencies } = read(join(app, "node_modules/heddle"));
    const natives = existsSync(dirname(native)) ? readdirSync(dirname(native)) : [];
    expect(optionalDependencies).toEqual(Object.fromEntries(natives.map((name) => [`heddle-${name}`, version])));
    if (!nativeBuilt) return;
    const own = read(join(app, "node_modules/heddle-linux-x64-gnu"));
    expect(own).toMatchObject({ version, os: ["linux"], cpu: ["x64"], libc: ["glibc"] });
  });

  test("every subpath can be imported", () => {
    const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: object };
    const names = Object.keys(exports)
      .filter((name) => existsSync(join(root, "src", name, "index.ts")))
      .map((name) => join("heddle", name));
    writeFileSync(join(app, "imports.mjs"), names.map((name) => `import ${JSON.stringify(name)};\n`).join(""));
    run(process.execPath, ["imports.mjs"], app);
  });

  test.each([
    { types: [], with: "none of Node's types" },
    { types: ["node"], with: "Node's types" },
  ])("its types are whole: libraries checked, $with", ({ types }) => {
    const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { exports: object };
    const names = Object.keys(exports).filter((name) => !name.endsWith(".json"));
    const imports = names.map(
      (name, index) => `import * as m${index} from "${join("heddle", name)}";\nvoid m${index};\n`,
    );
    writeFileSync(join(app, "types.ts"), imports.join(""));
    const options = {
      target: "es2022",
      module: "nodenext",
      strict: true,
      skipLibCheck: false,
      noEmit: true,
      types,
      typeRoots: [join(root, "node_modules/@types")],
    };
    writeFileSync(join(app, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["types.ts"] }));
    run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-p", "."], app);
  });

  test("the command runs a TypeScript file", () => {
    writeFileSync(
      join(app, "hello.ts"),
      'const text: string = await Promise.resolve("hello");\nconsole.log(text);\nexport {};\n',
    );
    expect(run("npx", ["heddle", "run", "hello.ts"], app)).toBe("hello\n");
  });

  test.skipIf(!nativeBuilt)("the native package loads", () => {
    const { native: found } = JSON.parse(run("npx", ["heddle", "doctor", "--json"], app)) as { native: unknown };
    expect(found).toMatchObject({ loaded: true });
  });

  test.skipIf(!nativeBuilt)(
    "an MLP trains on the native executor, in one process and in two",
    () => {
      for (const file of ["mlp.ts", "spirals.ts"]) copyFileSync(join(root, "examples", file), join(app, file));
      for (const workers of ["1", "2"]) {
        const output = run("npx", ["heddle", "run", "mlp.ts", "--workers", workers], app);
        expect(output).toMatch(/native executor/);
        expect(Number(/([0-9.]+) % of the points/.exec(output)?.[1])).toBeGreaterThan(95);
      }
    },
    60_000,
  );
});
