import { describe, test } from "vitest";
import { narrowRows } from "../ops/rows/narrow.ts";
import { narrowConvRows } from "../ops/rows/narrow-conv.ts";
import { narrowWeightRows } from "../ops/rows/narrow-weights.ts";
import { instructionSets, missing, narrowSets } from "./evaluate.ts";
import { testTable } from "./table.ts";

describe.skipIf(missing !== undefined)("the whole table on the instruction sets that are not the best", () => {
  const others = instructionSets().slice(1);
  test.skipIf(others.length > 0)("this processor has but one", () => undefined);
  for (const isa of others) testTable(isa, 2, true);
  for (const isa of narrowSets()) testTable(isa, 2, true, [...narrowRows, ...narrowConvRows, ...narrowWeightRows]);
});
