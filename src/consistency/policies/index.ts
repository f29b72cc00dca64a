/** @module The consistency policies, a small file each. */
export * from "./adaptive-ssp.ts";
export * from "./async.ts";
export * from "./backup.ts";
export * from "./bounded-delay.ts";
export * from "./bsp.ts";
export * from "./downpour.ts";
export * from "./dssp.ts";
export * from "./dynsgd.ts";
export * from "./elastic-averaging.ts";
export * from "./mixed.ts";
export * from "./ssp.ts";
export * from "./vap.ts";
