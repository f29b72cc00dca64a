/** @module Grids of ranks by time, as text. */
import { range } from "../../ir/shape.ts";
import { formatAction, type Schedule } from "./schedule.ts";

/** A cell of a grid: its text, and whether it is marked as wrong. */
export interface GridCell {
  readonly text: string;
  readonly marked?: boolean;
}

/** Rows of cells under a line of column numbers; marked cells stand between `>` and `<`. */
export function formatGrid(rows: readonly (readonly GridCell[])[]): string {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const texts = rows.map((row) =>
    range(columns).map((column) => {
      const { text, marked = false } = row[column] ?? { text: "." };
      return marked ? `>${text}<` : text;
    }),
  );
  const head = range(columns).map(String);
  const widths = range(columns).map((column) =>
    Math.max((head[column] as string).length, ...texts.map((row) => (row[column] as string).length)),
  );
  const names = rows.map((_row, rank) => `rank ${rank}`);
  const nameWidth = Math.max(4, ...names.map((name) => name.length));
  const line = (name: string, cells: readonly string[]): string =>
    `${name.padEnd(nameWidth)}  ${cells.map((cell, column) => cell.padEnd(widths[column] as number)).join(" ")}`.trimEnd();
  return [line("time", head), ...texts.map((row, rank) => line(names[rank] as string, row))].join("\n");
}

/** The first line of a schedule's text. */
export const scheduleHead = ({ name, stages, microBatches, delay }: Schedule): string =>
  `schedule ${name} stages=${stages} microBatches=${microBatches}${delay === undefined ? "" : ` delay=${delay}`}`;

/** A grid of the order alone, one column per action of a rank, which also exists for a schedule that cannot run. */
export function orderGrid(schedule: Schedule, isMarked: (rank: number, index: number) => boolean): string {
  return formatGrid(
    schedule.ranks.map((actions, rank) =>
      actions.map((action, index) => ({ text: formatAction(action), marked: isMarked(rank, index) })),
    ),
  );
}
