/** @module Parameter servers: what keeps parameters and their update rule for the workers of a training, and the links to it. */
export { type Bytes, ServerClient, splitState, stateOf } from "./client.ts";
export { type ParameterServer, type ServerOptions, serveParameters } from "./server.ts";
export { ShardState } from "./shard-state.ts";
export { bytesOfPieces, type Shard, shardsOf } from "./shards.ts";
export { parseUpdateLog, type UpdateLog, updateLogFile } from "./update-log.ts";
