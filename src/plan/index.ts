/** @module Planning: meshes, layouts, and the graph that each device runs. */
export { collectiveSeconds, type Link, type Machine, machineFor, type Traffic } from "../cost/index.ts";
export { type BucketSizes, defaultBuckets, formBuckets } from "./buckets.ts";
export type { DeviceClass } from "./classes.ts";
export type { Hints, Strategy, Windowed } from "./decision.ts";
export type { ValueFormat } from "./formats.ts";
export {
  formatLayout,
  formatPlacement,
  type Layout,
  localType,
  only,
  type Placement,
  parseLayout,
  parsePlacement,
  partial,
  partStart,
  replicate,
  replicated,
  resolved,
  sameLayout,
  shard,
  shardedOn,
  withPlacement,
} from "./layout.ts";
export {
  coordinatesOf,
  deviceAt,
  deviceCount,
  formatMesh,
  type Mesh,
  type MeshAxis,
  type MeshOptions,
  mesh,
  parseMesh,
} from "./mesh.ts";
export { parseAnyPlan, parseLayouts, parsePlan } from "./parse.ts";
export { dealt, type Interval, intervals, proportional, type Sizes, sizesOn } from "./partition.ts";
export * from "./pipeline/index.ts";
export {
  collectivesOf,
  type Plan,
  type PlanLayouts,
  type PlannedPipeline,
  type PlannedValue,
  type PlanOptions,
  planGraph,
  trafficOf,
  verifyPlan,
} from "./plan.ts";
export { printLayouts, printPlan } from "./print.ts";
export { cheapestPath, type Path, type Transition } from "./redistribute.ts";
export { strategiesOf } from "./strategy.ts";
