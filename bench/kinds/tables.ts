/** @module Training of large tables, of which a step looks up few rows. */
import { frequentIds, type Kind, layer } from "./kind.ts";

/** Some rows of a large table, moved towards targets: `mean((table[ids] - targets)^2)`. */
export interface EmbeddingSizes {
  readonly kind: "embedding";
  /** Ids of a step. */
  readonly batch: number;
  readonly rows: number;
  readonly features: number;
}

/** Sums of bags of a large table's rows, a hidden layer with relu, and a number whose logistic loss is taken. */
export interface EmbedSizes {
  readonly kind: "embed";
  /** Bags of a step. */
  readonly batch: number;
  /** Ids of a bag. */
  readonly ids: number;
  readonly rows: number;
  readonly features: number;
  readonly hidden: number;
}

export const embed: Kind<EmbedSizes> = {
  parameters: ({ rows, features, hidden }) => [
    ["table.weight", [rows, features]],
    ...layer("hidden", [hidden, features]),
    ...layer("head", [1, hidden]),
  ],
  inputs: ({ batch }) => [["targets", [batch]]],
  integers: ({ batch, ids }) => [["ids", [batch, ids]]],
  drawIntegers: ({ batch, ids, rows }) => frequentIds(batch * ids, rows),
  value: (uniform) => (uniform < 0.5 ? 0 : 1),
  // The table is the first layer, and has a gradient by the sums.
  flops: ({ batch, features, hidden }) => 6 * batch * hidden * (features + 1),
  /** Ids and targets are read; of the table and Adagrad's sums, the looked-up rows are read and written. */
  bytes: ({ batch, ids, rows, features }) => {
    const distinct = new Set(frequentIds(batch * ids, rows)).size;
    return 4 * (batch * (ids + 1) + 4 * distinct * features);
  },
};

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
