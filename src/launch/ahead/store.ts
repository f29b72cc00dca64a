/** @module Compiled programs on disk: a folder for each, named by its content; the last used ones are kept. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { writeWholeFile } from "../../cache/whole-file.ts";
import type { Compiled } from "./compile.ts";

/** How many programs a cache holds. */
export const mostPrograms = 64;

/** A file of a program. */
export interface ProgramFile extends Compiled {
  /** The user's file. */
  readonly file: string;
  /** The user's files that it imports, by their specifiers. */
  readonly links: ReadonlyMap<string, string>;
}

/** Writes the files of a program; returns the path of the first. */
export function writeProgram(cache: string, files: readonly ProgramFile[]): string {
  const programs = join(cache, "programs");
  const names = new Map(
    files.map(({ file }, index) => [file, `${index}-${basename(file, extname(file)).replace(/[^\w.-]/g, "_")}.mjs`]),
  );
  const texts = files.map((file) => linkedText(file, names));
  // 128 bits: command lines name the folder, and nothing on them is to look like a secret, which has 256.
  const folder = join(programs, createHash("sha256").update(JSON.stringify(texts)).digest("hex").slice(0, 32));
  const isNew = !existsSync(folder);
  mkdirSync(folder, { recursive: true });
  for (const [index, name] of [...names.values()].entries()) keepFile(join(folder, name), texts[index] as string);
  const now = new Date();
  utimesSync(folder, now, now);
  if (isNew) removeOldest(programs);
  return join(folder, [...names.values()][0] as string);
}

/** A file's code with the names of compiled files in its imports. */
function linkedText({ code, imports, links }: ProgramFile, names: ReadonlyMap<string, string>): string {
  let text = "";
  let done = 0;
  for (const { specifier, start, end, attributesEnd } of imports) {
    const link = links.get(specifier);
    if (link === undefined) continue;
    text += `${code.slice(done, start)}./${names.get(link)}`;
    done = end;
    if (attributesEnd === undefined) continue;
    text += code.slice(end, end + 1);
    done = attributesEnd;
  }
  return text + code.slice(done);
}

/** Writes a file unless it is there as it should be. */
function keepFile(file: string, text: string): void {
  if (!existsSync(file) || readFileSync(file, "utf8") !== text) writeWholeFile(file, text);
}

/** Removes the programs that were not used for the longest time; half of them where there are too many. */
function removeOldest(programs: string): void {
  const names = readdirSync(programs);
  if (names.length <= mostPrograms) return;
  const used = names.map((name) => ({
    path: join(programs, name),
    time: statSync(join(programs, name), { throwIfNoEntry: false })?.mtimeMs ?? 0,
  }));
  for (const { path } of used.sort((left, right) => left.time - right.time).slice(0, -mostPrograms / 2))
    rmSync(path, { recursive: true, force: true });
}
