/** @module What reacts to arrivals: server devices and the parameter server. */
export { type Bytes, ServerClient } from "./client.ts";
export { type HandlerFunction, ServerDevice } from "./device.ts";
export {
  type Applied,
  type ParameterServerOptions,
  type ParameterServerResult,
  replayOnServer,
  trainOnServer,
} from "./parameter-server.ts";
export { type ParameterServer, type ServerOptions, serveParameters } from "./server.ts";
export { bytesOfPieces, type Shard, shardsOf } from "./shards.ts";
