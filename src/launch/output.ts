/** @module Output of several workers on one terminal: whole lines, each with its rank in front. */

import type { Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import pc from "picocolors";

const colors = ["cyan", "magenta", "yellow", "green", "blue", "red"] as const;

/** `[rank 1] `, in the rank's color if the target is a terminal. */
export function rankPrefix(rank: number, target: Writable): string {
  const label = `[rank ${rank}]`;
  const color = colors[rank % colors.length] ?? "cyan";
  return `${pc.createColors(isTerminal(target) && pc.isColorSupported)[color](label)} `;
}

/** Copies `source` to `target` line by line, so that lines of two workers never mix. Resolves when the source ends. */
export function copyLines(source: Readable, target: Writable, prefix: string): Promise<void> {
  const decoder = new StringDecoder("utf8");
  // On a terminal, rank 0 may have left a progress bar on the line; it draws the bar again after this line.
  const clear = isTerminal(target) ? "\r\x1b[K" : "";
  let pending = "";
  const write = (text: string) => {
    // A worker that redraws a line of its own shows as successive lines.
    const lines = (pending + text).split(/\r\n|\n|\r(?!$)/);
    pending = lines.pop() ?? "";
    if (lines.length > 0) target.write(lines.map((line) => `${clear}${prefix}${line}\n`).join(""));
  };
  return new Promise((resolve) => {
    const end = () => {
      write(decoder.end());
      if (pending !== "") target.write(`${clear}${prefix}${pending}\n`);
      pending = "";
      resolve();
    };
    source.on("data", (chunk: Buffer) => write(decoder.write(chunk)));
    source.once("close", end);
    source.once("error", end);
  });
}

function isTerminal(target: Writable): boolean {
  return (target as { readonly isTTY?: boolean }).isTTY === true;
}
