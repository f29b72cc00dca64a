/** @module What happened in a run, as lines of JSON in its folder. */
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const eventsFile = "events.jsonl";

/** One line of the file. */
export interface RunEvent {
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly event: string;
  readonly [field: string]: unknown;
}

/** Writes lines to the folder of a run. A disk that is full or must not be written ends no run. */
export class EventLog {
  private readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  add(event: string, fields: object = {}): void {
    this.attempt(() =>
      appendFileSync(join(this.folder, eventsFile), `${JSON.stringify({ at: Date.now(), event, ...fields })}\n`),
    );
  }

  /** Writes a file of its own. */
  write(name: string, value: object): void {
    this.attempt(() => writeFileSync(join(this.folder, name), `${JSON.stringify(value, null, 2)}\n`));
  }

  private attempt(write: () => void): void {
    try {
      write();
    } catch {
      // The run goes on without its record.
    }
  }
}

/** Reads the lines; those that are malformed, as the last one of a killed launcher may be, are left out. */
export function parseEvents(text: string): RunEvent[] {
  return text.split("\n").flatMap((line) => {
    try {
      const value = JSON.parse(line) as RunEvent;
      return typeof value?.event === "string" && typeof value.at === "number" ? [value] : [];
    } catch {
      return [];
    }
  });
}
