// The library for Node in a few files: Node takes about half a second to load the modules of dist one by one, and more where a
// loader of TypeScript looks at each. `bundle(folder)` writes them into `<folder>/node`: an entry for each export of package.json,
// the command, and the modules that Node loads by their own name into a worker. Only Node itself takes them, by the condition
// "node-addons"; browsers and bundlers take the single modules.

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

// Entries and what they share stand in one folder: a path relative to a module is the same in all of them.
const output = "node";

/** Modules that Node loads by their own name: into a worker, or for one command. */
const loadedByName = (folder) => [
  ...readdirSync(join(folder, "launch"))
    .filter((name) => /^(library|typescript|preload|module-hooks|autograph-.*)\.js$/.test(name))
    .map((name) => join("launch", name)),
  "cli/machine-steps.js",
  "cli/bench-steps.js",
];

/** Entries by name: the file of `dist` in it, relative to `dist`. */
function entriesOf(exports, folder) {
  const entries = { cli: "cli/main.js" };
  for (const file of loadedByName(folder)) entries[basename(file, ".js")] = file;
  for (const conditions of Object.values(exports)) {
    if (typeof conditions === "string") continue;
    entries[basename(conditions["node-addons"], ".js")] = conditions.default.slice("./dist/".length);
  }
  return entries;
}

/**
 * Bundling renames a function where two modules have one of its name. Users see names, of activation functions and classes for
 * example, so each module sets those of its own at its end.
 */
const named = (parse) => ({
  name: "names",
  setup(build) {
    build.onLoad({ filter: /\.js$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      const names = parse(text, { sourceType: "module" }).program.body.flatMap(namesOf);
      return { contents: `${text}\nheddleNames({ ${names.join(", ")} });\n`, loader: "js" };
    });
  },
});

/** Names of the functions and classes that a statement of a module declares. */
function namesOf(statement) {
  const declaration = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
  if (/^(Function|Class)Declaration$/.test(declaration?.type)) return [declaration.id.name];
  if (declaration?.type !== "VariableDeclaration") return [];
  const made = ({ init }) => /^(ArrowFunction|Function|Class)Expression$/.test(init?.type);
  return declaration.declarations.filter(made).map(({ id }) => id.name);
}

const setNames = `function heddleNames(functions) {
  for (const [name, value] of Object.entries(functions))
    if (typeof value === "function" && value.name !== name) Object.defineProperty(value, "name", { value: name, configurable: true });
}`;

const root = fileURLToPath(new URL("..", import.meta.url));
const require = createRequire(import.meta.url);

/** Whether a package is CommonJS alone. */
function isCommonJs(name) {
  const { type, module } = JSON.parse(readFileSync(join(root, "node_modules", name, "package.json"), "utf8"));
  return type !== "module" && module === undefined;
}

const namesIn = (module) => Object.keys(module).filter((name) => name !== "default");

/** Node reads the whole text of an imported CommonJS package for the names of its exports, which takes longer than running it. */
const required = (names) => ({
  name: "required",
  setup(build) {
    const all = new RegExp(`^(${names.join("|").replaceAll("/", "\\/")})$`);
    build.onResolve({ filter: all }, ({ path }) => ({ path, namespace: "required" }));
    build.onLoad({ filter: all, namespace: "required" }, ({ path }) => ({
      contents: `
        import { createRequire } from "node:module";
        const required = createRequire(import.meta.url)("${path}");
        export default required;
        export const { ${namesIn(require(path)).join(", ")} } = required;`,
    }));
  },
});

/** Bundles the compiled modules of `folder` into `<folder>/node`, with the exports of the package's manifest. */
export async function bundle(folder, { exports, dependencies }) {
  // Here, since a fresh clone has no packages when this file is loaded.
  const [{ build }, { parse }] = await Promise.all([import("esbuild"), import("@babel/parser")]);
  const entries = entriesOf(exports, folder);
  await build({
    entryPoints: Object.fromEntries(Object.entries(entries).map(([name, file]) => [name, join(folder, file)])),
    outdir: join(folder, output),
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20.17",
    packages: "external",
    // A quarter smaller; the modules of dist are there to be read.
    minifyWhitespace: true,
    // The fields of package.json are about dist, which is built in another folder.
    ignoreAnnotations: true,
    banner: { js: setNames },
    plugins: [required(Object.keys(dependencies).filter(isCommonJs)), named(parse)],
    logLevel: "error",
  });
}
