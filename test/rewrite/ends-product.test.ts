/**
 * Rules come to an end, over the product that `ends.test.ts` takes samples of: every row of the op table among convolutions
 * that bring in every order of one, two and three spatial dims. Nothing is run: each use of a rule is checked to lower its order.
 * `npm run test:grids` takes the whole product; `npm run test:processes` a part of the orders, in turns for the rows of an op.
 */
import { describe, expect, it } from "vitest";
import { type PassReport, passesBeforePlanning, runPasses } from "../../src/compile/index.ts";
import type { Graph } from "../../src/ir/node.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { baseRows } from "../ops/table.ts";
import { isWhole, partOf } from "../support/sample.ts";
import { amongConvolutions, layoutOrders, layouts, network } from "./layouts.ts";

// 120 orders of three spatial dims for each row.
const manyMinutes = 30 * 60_000;
/** Each that many of the orders is taken where a part is run. */
const steps: { readonly [spatial: number]: number } = { 1: 6, 2: 24, 3: 60 };
/** Networks of two spatial dims where a part is run, of 13,824. */
const networks = 1000;

/** Whether a transpose was moved; as text, why the passes do not end on a graph or leave one that is malformed. */
function outcome(graph: Graph): boolean | string {
  let moved = false;
  const onPass = ({ trace }: PassReport): void => {
    moved ||= trace.firings.some(({ rule }) => rule.startsWith("transpose "));
  };
  try {
    runPasses(graph, passesBeforePlanning, { check: true, onPass });
  } catch (error) {
    if (error instanceof HeddleError) return error.message;
    throw error;
  }
  return moved;
}

/** The layouts on whose networks the passes do not end, and why. */
const faults = (all: readonly string[]): string[] =>
  all.flatMap((layout) => {
    const found = outcome(network(layout));
    return typeof found === "string" ? [`${layout}: ${found}`] : [];
  });

const at = (list: readonly string[], index: number): string => list[index % list.length] as string;

describe("passes come to an end", () => {
  // What a row sees of a convolution before it is the order of its result, of one behind it that of its image; the others, which
  // end at inputs of the graph, take turns such that each pair of orders comes by.
  it.each([1, 2, 3])(
    "on every op between convolutions of every order, of %i spatial dims",
    (spatial) => {
      const { images, kernels } = layoutOrders(spatial);
      const wrong: string[] = [];
      let moved = 0;
      for (const [order, own] of images.entries())
        for (const [index, row] of baseRows.entries()) {
          const other = order + index;
          if (!isWhole() && other % (steps[spatial] as number) > 0) continue;
          const layout = `${at(images, other)},${at(kernels, other + order)}->${own}`;
          const into = `${own},${at(kernels, other)}->${at(images, other + order)}`;
          const found = outcome(amongConvolutions(row, layout, into));
          if (typeof found === "string") wrong.push(`${row.op}, ${row.title}, ${layout}, ${into}: ${found}`);
          else if (found) moved++;
        }
      expect(wrong).toEqual([]);
      expect(moved).toBeGreaterThan(images.length);
    },
    manyMinutes,
  );

  it("on networks of every layout, of two spatial dims", { timeout: manyMinutes }, () => {
    expect(faults(layouts(2, isWhole() ? undefined : networks))).toEqual([]);
  });

  it("on networks of every pair of orders, of three spatial dims", { timeout: manyMinutes }, () => {
    const { images, kernels } = layoutOrders(3);
    // A Latin square: each kernel with each image and with each result.
    const pairs = images.flatMap((image, i) =>
      partOf(images, 40, i).map((out) => `${image},${at(kernels, i + images.indexOf(out))}->${out}`),
    );
    expect(faults(pairs)).toEqual([]);
  });
});
