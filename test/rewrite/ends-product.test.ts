/**
 * Rules come to an end, over the product that `ends.test.ts` takes samples of: every row of the op table among convolutions
 * that bring in every order of one, two and three spatial dims. Nothing is run: each use of a rule is checked to lower its order.
 * `npm run test:grids` takes the whole product; `npm run test:processes` a tenth of the orders of three dims, in turns for the rows of an op.
 */
import { describe, expect, inject, it } from "vitest";
import { type PassReport, passesBeforePlanning, runPasses } from "../../src/compile/index.ts";
import type { Graph } from "../../src/ir/node.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { baseRows } from "../ops/table.ts";
import { amongConvolutions, layoutOrders, layouts, network } from "./layouts.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Each that many of the orders of three spatial dims is taken. */
    step: number;
  }
}

// 120 orders of three spatial dims for each row.
const manyMinutes = 30 * 60_000;
const steps = (spatial: number): number => (spatial === 3 ? inject("step") : 1);

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
          if (other % steps(spatial) > 0) continue;
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
    expect(faults(layouts(2))).toEqual([]);
  });

  it("on networks of every pair of orders, of three spatial dims", { timeout: manyMinutes }, () => {
    const { images, kernels } = layoutOrders(3);
    // A Latin square: each kernel with each image and with each result.
    const pairs = images.flatMap((image, i) =>
      images.flatMap((out, j) => ((i + j) % inject("step") > 0 ? [] : [`${image},${at(kernels, i + j)}->${out}`])),
    );
    expect(faults(pairs)).toEqual([]);
  });
});
