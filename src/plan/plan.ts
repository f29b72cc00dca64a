/** @module Plans: a graph with a layout for every value, and the graph of one device that follows from it. */

import { costOfTasks, type Machine, machineFor, type Traffic, tasksOf } from "../cost/index.ts";
import { communicationOf } from "../ir/communication.ts";
import { inputSpecs, mapGraph } from "../ir/graph.ts";
import { type Attrs, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { sameType, type TensorType } from "../ir/shape.ts";
import { apply, isGraph } from "../ir/trace.ts";
import { verifyGraph } from "../ir/verify.ts";
import { nodesWithin } from "../ir/walk.ts";
import { expandNode } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { type BucketSizes, defaultBuckets } from "./buckets.ts";
import { type DeviceClass, deviceClasses } from "./classes.ts";
import type { Decision } from "./decision.ts";
import { decideFormats, type ValueFormat } from "./formats.ts";
import { formatLayout, type Layout, localType, replicate, replicated, resolved } from "./layout.ts";
import { coordinatesOf, deviceCount, formatMesh, type Mesh } from "./mesh.ts";
import { propagate } from "./propagate.ts";

/** An input or output of a plan: its global type and its layout. */
export interface PlannedValue {
  readonly name: string;
  readonly type: TensorType;
  readonly layout: Layout;
}

/** Where every value lives. `local` is the graph that device 0 runs; collectives are nodes in it. */
export interface Plan {
  readonly name: string;
  readonly mesh: Mesh;
  readonly inputs: readonly PlannedValue[];
  readonly outputs: readonly PlannedValue[];
  /** Of the matrices that are given by entries. */
  readonly formats: readonly ValueFormat[];
  readonly local: Graph;
  /** The graphs of all devices: one class where all parts are alike. */
  readonly classes: readonly DeviceClass[];
}

export interface PlanOptions {
  /** Layout of each input; undefined: replicated. */
  readonly inputs?: readonly (Layout | undefined)[];
  /**
   * Layout in which each input is used, where that is another than it is kept in: it is changed for each use anew, so
   * that what is gathered lives only as long as one op needs it (fully sharded training, Rajbhandari et al., "ZeRO",
   * 2020). Undefined: as it is kept.
   */
  readonly uses?: readonly (Layout | undefined)[];
  /** Layout wanted for each output; undefined: as it comes, but never `Partial`. */
  readonly outputs?: readonly (Layout | undefined)[];
  readonly outputNames?: readonly string[];
  readonly machine?: Machine | undefined;
  readonly buckets?: BucketSizes;
}

/**
 * Plans a graph on a mesh. Pure: the same inputs give the same plan; no device is needed.
 *
 * @throws HeddleError `layout` when a given layout does not fit its value.
 */
export function planGraph(source: Graph, mesh: Mesh, options: PlanOptions = {}): Plan {
  const machine = machineFor(deviceCount(mesh), options.machine);
  const formatted = decideFormats(source, machine);
  const graph = expandUnplannable(formatted.graph);
  const specs = inputSpecs(graph);
  const inputs = specs.map(({ name, type }, index): PlannedValue => {
    const layout = resolvedLayout(type, options.inputs?.[index] ?? replicated(mesh), mesh);
    checkLayout(`input '${name}'`, type, layout, mesh);
    return { name, type, layout };
  });
  const uses = inputs.map(({ name, type, layout }, index) => {
    const use = resolvedLayout(type, options.uses?.[index] ?? layout, mesh);
    checkLayout(`input '${name}' in use`, type, use, mesh);
    return use;
  });
  const wanted = graph.outputs.map(({ types }, index): Layout | undefined => {
    const layout = options.outputs?.[index];
    return layout === undefined ? undefined : resolvedLayout(types[0] as TensorType, layout, mesh);
  });
  const decisions = propagate(graph, uses, wanted, { mesh, machine });
  const outputs = graph.outputs.map((node, index): PlannedValue => {
    const type = node.types[0] as TensorType;
    const name = options.outputNames?.[index] ?? `out${index}`;
    const own = (decisions.get(node) as Decision).layouts[0] as Layout;
    const layout = wanted[index] ?? own.map((placement) => (placement.kind === "partial" ? replicate : placement));
    checkLayout(`output '${name}'`, type, layout, mesh);
    return { name, type, layout };
  });
  const layouts = (values: readonly PlannedValue[]): Layout[] => values.map(({ layout }) => layout);
  const classes = deviceClasses(
    { graph, decisions, inputs: layouts(inputs), outputs: layouts(outputs) },
    { mesh, machine, buckets: options.buckets ?? defaultBuckets },
  );
  return {
    name: graph.name,
    mesh,
    inputs,
    outputs,
    formats: formatted.formats,
    local: (classes[0] as DeviceClass).local,
    classes,
  };
}

/** Composites that say nothing of their sharding are planned by their bodies. */
function expandUnplannable(graph: Graph): Graph {
  const unplannable = (node: Node): boolean => !isAbsent(node.op.body) && isAbsent(node.op.equation);
  if (!nodesWithin(graph).some(unplannable)) return graph;
  const within = (attrs: Attrs): Attrs =>
    Object.fromEntries(
      Object.entries(attrs).map(([key, value]) => [key, isGraph(value) ? expandUnplannable(value) : value]),
    );
  return expandUnplannable(
    mapGraph(graph, (node, inputs) =>
      unplannable(node) ? (expandNode(node, inputs)[0] as Node) : apply(node.op, inputs, within(node.attrs)),
    ),
  );
}

/** With the sizes that follow from the mesh, where the layout has a placement for each axis. */
const resolvedLayout = (type: TensorType, layout: Layout, mesh: Mesh): Layout =>
  layout.length === mesh.axes.length ? resolved(type, layout, mesh) : layout;

function checkLayout(what: string, type: TensorType, layout: Layout, mesh: Mesh): void {
  if (layout.length !== mesh.axes.length) {
    throw new HeddleError(
      "layout",
      `${what}: layout '${formatLayout(layout)}' needs one placement per axis of mesh ${formatMesh(mesh)}`,
    );
  }
  if (layout.some((placement) => placement.kind === "partial"))
    throw new HeddleError("layout", `${what}: a value cannot be given or asked for as partial`);
  if (layout.some((placement) => placement.kind === "only"))
    throw new HeddleError("layout", `${what} is ${formatLayout(layout)}: it is on one stage of a pipeline only`, {
      hint: "call replicate(x) on every worker first",
    });
  localType(type, layout, mesh);
}

/**
 * Verifies a plan.
 *
 * @throws HeddleError `verify` naming the value that does not fit.
 */
export function verifyPlan(plan: Plan): void {
  const devices = plan.classes.flatMap((one) => one.devices).sort((one, other) => one - other);
  if (devices.length !== deviceCount(plan.mesh) || devices.some((device, index) => device !== index))
    throw new HeddleError("verify", `plan '${plan.name}': not every device is in one class`);
  for (const one of plan.classes) verifyClass(plan, one);
}

function verifyClass(plan: Plan, { devices, local }: DeviceClass): void {
  verifyGraph(local);
  const compare = (what: string, values: readonly PlannedValue[], nodes: readonly Node[]): void => {
    if (values.length !== nodes.length)
      throw new HeddleError(
        "verify",
        `plan '${plan.name}': ${values.length} ${what}s, the local graph has ${nodes.length}`,
      );
    values.forEach(({ name, type, layout }, index) => {
      const node = nodes[index] as Node;
      const fits = (device: number): boolean =>
        sameType(localType(type, layout, plan.mesh, coordinatesOf(plan.mesh, device)), node.types[0] as TensorType);
      if (!devices.every(fits)) {
        throw new HeddleError(
          "verify",
          `plan '${plan.name}': ${what} '${name}' is not ${formatLayout(layout)} in the local graph`,
        );
      }
    });
  };
  compare("input", plan.inputs, local.inputs);
  compare("output", plan.outputs, local.outputs);
  for (const node of nodesWithin(local).filter(isCollective)) {
    const axis = plan.mesh.axes.find(({ name }) => name === node.attrs["axis"]);
    if (axis === undefined || axis.size !== node.attrs["parts"]) {
      throw new HeddleError(
        "verify",
        `plan '${plan.name}': ${node.op.name} is on axis '${String(node.attrs["axis"])}' of ${String(node.attrs["parts"])}, the mesh is ${formatMesh(plan.mesh)}`,
      );
    }
  }
}

const isCollective = (node: Node): boolean => communicationOf(node) !== undefined;

/** The collectives of a plan, in order; those inside a loop once. */
export const collectivesOf = (plan: Plan): Node[] => nodesWithin(plan.local).filter(isCollective);

/** What each collective of a plan sends on a device (default: the first), in order. @param machine default: as plans assume */
export function trafficOf(plan: Plan, device = 0, machine?: Machine): Traffic[] {
  const { local } = plan.classes.find(({ devices }) => devices.includes(device)) ?? plan;
  return [...costOfTasks(tasksOf(local), machineFor(deviceCount(plan.mesh), machine)).collectives];
}
