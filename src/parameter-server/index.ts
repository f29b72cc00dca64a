/** @module What reacts to arrivals: server devices and the parameter server. */
export { type HandlerFunction, ServerDevice } from "./device.ts";
export {
  type Applied,
  type ParameterServerOptions,
  type ParameterServerResult,
  replayOnServer,
  trainOnServer,
} from "./parameter-server.ts";
