/** @module Training of large tables, of which a step looks up few rows. */
import { frequentIds, type Kind } from "./kind.ts";

/** Some rows of a large table, moved towards targets: `mean((table[ids] - targets)^2)`. */
export interface EmbeddingSizes {
  readonly kind: "embedding";
  /** Ids of a step. */
  readonly batch: number;
  readonly rows: number;
  readonly features: number;
}

export const embedding: Kind<EmbeddingSizes> = {
  parameters: ({ rows, features }) => [["0.weight", [rows, features]]],
  inputs: ({ batch, features }) => [["targets", [batch, features]]],
  integers: ({ batch }) => [["ids", [batch]]],
  drawIntegers: ({ batch, rows }) => frequentIds(batch, rows),
  /** Only the looked-up rows of the table count. */
  bytes: ({ batch, rows, features }) => {
    const distinct = new Set(frequentIds(batch, rows)).size;
    return 4 * (batch * (features + 1) + 2 * distinct * features);
  },
};
