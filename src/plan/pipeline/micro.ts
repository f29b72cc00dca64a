/**
 * @module Micro-batches: an axis of the mesh that is time instead of devices. The batch is split on it as on any axis, so the
 * planner's rules decide what one micro-batch computes, and the all-reduces on this axis are the accumulations over the
 * micro-batches. Means are weighted by the rows of the whole batch, and random bits depend on a row's index in the whole batch.
 */
import { isCollective } from "../../ir/communication.ts";
import { inputSpecs, traceGraph } from "../../ir/graph.ts";
import { type Graph, isAbsent, type Node } from "../../ir/node.ts";
import { describeNode } from "../../ir/print.ts";
import { apply, atPositionOf, isGraph, positionOf } from "../../ir/trace.ts";
import { nodesWithin, topological } from "../../ir/walk.ts";
import { isGather } from "../../prefetch/gathers.ts";
import { HeddleError } from "../../util/errors.ts";
import { describePosition } from "../../util/source.ts";
import { type BucketSizes, formBuckets } from "../buckets.ts";
import type { ValueFormat } from "../formats.ts";
import { formatLayout, type Layout, type Placement, replicate, replicated, shard } from "../layout.ts";
import { deviceCount, type Mesh } from "../mesh.ts";
import { type PlannedValue, type PlanOptions, planGraph } from "../plan.ts";
import { linearSets } from "../strategy.ts";
import { microAxis } from "./schedule.ts";

/** Options of {@link planMicroBatches}: layouts on the mesh, and `finish`, which must not merge accumulations. */
export interface MicroOptions extends PlanOptions {
  readonly microBatches: number;
  /** For each input whether its dim 0 is split into micro-batches. */
  readonly batch: readonly boolean[];
  /** Whether each use of a value that is stored in parts has a gather of its own; default: all uses share one. */
  readonly gatherEach?: boolean | undefined;
}

/** No buckets yet: each value is accumulated alone, and the collectives on the mesh form buckets later. */
export const noBuckets: BucketSizes = { first: 0, others: 0 };

/** The graph of one micro-batch on one device, with accumulations where the micro-batches are combined. */
export interface MicroPlan {
  /** The batch inputs have the rows of one micro-batch. `axisIndex` of {@link microAxis} is the micro-batch. */
  readonly graph: Graph;
  /** Types of all micro-batches together, and layouts on the mesh. */
  readonly inputs: readonly PlannedValue[];
  readonly outputs: readonly PlannedValue[];
  readonly formats: readonly ValueFormat[];
}

/** Whether a node stands for the combination of a value over all micro-batches. */
export const isAccumulation = (node: Node): boolean => node.op.name === "allReduce" && node.attrs["axis"] === microAxis;

/** Whether each user of a gathered value gathers it for itself. */
export const isGatheredEach = (node: Node): boolean => isGather(node) && node.attrs["label"] !== "once";

/** The error of a graph that cannot be a pipeline, with the place where the user wrote the node. */
export function pipelineError(message: string, node?: Node, hint?: string): HeddleError {
  const error = new HeddleError("pipeline", message, hint === undefined ? {} : { hint });
  const position = node === undefined ? undefined : positionOf(node);
  const where = position === undefined ? undefined : describePosition(position);
  return where === undefined ? error : error.at(where);
}

/**
 * Plans a graph on a mesh with its batch split into micro-batches.
 *
 * @throws HeddleError `pipeline` when the rows cannot be split evenly, when devices would have parts of unequal sizes, or when a
 * node needs the whole batch at once (such as statistics over the batch inside the network).
 */
export function planMicroBatches(graph: Graph, mesh: Mesh, options: MicroOptions): MicroPlan {
  const { microBatches, batch } = options;
  checkRows(graph, mesh, options);
  const extended: Mesh = { axes: [...mesh.axes, { name: microAxis, size: microBatches, isTime: true }] };
  const overTime = (layout: Layout, index: number): Layout => [...layout, batch[index] === true ? shard(0) : replicate];
  const plan = planGraph(graph, extended, {
    ...options,
    inputs: graph.inputs.map((_input, index) => overTime(options.inputs?.[index] ?? replicated(mesh), index)),
    uses: options.uses?.map((layout, index) => layout && overTime(layout, index)),
    outputs: options.outputs?.map((layout) => layout && [...layout, replicate]) ?? [],
    finish: options.finish ?? ((local) => formBuckets(local, noBuckets)),
  });
  const uneven = plan.inputs.find(({ layout }) => formatLayout(layout).includes(":"));
  if (plan.classes.length > 1)
    throw pipelineError(
      `${uneven === undefined ? `'${graph.name}'` : `'${uneven.name}' as ${formatLayout(uneven.layout.slice(0, -1))}`} gives the devices of a stage parts of unequal sizes, for which a pipeline has no programs`,
      undefined,
      "choose sizes that the number of devices divides, or leave the value whole on that axis",
    );
  const local = accumulateEarly(plan.local, options);
  checkAccumulations(local);
  const onMesh = ({ layout, used, ...value }: PlannedValue): PlannedValue => ({
    ...value,
    layout: layout.slice(0, -1),
    ...(used && { used: used.slice(0, -1) }),
  });
  const rows = plan.outputs.findIndex(({ layout }) => layout.at(-1)?.kind !== "replicate");
  if (rows >= 0)
    throw pipelineError(
      `output '${plan.outputs[rows]?.name}' has a row for every row of the batch; a pipeline returns values combined over the micro-batches`,
      graph.outputs[rows],
      "return a sum or a mean over the batch",
    );
  return { graph: local, formats: plan.formats, inputs: plan.inputs.map(onMesh), outputs: plan.outputs.map(onMesh) };
}

