/** @module Classes of devices: devices whose parts have the same shapes and the same neighbours run the same graph. */
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
  /** Indices of the plan's inputs that the graph takes; undefined: all. */
  readonly inputs?: readonly number[];
  /** Indices of the plan's outputs that the graph computes; undefined: all. */
  readonly outputs?: readonly number[];
}

/** The graph of each class of devices, the class of device 0 first. */
export function deviceClasses(plan: OwnedPlan, target: LocalTarget): DeviceClass[] {
  const { mesh } = target;
  const devices = Array.from({ length: deviceCount(mesh) }, (_unused, index) => index);
  const axes = unevenAxes(plan, mesh);
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
  checkSameCollectives(result);
  return result;
}

/** The axes on which some value is split unequally or some device needs a window. */
function unevenAxes(plan: OwnedPlan, mesh: Mesh): Set<number> {
  const axes = new Set<number>();
  const addUnevenAxes = (layout: Layout): void =>
    layout.forEach((placement, axis) => {
      if (placement.kind === "shard" && placement.sizes !== undefined) axes.add(axis);
    });
  const visit = ({ decisions, inputs, outputs }: OwnedPlan): void => {
    for (const layout of [...inputs, ...outputs]) addUnevenAxes(layout);
    for (const decision of decisions.values() as Iterable<Decision>) {
      for (const layout of decision.layouts) addUnevenAxes(layout);
      decision.strategies.forEach(({ inputs: wanted, windows }, axis) => {
        for (const placement of wanted)
          addUnevenAxes(mesh.axes.map((_axis, at) => (at === axis ? placement : { kind: "replicate" })));
        if (windows !== undefined) axes.add(axis);
      });
      for (const owned of decision.owned?.values() ?? []) visit(owned);
    }
  };
  visit(plan);
  return axes;
}

/** The collectives of a graph as text, in order. */
function collectiveTexts(graph: Graph): string[] {
  return topological(graph.outputs).flatMap((node: Node): string[] => {
    const inner = Object.values(node.attrs).filter(isGraph).flatMap(collectiveTexts);
    if (communicationOf(node) === undefined) return inner;
    return [...inner, `${node.op.name} of ${node.inputs.length} on ${node.attrs["axis"]}, ${node.attrs["label"]}`];
  });
}

/** Checks that all devices run the same collectives: otherwise they would wait for ever. */
export function checkSameCollectives([first, ...others]: readonly DeviceClass[]): void {
  const expected = [...collectiveTexts((first as DeviceClass).local)].sort();
  for (const { devices, local } of others) {
    const actual = collectiveTexts(local).sort();
    const differing = expected.findIndex((collective, index) => collective !== actual[index]);
    if (differing < 0 && actual.length === expected.length) continue;
    throw new HeddleError(
      "plan",
      `devices 0 and ${devices[0]} do not run the same collectives: ${expected[differing] ?? "nothing"}, and ${actual[differing < 0 ? expected.length : differing] ?? "nothing"}`,
    );
  }
}
