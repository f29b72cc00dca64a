/** @module Files that other processes see whole or not at all. */
import { randomUUID } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";

/** Writes a file beside its place, and then moves it there. @throws what the system refuses; nothing is left then */
export function writeWholeFile(file: string, content: string | Uint8Array): void {
  const temporary = `${file}.${randomUUID()}`;
  try {
    writeFileSync(temporary, content);
    renameSync(temporary, file);
  } finally {
    rmSync(temporary, { force: true });
  }
}
