/**
 * Rules come to an end, over the whole product that `ends.test.ts` takes samples of: every row of the op table among convolutions
 * that bring in every order of one, two and three spatial dims. Nothing is run: each use of a rule is checked to lower its order.
 */
import { describe, expect, it } from "vitest";
import { passesBeforePlanning, runPasses } from "../../src/compile/index.ts";
import type { Graph } from "../../src/ir/node.ts";
import { HeddleError } from "../../src/util/errors.ts";
import { baseRows } from "../ops/table.ts";
import { amongConvolutions, layoutOrders, layouts, network } from "./layouts.ts";

// 120 orders of three spatial dims for each row.
const manyMinutes = 30 * 60_000;

/** Why the passes do not end on a graph, or leave one that is malformed; undefined where all is well. */
function fault(graph: Graph): string | undefined {
  try {
    runPasses(graph, passesBeforePlanning, { check: true });
  } catch (error) {
    if (error instanceof HeddleError) return error.message;
    throw error;
  }
  return undefined;
}

const at = (list: readonly string[], index: number): string => list[index % list.length] as string;

describe("passes come to an end", () => {
  // What a row sees of a convolution before it is the order of its result, of one behind it that of its image; the others, which
  // end at inputs of the graph, take turns such that each pair of orders comes by.
  it.each([1, 2, 3])(
    "on every op between convolutions of every order, of %i spatial dims",
    (spatial) => {
      const { images, kernels } = layoutOrders(spatial);
      const wrong: string[] = [];
      for (const [order, own] of images.entries())
        for (const [index, row] of baseRows.entries()) {
          const other = order + index;
          const layout = `${at(images, other)},${at(kernels, other + order)}->${own}`;
          const into = `${own},${at(kernels, other)}->${at(images, other + order)}`;
          const told = fault(amongConvolutions(row, layout, into));
          if (told !== undefined) wrong.push(`${row.op}, ${row.title}, ${layout}, ${into}: ${told}`);
        }
      expect(wrong).toEqual([]);
    },
    manyMinutes,
  );

  it("on networks of every layout, of two spatial dims", { timeout: manyMinutes }, () => {
    expect(layouts(2).flatMap((layout) => fault(network(layout)) ?? [])).toEqual([]);
  });

  it("on networks of every pair of orders, of three spatial dims", { timeout: manyMinutes }, () => {
    const { images, kernels } = layoutOrders(3);
    // A Latin square: each kernel with each image and with each result.
    const pairs = images.flatMap((image, i) => images.map((out, j) => `${image},${at(kernels, i + j)}->${out}`));
    expect(pairs.flatMap((layout) => fault(network(layout)) ?? [])).toEqual([]);
  });
});
