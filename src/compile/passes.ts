/**
 * @module All passes of a compile on one page: those before planning, which see the whole graph, and those after it, which
 * see the graph of one device. What stands between them is the planner (`src/plan`), which decides layouts and formats and
 * changes nothing else.
 */
import "../executors/registered.ts";
import type { Graph } from "../ir/node.ts";
import { verifyGraph } from "../ir/verify.ts";
import { expand, expandOrder } from "../passes/expand.ts";
import { open } from "../passes/open.ts";
import type { GraphPass } from "../passes/pass.ts";
import { prune } from "../passes/prune.ts";
import { residuals } from "../passes/residuals.ts";
import { simplify, simplifyOrder } from "../passes/simplify.ts";
import { type BucketSizes, formBuckets } from "../plan/buckets.ts";
import { arrangeGathers } from "../prefetch/narrow.ts";
import { RewriteTrace } from "../rewrite/index.ts";
import type { Executor } from "../runtime/executor.ts";
import { defaultExecutor } from "../runtime/registry.ts";

/** A pass of this page, which takes settings besides the graph. */
export interface Pass extends Omit<GraphPass, "run"> {
  readonly run: (graph: Graph, trace: RewriteTrace, settings: PassSettings) => Graph;
}

/** Settings of passes. */
export interface PassSettings {
  /** Sizes of buckets; default 1 MiB for the first of an axis and 25 MiB for the others. */
  readonly buckets?: BucketSizes | undefined;
}

/** The passes over every graph before planning, in this order; each has the reason for its position. */
const everyGraph: readonly Pass[] = [
  {
    name: "open",
    why: "remat and custom derivatives are graphs that instruct the transforms, which have run; before prune, which looks into loops",
    run: open,
  },
  {
    name: "prune",
    why: "scans stack their carries for a gradient that may not be requested; early, since removed nodes need no other pass",
    run: prune,
  },
  {
    name: "expand",
    why: "composites without a kernel hide ops from the rules; their named gradients are taken by now",
    order: expandOrder,
    run: expand,
  },
  {
    name: "simplify",
    why: "gradients are written for clarity and leave ones, zeros and transposes behind",
    order: simplifyOrder,
    run: simplify,
  },
  {
    name: "residuals",
    why: "the gradient of a scan computes the iterations again; after simplify, which writes both computations alike",
    run: residuals,
  },
];

/** The passes after planning, over the graph of each class of devices and over each body of its loops and branches. */
const everyDevice: readonly Pass[] = [
  {
    name: "gathers",
    why: "a parameter that is gathered for two users near each other is gathered once; before buckets, which label each collective",
    run: arrangeGathers,
  },
  {
    name: "buckets",
    why: "few large messages are faster than many small ones; before touchedRows, which adds no collectives",
    run: (graph, _trace, { buckets }) => formBuckets(graph, buckets),
  },
];

/** All passes of a compile for an executor, default the first registered executor: the common passes, then the executor's. */
export function passesFor({ passes = {} }: Pick<Executor, "passes"> = defaultExecutor()): {
  readonly before: readonly Pass[];
  readonly after: readonly Pass[];
} {
  return {
    before: [...everyGraph, ...(passes.beforePlanning ?? [])],
    after: [...everyDevice, ...(passes.afterPlanning ?? [])],
  };
}

const byDefault = passesFor();

/** The passes before planning of the default executor. */
export const passesBeforePlanning = byDefault.before;

/** The passes after planning of the default executor. */
export const passesAfterPlanning = byDefault.after;

/** The report of one pass. */
export interface PassReport {
  readonly name: string;
  readonly milliseconds: number;
  readonly before: Graph;
  readonly after: Graph;
  readonly trace: RewriteTrace;
}

/** Options of {@link runPasses}. */
export interface PassOptions extends PassSettings {
  /** Names of passes to leave out. */
  readonly skip?: readonly string[] | undefined;
  /**
   * Whether each use of a rule is checked to lower the order of its pass, as in tests; a user's rules have no order.
   */
  readonly check?: boolean | undefined;
  /** Called after each pass, in order. */
  readonly onPass?: ((report: PassReport) => void) | undefined;
}

/**
 * Runs passes in order (default: those before planning); a graph that a pass has changed is verified.
 *
 * @throws HeddleError `rewrite` naming a rule that does not lower its order; `verify` where a pass has returned a
 * malformed graph.
 */
export function runPasses(
  graph: Graph,
  passes: readonly Pass[] = passesBeforePlanning,
  { skip, check, onPass, ...settings }: PassOptions = {},
): Graph {
  let current = graph;
  for (const { name, order, run } of passes) {
    if (skip?.includes(name)) continue;
    const trace = new RewriteTrace(check === true ? order : undefined);
    const before = current;
    const start = performance.now();
    current = run(before, trace, settings);
    const milliseconds = performance.now() - start;
    if (current !== before) verifyGraph(current);
    onPass?.({ name, milliseconds, before, after: current, trace });
  }
  return current;
}
