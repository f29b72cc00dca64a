/** @module What reacts to arrivals: server devices, consistency policies, time for testing them. */
export { type Grant, StaleSynchronous } from "./consistency.ts";
export { type HandlerFunction, ServerDevice } from "./device.ts";
export {
  type Applied,
  type ParameterServerOptions,
  type ParameterServerResult,
  replayOnServer,
  trainOnServer,
} from "./parameter-server.ts";
export { VirtualTime } from "./virtual-time.ts";
