/** @module Filters of messages between workers and servers: small composable objects with an end at each side. */
export * from "./changed.ts";
export * from "./codec.ts";
export {
  bytesOf,
  chain,
  type Filter,
  type FilterGiven,
  type FilterReceiver,
  type FilterSender,
  filterKinds,
  filterNamed,
  type Message,
  type Note,
  type Part,
  registerFilter,
  type Values,
  wholePart,
} from "./filter.ts";
export * from "./fixed-point.ts";
export * from "./key-caching.ts";
export * from "./kkt.ts";
export * from "./lossless.ts";
export { randomSkip } from "./random-skip.ts";
export * from "./significant.ts";
