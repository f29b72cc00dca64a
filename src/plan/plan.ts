/** @module Plans: a graph with a layout for every value, and the graph of one device that follows from it. */

import { costOfTasks, type Machine, machineFor, type Traffic, tasksOf } from "../cost/index.ts";
import { isCollective } from "../ir/communication.ts";
import { inputSpecs, mapGraph, mapGraphs, narrowGraph } from "../ir/graph.ts";
import { type Graph, isAbsent, type Node } from "../ir/node.ts";
import { range, sameType, type TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { verifyGraph } from "../ir/verify.ts";
import { nodesWithin, topological } from "../ir/walk.ts";
import { expandNode } from "../ops/index.ts";
import { HeddleError } from "../util/errors.ts";
import { formBuckets } from "./buckets.ts";
import { type DeviceClass, deviceClasses } from "./classes.ts";
import type { Decision } from "./decision.ts";
import { decideFormats, type ValueFormat } from "./formats.ts";
import {
  formatLayout,
  type Layout,
  localType,
  replicate,
  replicated,
  resolved,
  sameLayout,
  shard,
  withPlacement,
} from "./layout.ts";
import { coordinatesOf, deviceCount, formatMesh, type Mesh, type MeshAxis } from "./mesh.ts";
import { microAxis, type Schedule } from "./pipeline/schedule.ts";
import type { ScheduleCosts } from "./pipeline/simulate.ts";
import { propagate } from "./propagate.ts";

/** An input or output of a plan: its global type and its layout. */
export interface PlannedValue {
  readonly name: string;
  readonly type: TensorType;
  readonly layout: Layout;
  /** The layout that an input is used in, where it differs from `layout`. */
  readonly used?: Layout | undefined;
  /** In a pipeline: the stage that holds the value; undefined: all stages. */
  readonly stage?: number | undefined;
  /** Of a plan that was read: its line in the text. */
  readonly line?: number;
}

/** How the micro-batches of a plan run through its stages. */
export interface PlannedPipeline {
  readonly schedule: Schedule;
  /** Times for the order of actions; undefined: a backward pass takes twice a forward pass. */
  readonly costs?: ScheduleCosts | undefined;
  /** For each input whether its rows are split into micro-batches. */
  readonly batch: readonly boolean[];
}

/** What decides a plan besides the graph: where inputs and outputs live, and how a pipeline runs. */
export interface PlanLayouts {
  readonly name: string;
  /** The file that it was read from. */
  readonly file?: string;
  /** Fingerprint of the graph that was planned, where the plan is to be compared with it. */
  readonly source?: string;
  readonly mesh: Mesh;
  readonly inputs: readonly PlannedValue[];
  readonly outputs: readonly PlannedValue[];
  /** The formats of the matrices that are given by entries. */
  readonly formats: readonly ValueFormat[];
  readonly pipeline?: PlannedPipeline | undefined;
}

/** What messages call a plan: its name, and where it was read from. */
export function planTitle({ name, file }: Pick<PlanLayouts, "name" | "file">, line?: number): string {
  const suffix = line === undefined ? "" : `:${line}`;
  return `plan '${name}'${file === undefined ? "" : ` (${file}${suffix})`}`;
}

/**
 * Where every value lives. `local` is the graph that device 0 runs; collectives are nodes in it. In a pipeline it is the
 * graph of one micro-batch on all stages, with the work that is done once per step.
 */
export interface Plan extends PlanLayouts {
  readonly local: Graph;
  /** The graphs of all devices: one class where all parts are alike. */
  readonly classes: readonly DeviceClass[];
}

export interface PlanOptions {
  /** Layout of each input; undefined: replicated. */
  readonly inputs?: readonly (Layout | undefined)[];
  /**
   * Layout in which each input is used, where it differs from the layout in which it is stored. The input is redistributed
   * for each use, so that the gathered value lives only as long as one op needs it (fully sharded training, Rajbhandari et
   * al., "ZeRO", 2020). Undefined: as stored.
   */
  readonly uses?: readonly (Layout | undefined)[] | undefined;
  /** Layout wanted for each output; undefined: as the op leaves it, but never `Partial`. */
  readonly outputs?: readonly (Layout | undefined)[];
  readonly outputNames?: readonly string[];
  readonly machine?: Machine | undefined;
  /** Passes over the local graph of each class of devices, its bodies first; default: collectives form buckets. */
  readonly finish?: ((local: Graph) => Graph) | undefined;
}

/**
 * Plans a graph on a mesh. Pure: the same inputs give the same plan; no device is needed. Where inputs or outputs each
 * live at one coordinate of an axis (`O(1)`), the devices at that coordinate compute their own outputs, and nothing is
 * exchanged on that axis.
 *
 * @throws HeddleError `layout` when a layout does not fit its value, or when an output needs an input at another coordinate.
 */
export function planGraph(source: Graph, mesh: Mesh, options: PlanOptions = {}): Plan {
  const axis = mesh.axes.findIndex((_axis, index) =>
    [...(options.inputs ?? []), ...(options.outputs ?? [])].some((layout) => layout?.[index]?.kind === "only"),
  );
  return axis < 0 ? planOnAllDevices(source, mesh, options) : planPerCoordinate(source, mesh, options, axis);
}

/** A plan for each coordinate of an axis, from the inputs and outputs at that coordinate. */
function planPerCoordinate(source: Graph, mesh: Mesh, options: PlanOptions, axis: number): Plan {
  const isAt = (layout: Layout | undefined, coordinate: number): boolean => {
    const placement = layout?.[axis];
    return placement?.kind !== "only" || placement.coordinate === coordinate;
  };
  const inner = (layout: Layout | undefined): Layout | undefined => layout && withPlacement(layout, axis, replicate);
  const restored = (value: PlannedValue, wanted: Layout | undefined): PlannedValue => {
    const placement = wanted?.[axis];
    return placement?.kind === "only" ? { ...value, layout: withPlacement(value.layout, axis, placement) } : value;
  };
  const inputs: PlannedValue[] = [];
  const outputs: PlannedValue[] = [];
  const parts = range((mesh.axes[axis] as MeshAxis).size).map((coordinate) => {
    const inputIndices = [...source.inputs.keys()].filter((index) => isAt(options.inputs?.[index], coordinate));
    const outputIndices = [...source.outputs.keys()].filter((index) => isAt(options.outputs?.[index], coordinate));
    checkHeld(source, inputIndices, outputIndices, options);
    const plan = planGraph(narrowGraph(source, inputIndices, outputIndices), mesh, {
      ...options,
      inputs: inputIndices.map((index) => inner(options.inputs?.[index])),
      uses: inputIndices.map((index) => inner(options.uses?.[index])),
      outputs: outputIndices.map((index) => inner(options.outputs?.[index])),
      outputNames: outputIndices.map((index) => options.outputNames?.[index] ?? `out${index}`),
    });
    plan.inputs.forEach((value, index) => {
      inputs[inputIndices[index] as number] ??= restored(value, options.inputs?.[inputIndices[index] as number]);
    });
    plan.outputs.forEach((value, index) => {
      outputs[outputIndices[index] as number] ??= restored(value, options.outputs?.[outputIndices[index] as number]);
    });
    const classes = plan.classes.flatMap((deviceClass): DeviceClass[] => {
      const devices = deviceClass.devices.filter((device) => coordinatesOf(mesh, device)[axis] === coordinate);
      const [classInputs, classOutputs] = [
        deviceClass.inputs ?? [...inputIndices.keys()],
        deviceClass.outputs ?? [...outputIndices.keys()],
      ];
      const indices = {
        inputs: classInputs.map((index) => inputIndices[index] as number),
        outputs: classOutputs.map((index) => outputIndices[index] as number),
      };
      return devices.length === 0 ? [] : [{ devices, local: deviceClass.local, ...indices }];
    });
    return { formats: plan.formats, classes };
  });
  const classes = parts.flatMap((part) => part.classes);
  const { local } = classes[0] as DeviceClass;
  return { name: source.name, mesh, inputs, outputs, formats: parts[0]?.formats ?? [], local, classes };
}

/** @throws HeddleError `layout` naming an input that the outputs need and that lives at another coordinate. */
function checkHeld(graph: Graph, held: readonly number[], outputs: readonly number[], { inputs }: PlanOptions): void {
  const needed = new Set(topological(outputs.map((index) => graph.outputs[index] as Node)));
  const index = graph.inputs.findIndex((input, inputIndex) => needed.has(input) && !held.includes(inputIndex));
  if (index < 0) return;
  throw onlyOnOneStage(`input '${inputSpecs(graph)[index]?.name}'`, inputs?.[index] as Layout);
}

const onlyOnOneStage = (what: string, layout: Layout): HeddleError =>
  new HeddleError("layout", `${what} is ${formatLayout(layout)}: it is on one stage of a pipeline only`, {
    hint: "call replicate(x) on every worker first",
  });

function planOnAllDevices(source: Graph, mesh: Mesh, options: PlanOptions): Plan {
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
  const used = inputs.map((value, index): PlannedValue => {
    const useLayout = uses[index] as Layout;
    return sameLayout(useLayout, value.layout) ? value : { ...value, used: useLayout };
  });
  const wanted = graph.outputs.map(({ types }, index): Layout | undefined => {
    const layout = options.outputs?.[index];
    return layout === undefined ? undefined : resolvedLayout(types[0] as TensorType, layout, mesh);
  });
  const decisions = propagate(graph, uses, wanted, { mesh, machine });
  const outputs = graph.outputs.map((node, index): PlannedValue => {
    const type = node.types[0] as TensorType;
    const name = options.outputNames?.[index] ?? `out${index}`;
    const computed = (decisions.get(node) as Decision).layouts[0] as Layout;
    const layout = wanted[index] ?? computed.map((placement) => (placement.kind === "partial" ? replicate : placement));
    checkLayout(`output '${name}'`, type, layout, mesh);
    return { name, type, layout };
  });
  const layouts = (values: readonly PlannedValue[]): Layout[] => values.map(({ layout }) => layout);
  const classes = deviceClasses(
    { graph, decisions, inputs: layouts(inputs), outputs: layouts(outputs) },
    { mesh, machine, finish: options.finish ?? ((local) => formBuckets(local)) },
  );
  return {
    name: graph.name,
    mesh,
    inputs: used,
    outputs,
    formats: formatted.formats,
    local: (classes[0] as DeviceClass).local,
    classes,
  };
}

/** Composites without a rule for sharding are planned by their bodies. */
function expandUnplannable(graph: Graph): Graph {
  const unplannable = (node: Node): boolean => !isAbsent(node.op.body) && isAbsent(node.op.equation);
  if (!nodesWithin(graph).some(unplannable)) return graph;
  return expandUnplannable(
    mapGraph(graph, (node, inputs) =>
      unplannable(node)
        ? (expandNode(node, inputs)[0] as Node)
        : apply(node.op, inputs, mapGraphs(node.attrs, expandUnplannable)),
    ),
  );
}

/** The layout with the sizes that follow from the mesh, if it has a placement for each axis. */
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
    throw new HeddleError("layout", `${what}: a value can be neither passed nor returned as partial`);
  if (layout.some((placement) => placement.kind === "only")) throw onlyOnOneStage(what, layout);
  localType(type, layout, mesh);
}

