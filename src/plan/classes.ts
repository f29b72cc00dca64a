/** @module Classes of devices: those whose parts have the same shapes and the same neighbours run the same graph. */
import { communicationOf } from "../ir/communication.ts";
import type { Graph, Node } from "../ir/node.ts";
import { printGraph } from "../ir/print.ts";
import { isGraph } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";
import type { Decision, OwnedPlan } from "./decision.ts";
import type { Layout } from "./layout.ts";
import { type LocalTarget, localGraph } from "./localize.ts";
import { coordinatesOf, deviceCount, type Mesh } from "./mesh.ts";

/** Devices that run the same graph. */
export interface DeviceClass {
  /** Numbers of the devices, ascending. */
  readonly devices: readonly number[];
  readonly local: Graph;
  /** Indices of the plan's inputs that the graph takes, where those are not all; the same of its outputs. */
  readonly inputs?: readonly number[];
  readonly outputs?: readonly number[];
}

/** The graph of each class of devices, that of device 0 first. */
export function deviceClasses(plan: OwnedPlan, target: LocalTarget): DeviceClass[] {
  const { mesh } = target;
  const devices = Array.from({ length: deviceCount(mesh) }, (_unused, index) => index);
  const axes = unlikeAxes(plan, mesh);
  if (axes.size === 0) return [{ devices, local: localGraph(plan, target) }];
  const byPlace = new Map<string, Graph>();
  const classes = new Map<string, { devices: number[]; local: Graph }>();
  for (const device of devices) {
    const coordinates = coordinatesOf(mesh, device);
    const key = [...axes].map((axis) => coordinates[axis]).join();
    const local = byPlace.get(key) ?? localGraph(plan, { ...target, coordinates });
    byPlace.set(key, local);
    const text = printGraph(local);
    const known = classes.get(text);
    if (known === undefined) classes.set(text, { devices: [device], local });
    else known.devices.push(device);
  }
  const result = [...classes.values()];
  checkTogether(result);
  return result;
}

/** The axes on which some value is dealt out unequally or some device needs a window. */
function unlikeAxes(plan: OwnedPlan, mesh: Mesh): Set<number> {
  const axes = new Set<number>();
  const look = (layout: Layout): void =>
    layout.forEach((placement, axis) => {
      if (placement.kind === "shard" && placement.sizes !== undefined) axes.add(axis);
    });
  const within = ({ decisions, inputs, outputs }: OwnedPlan): void => {
    for (const layout of [...inputs, ...outputs]) look(layout);
    for (const decision of decisions.values() as Iterable<Decision>) {
      for (const layout of decision.layouts) look(layout);
      decision.strategies.forEach(({ inputs: wanted, windows }, axis) => {
        for (const placement of wanted)
          look(mesh.axes.map((_axis, at) => (at === axis ? placement : { kind: "replicate" })));
        if (windows !== undefined) axes.add(axis);
      });
      for (const owned of decision.owned?.values() ?? []) within(owned);
    }
  };
  within(plan);
  return axes;
}

/** What a graph does together with other devices, in order. */
function meetings(graph: Graph): string[] {
  return topological(graph.outputs).flatMap((node: Node): string[] => {
    const inner = Object.values(node.attrs).filter(isGraph).flatMap(meetings);
    if (communicationOf(node) === undefined) return inner;
    return [...inner, `${node.op.name} of ${node.inputs.length} on ${node.attrs["axis"]}, ${node.attrs["label"]}`];
  });
}

/** Devices that met in different collectives would wait for ever. */
function checkTogether([first, ...others]: readonly DeviceClass[]): void {
  const expected = [...meetings((first as DeviceClass).local)].sort();
  for (const { devices, local } of others) {
    const found = meetings(local).sort();
    const at = expected.findIndex((one, index) => one !== found[index]);
    if (at < 0 && found.length === expected.length) continue;
    throw new HeddleError(
      "plan",
      `devices 0 and ${devices[0]} do not meet in the same collectives: ${expected[at] ?? "nothing"}, and ${found[at < 0 ? expected.length : at] ?? "nothing"}`,
    );
  }
}
