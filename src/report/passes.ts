/** @module The effects of passes, as text. */

import { type PassReport, passesAfterPlanning, passesBeforePlanning } from "../compile/passes.ts";
import type { Graph } from "../ir/node.ts";
import { printGraph } from "../ir/print.ts";
import { topological } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";
import { formatCount, formatTable, listed } from "../util/text.ts";

const countNodes = (graphs: readonly Graph[]): number =>
  graphs.reduce((total, graph) => total + topological(graph.outputs).length, 0);

/** A table of the passes of a compile, in order: time, nodes before and after, and which rules were used how often. */
export function passesText(reports: readonly PassReport[]): string {
  const rows = (when: string, passes: readonly { readonly name: string }[]): string[][] =>
    passes.map(({ name }) => {
      const ofPass = reports.filter((report) => report.name === name);
      const uses = new Map<string, number>();
      for (const { trace } of ofPass)
        for (const [rule, count] of trace.counts()) uses.set(rule, (uses.get(rule) ?? 0) + count);
      return [
        name,
        when,
        `${ofPass.reduce((total, { milliseconds }) => total + milliseconds, 0).toFixed(1)} ms`,
        formatCount(countNodes(ofPass.map(({ before }) => before))),
        formatCount(countNodes(ofPass.map(({ after }) => after))),
        listed([...uses].map(([rule, count]) => `${rule} ${count}`)),
      ];
    });
  const table = [
    ["pass", "", "time", "nodes", "after", "uses of rules"],
    ...rows("before planning", passesBeforePlanning),
    ...rows("after planning", passesAfterPlanning),
  ];
  return `${formatTable(table, [2, 3, 4]).join("\n")}\n`;
}

/**
 * The graphs after a pass, bodies of loops first; after a pass that follows planning, the graphs of every class of
 * devices.
 *
 * @throws HeddleError `option` where there is no such pass
 */
export function graphsAfter(name: string, reports: readonly PassReport[]): string {
  const ofPass = reports.filter((report) => report.name === name);
  if (ofPass.length > 0) return ofPass.map(({ after }) => printGraph(after)).join("\n");
  const names = [...passesBeforePlanning, ...passesAfterPlanning].map((pass) => pass.name);
  throw new HeddleError("option", `there is no pass '${name}'`, { hint: `passes are ${listed(names)}` });
}