/**
 * Verifies a plan.
 *
 * @throws HeddleError `verify` naming the value that does not fit.
 */
export function verifyPlan(plan: Plan): void {
  const devices = plan.classes.flatMap((deviceClass) => deviceClass.devices).sort((left, right) => left - right);
  if (devices.length !== deviceCount(plan.mesh) || devices.some((device, index) => device !== index))
    throw new HeddleError("verify", `${planTitle(plan)}: not every device is in one class`);
  const planOverTime = overTime(plan);
  for (const deviceClass of plan.classes) verifyClass(planOverTime, deviceClass);
}

/** A pipeline's plan as its local graph sees it: the micro-batches are one more axis of the mesh. */
function overTime(plan: Plan): Plan {
  const { mesh, pipeline } = plan;
  if (pipeline === undefined) return plan;
  const time = { name: microAxis, size: pipeline.schedule.microBatches, isTime: true };
  const extended = (values: readonly PlannedValue[], batch: readonly boolean[]): PlannedValue[] =>
    values.map((value, index) => ({
      ...value,
      layout: [...value.layout, batch[index] === true ? shard(0) : replicate],
    }));
  return {
    ...plan,
    mesh: { axes: [...mesh.axes, time] },
    inputs: extended(plan.inputs, pipeline.batch),
    outputs: extended(plan.outputs, []),
  };
}

