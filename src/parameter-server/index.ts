/** @module Parameter servers: what keeps parameters and their update rule for the workers of a training, and the links to it. */
export { type Bytes, type ClientOptions, type RunStatistics, ServerClient, type Traffic } from "./client.ts";
export type { Begun, Statistics, WorkerStatistics } from "./coordinator.ts";
export type { Rule } from "./requests.ts";
export type { UpdatedTypes } from "./rules.ts";
export { type ParameterServer, type ServerOptions, serveParameters } from "./server.ts";
export { type Piece, type Shard, shardsOf } from "./shards.ts";
export type { InitialRows } from "./tables/initial-rows.ts";
export type { RowList, Rows } from "./tables/row-lists.ts";
export {
  type RowSlot,
  type TableLimits,
  type TableShape,
  type TableSpec,
  tableFor,
} from "./tables/table-spec.ts";
