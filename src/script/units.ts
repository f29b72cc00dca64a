/** @module The files of a script: the functions of each, the files that it sources, and those of the library. */
import { existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { textOfFile } from "./files.ts";
import { parseScript } from "./parser.ts";
import { nested, placed } from "./places.ts";
import type { FunctionDefinition, ScriptFile, Statement } from "./syntax.ts";

/** A file whose functions can be called, with the namespaces that it sources. */
export interface Unit {
  readonly file: ScriptFile;
  readonly namespaces: Map<string, Unit>;
}

/** A function, and the file that it stands in. */
export interface Found {
  readonly definition: FunctionDefinition;
  readonly unit: Unit;
}

/** A script's text as a file. @throws HeddleError with file, line and column */
export const unitOf = (source: string, path: string): Unit => ({
  file: nested(path, () => parseScript(source, path)),
  namespaces: new Map(),
});

/** The files that scripts source; each is read once. `folder` is the one to which the script's paths are relative now. */
export class Units {
  private readonly library: readonly string[];
  private readonly sourced = new Map<string, Unit>();
  private readonly ofLibrary = new Map<string, Unit | undefined>();

  /** @param library folders of DML functions @throws HeddleError `file` for what is not a folder */
  constructor(library: readonly string[]) {
    this.library = library;
    for (const folder of library)
      if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
        throw new HeddleError("file", `the library ${folder} is not a folder`, {
          hint: "--library, or HEDDLE_DML_LIBRARY, names folders of DML functions",
        });
  }

  /** Makes the functions of a sourced file those of a namespace. @throws HeddleError `file` where there is none */
  source(unit: Unit, { path, as }: Statement & { readonly kind: "source" }, folder: string): void {
    unit.namespaces.set(as, this.read(this.find(path, unit.file.path, folder), folder));
  }

  /** Sources what a file sources, and runs nothing else of it. */
  sourceAll(unit: Unit, folder: string): void {
    for (const statement of unit.file.body)
      if (statement.kind === "source") placed(statement.at, () => this.source(unit, statement, folder));
  }

  /** A function of the library: `m_f`, `f_f`, `s_f` or `f` of the file `f.dml`. */
  inLibrary(name: string, folder: string): Found | undefined {
    const plain = name.replace(/^[mfs]_/, "");
    if (!this.ofLibrary.has(plain)) {
      const path = this.library.map((one) => resolve(one, `${plain}.dml`)).find(existsSync);
      this.ofLibrary.set(plain, path === undefined ? undefined : this.read(path, folder));
    }
    const unit = this.ofLibrary.get(plain);
    const definition = ["m_", "f_", "s_", ""].map((kind) => unit?.file.functions.get(kind + plain)).find(Boolean);
    return unit === undefined || definition === undefined ? undefined : { definition, unit };
  }

  private read(path: string, folder: string): Unit {
    const known = this.sourced.get(path);
    if (known !== undefined) return known;
    const unit = unitOf(textOfFile("source", path), path);
    // Before its own files are read, which may source this one.
    this.sourced.set(path, unit);
    this.sourceAll(unit, folder);
    return unit;
  }

  /** A sourced file: below the folder, below the file that sources it, or below a folder around either or the library. */
  private find(path: string, from: string, folder: string): string {
    const starts = new Set([folder, dirname(resolve(folder, from)), ...this.library.map((one) => resolve(one))]);
    for (const start of starts)
      for (let around = start; ; around = dirname(around)) {
        const candidate = resolve(around, path);
        if (existsSync(candidate)) return candidate;
        if (dirname(around) === around) break;
      }
    throw new HeddleError(
      "file",
      `source: there is no file ${path} in ${[...starts].join(", ")} or a folder around ${starts.size === 1 ? "it" : "them"}`,
    );
  }
}