/** The items at the indices, or all. */
const select = <Item>(list: readonly Item[], indices: readonly number[] | undefined): readonly Item[] =>
  indices === undefined ? list : indices.map((index) => list[index] as Item);

function verifyClass(plan: Plan, { devices, local, inputs, outputs }: DeviceClass): void {
  const { mesh } = plan;
  verifyGraph(local);
  const compare = (what: string, values: readonly PlannedValue[], nodes: readonly Node[]): void => {
    if (values.length !== nodes.length)
      throw new HeddleError(
        "verify",
        `${planTitle(plan)}: ${values.length} ${what}s, the local graph has ${nodes.length}`,
      );
    values.forEach(({ name, type, layout, line }, index) => {
      const node = nodes[index] as Node;
      const fits = (device: number): boolean =>
        sameType(localType(type, layout, mesh, coordinatesOf(mesh, device)), node.types[0] as TensorType);
      if (!devices.every(fits)) {
        throw new HeddleError(
          "verify",
          `${planTitle(plan, line)}: ${what} '${name}' is not ${formatLayout(layout)} in the local graph`,
        );
      }
    });
  };
  compare("input", select(plan.inputs, inputs), local.inputs);
  compare("output", select(plan.outputs, outputs), local.outputs);
  for (const node of nodesWithin(local).filter(isCollective)) {
    const axis = mesh.axes.find(({ name }) => name === node.attrs["axis"]);
    if (axis === undefined || axis.size !== node.attrs["parts"]) {
      throw new HeddleError(
        "verify",
        `${planTitle(plan)}: ${node.op.name} is on axis '${String(node.attrs["axis"])}' of ${String(node.attrs["parts"])}, the mesh is ${formatMesh(mesh)}`,
      );
    }
  }
}

/** The collectives of a plan, in order; collectives inside a loop count once. */
export const collectivesOf = (plan: Plan): Node[] => nodesWithin(plan.local).filter(isCollective);

/**
 * What each collective of a plan sends on a device (default: the first), in order. @param machine default: the machine
 * that plans assume
 */
export function trafficOf(plan: Plan, device = 0, machine?: Machine): Traffic[] {
  const { local } = plan.classes.find(({ devices }) => devices.includes(device)) ?? plan;
  return [...costOfTasks(tasksOf(local), machineFor(deviceCount(plan.mesh), machine)).collectives];
}
