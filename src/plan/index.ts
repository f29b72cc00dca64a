/** @module Planning: meshes, layouts, and the graph that each device runs. */
export { type BucketSizes, defaultBuckets } from "./buckets.ts";
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
  replicate,
  replicated,
  sameLayout,
  shard,
  shardedOn,
} from "./layout.ts";
export { type CollectiveName, collectiveSeconds, collectiveTraffic, defaultMachine, type Machine } from "./machine.ts";
export {
  axisGroup,
  coordinatesOf,
  deviceCount,
  formatMesh,
  type Mesh,
  type MeshAxis,
  mesh,
  parseMesh,
} from "./mesh.ts";
export * from "./pipeline/index.ts";
export {
  collectivesOf,
  type Plan,
  type PlannedValue,
  type PlanOptions,
  planGraph,
  type Traffic,
  trafficOf,
  verifyPlan,
} from "./plan.ts";
export { parsePlan, printPlan } from "./print.ts";
export { cheapestPath, type Path, type Transition } from "./redistribute.ts";
export { formatStrategy, type Strategy, strategiesOf } from "./strategy.ts";