function checkRows(graph: Graph, mesh: Mesh, { microBatches, batch, inputs }: MicroOptions): void {
  if (!batch.includes(true)) throw pipelineError(`'${graph.name}': no input is a batch to split into micro-batches`);
  inputSpecs(graph).forEach(({ name, type }, index) => {
    if (batch[index] !== true) return;
    const splits = (placement?: Placement): boolean => placement?.kind === "shard" && placement.dim === 0;
    const devices = deviceCount({ axes: mesh.axes.filter((_axis, at) => splits(inputs?.[index]?.[at])) });
    const rows = type.shape[0];
    if (rows !== undefined && rows % (microBatches * devices) === 0) return;
    throw pipelineError(
      `input '${name}' of ${rows ?? "no"} rows cannot be split into ${microBatches} equal micro-batches${devices === 1 ? "" : ` on each of ${devices} devices`}`,
      undefined,
      `choose a batch that ${microBatches * devices} divides`,
    );
  });
}

/**
 * Accumulates as early as possible: before a collective, so that the devices exchange each sum once instead of every
 * contribution, and before a contribution is scaled by a value that is the same for all micro-batches.
 */
function accumulateEarly(graph: Graph, { batch, gatherEach }: MicroOptions): Graph {
  const perMicro = microNodes(graph, (input) => batch[graph.inputs.indexOf(input)] === true);
  // With equal labels, gathers of one value are one node.
  const isOnce = (node: Node): boolean => gatherEach !== true && !perMicro.has(node) && isGather(node);
  return traceGraph(graph.name, inputSpecs(graph), (...inputs) => {
    const copies = new Map<Node, Node>(graph.inputs.map((input, index) => [input, inputs[index] as Node]));
    const copy = (node: Node): Node => copies.get(node) as Node;
    const accumulate = (node: Node, value: Node): Node => {
      const varying = value.inputs.filter((input) => perMicro.has(input));
      const sameCollective = isCollective(value) && value.attrs["reduction"] === node.attrs["reduction"];
      if (varying.length === 1 && value.inputs.length === 1 && sameCollective)
        return apply(value.op, [accumulate(node, varying[0] as Node)], value.attrs);
      if (node.attrs["reduction"] === "sum" && varying.length === 1 && isScaling(value, varying[0] as Node))
        return apply(
          value.op,
          value.inputs.map((input) => (input === varying[0] ? accumulate(node, input) : copy(input))),
          value.attrs,
        );
      // Without its label, so that equal sums are one node.
      return apply(node.op, [copy(value)], { ...node.attrs, label: "" });
    };
    for (const node of topological(graph.outputs)) {
      if (copies.has(node)) continue;
      const copied = atPositionOf(node, () =>
        isAccumulation(node)
          ? accumulate(node, node.inputs[0] as Node)
          : apply(node.op, node.inputs.map(copy), isOnce(node) ? { ...node.attrs, label: "once" } : node.attrs),
      );
      copies.set(node, copied);
    }
    return graph.outputs.map(copy);
  });
}

/** Whether a scalar op is linear in `input` alone. The sum of its results is then the op applied to the sum. */
function isScaling(node: Node, input: Node): boolean {
  const { inputs, dtype, op } = node;
  const position = inputs.indexOf(input);
  return (
    !isAbsent(op.form) &&
    op.form.kind === "pointwise" &&
    // A sum of 16-bit values would round: it is made behind their cast.
    input.dtype === dtype &&
    inputs.lastIndexOf(input) === position &&
    linearSets(node, inputs).some((set) => set.length === 1 && set[0] === position)
  );
}

/** The nodes whose values differ between micro-batches. */
export function microNodes(graph: Graph, isBatch: (input: Node) => boolean): Set<Node> {
  const varying = new Set<Node>(graph.inputs.filter(isBatch));
  for (const node of topological(graph.outputs)) {
    if (isAccumulation(node)) continue;
    const readsIndex = [node, ...ownedNodes(node)].some(
      ({ op, attrs }) => op.name === "axisIndex" && attrs["axis"] === microAxis,
    );
    if (readsIndex || node.inputs.some((input) => varying.has(input))) varying.add(node);
  }
  return varying;
}

const ownedNodes = (node: Node): Node[] => Object.values(node.attrs).filter(isGraph).flatMap(nodesWithin);

function checkAccumulations(graph: Graph): void {
  for (const node of nodesWithin(graph)) {
    if (node.attrs["axis"] !== microAxis || node.op.name === "axisIndex") continue;
    if (isAccumulation(node) && topological(graph.outputs).includes(node)) continue;
    throw wholeBatch(node);
  }
}

/** The error of a value that is not known before all micro-batches have run. */
export const wholeBatch = (node: Node): HeddleError =>
  pipelineError(
    `${describeNode(node.inputs[0] ?? node)} needs the whole batch at once, so it cannot be split into micro-batches`,
    node.inputs[0] ?? node,
    "statistics over the batch inside the network need it; normalise by row, by batchNorm({ groups }), or use no pipeline",
  );
