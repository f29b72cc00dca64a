/** @module The consistency policies, a small file each. */
export * from "./async.ts";
export * from "./bsp.ts";
export * from "./ssp.ts";
