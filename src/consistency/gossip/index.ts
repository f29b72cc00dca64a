/** @module Training without a server: topologies, and who mixes with whom. */
export { type Pair, PairAverages } from "./ad-psgd.ts";
export { type Mix, NeighbourSteps } from "./d-psgd.ts";
export { type GossipOptions, type GossipResult, simulateGossip } from "./simulation.ts";
export { complete, exponential, fromEdges, ring, spectralGap, type Topology, torus } from "./topology.ts";
