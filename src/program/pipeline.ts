/**
 * @module The programs of a pipeline: for each rank of the stage axis the steps of its actions in schedule order, with the
 * sends and receives between them.
 *
 * [Note: why no rank waits for ever] All transfers and actions are put into one order, by the times of the simulation;
 * each rank runs its part of that order. The first pending item of the order can always run, since its ranks have nothing
 * to do before it. So sends may wait for their receivers without a deadlock.
 */
import { inputSpecs, mapGraphs, traceGraph } from "../ir/graph.ts";
import { parameterOp } from "../ir/leaf.ts";
import type { Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply } from "../ir/trace.ts";
import { topological, usersOf } from "../ir/walk.ts";
import * as emit from "../ops/emit.ts";
import { splitBackward } from "../pipelines/index.ts";
import { formBuckets } from "../plan/buckets.ts";
import { localType } from "../plan/layout.ts";
import {
  type Action,
  assignStages,
  formatAction,
  isAccumulation,
  kindsOf,
  microAxis,
  rankOfStages,
  type StagePlace,
  type Stages,
  simulate,
  stageAxis,
} from "../plan/pipeline/index.ts";
import { isGatheredEach } from "../plan/pipeline/micro.ts";
import type { Plan, PlannedPipeline, PlannedValue } from "../plan/plan.ts";
import { invariant } from "../util/errors.ts";
import { type BuilderSource, type PartProgram, ProgramBuilder } from "./builder.ts";
import { isRepeated } from "./split.ts";
import { updateEach } from "./stash/index.ts";
import { verifyTransfers } from "./transfers.ts";

/** A pipeline's plan with the data derived from it. */
interface PipelineSource extends BuilderSource {
  readonly stages: Stages;
  readonly pipeline: PlannedPipeline;
  /** For each output the stage that holds it; undefined: every rank. */
  readonly outputStages: readonly (number | undefined)[];
}

/**
 * Makes the program of each rank of a pipeline. Equal plans give equal programs.
 *
 * @param donated for each output the index of the input whose buffer it takes over
 * @throws HeddleError `schedule` when the schedule cannot run; `pipeline` when no stage can run a node.
 */
export function pipelinePrograms(
  { name, mesh, inputs, outputs, local }: Plan,
  pipeline: PlannedPipeline,
  donated: readonly (number | undefined)[],
): PartProgram[] {
  const stagesOf = (values: readonly PlannedValue[]) => values.map(({ stage }) => stage);
  const localSpecs = (values: readonly PlannedValue[]) =>
    values.map((value) => ({ name: value.name, type: localType(value.type, value.layout, mesh) }));
  const outputStages = stagesOf(outputs);
  const { schedule, batch } = pipeline;
  const ofValues = { inputs: stagesOf(inputs), outputs: outputStages };
  const assigned = assignStages(local, { stages: schedule.stages, batch, ...ofValues });
  const stages = kindsOf(schedule).includes("W") ? splitBackward(assigned) : assigned;
  const specs = { inputs: localSpecs(inputs), outputs: localSpecs(outputs) };
  const common = { name, axes: mesh.axes, stageAxis, ...specs, donated };
  return new PipelineWriter({ ...common, stages, pipeline, outputStages }).programs();
}

class PipelineWriter {
  private readonly source: PipelineSource;
  private readonly graph: Graph;
  private readonly order: readonly Node[];
  private readonly users: ReadonlyMap<Node, readonly Node[]>;
  private readonly ranks: readonly number[];
  private readonly builders: readonly ProgramBuilder[];
  private readonly outputs: ReadonlySet<Node>;
  /** Whether stages update their parameters after each micro-batch. */
  private readonly updatesEach: boolean;
  /** Whether actions gather values. */
  private readonly gathersEach: boolean;
  /** For each node of the update, the number of transfers between ranks before it can be computed. */
  private readonly rounds = new Map<Node, number>();

  constructor(source: PipelineSource) {
    this.source = source;
    this.graph = source.stages.graph;
    this.order = topological(this.graph.outputs);
    this.users = usersOf(this.order);
    this.outputs = new Set(this.graph.outputs);
    this.gathersEach = this.order.some((node) => this.place(node).phase === "start" && isGatheredEach(node));
    this.ranks = rankOfStages(source.pipeline.schedule).map((rank) => rank as number);
    this.updatesEach = kindsOf(source.pipeline.schedule).includes("U");
    this.builders = source.pipeline.schedule.ranks.map(() => new ProgramBuilder(source));
  }

  programs(): PartProgram[] {
    const { schedule, costs } = this.source.pipeline;
    const { ranks } = simulate(schedule, costs);
    ranks.forEach((_actions, rank) => {
      this.start(rank);
    });
    const events = ranks.flatMap((actions, rank) =>
      actions.flatMap((action) => [
        { time: action.start, sends: false, rank, action },
        { time: action.end, sends: true, rank, action },
      ]),
    );
    // A value that arrives at a time is available to an action that starts then.
    events.sort(
      (left, right) => left.time - right.time || Number(right.sends) - Number(left.sends) || left.rank - right.rank,
    );
    for (const { sends, rank, action } of events) {
      if (!sends) this.act(action, rank);
      else this.send(rank, this.computedBy(action), this.ranksNeeding, formatAction(action), action.microBatch);
    }
    this.updates();
    const keyOf = (output: number): string => this.key(this.graph.outputs[output] as Node, undefined);
    const finished = this.builders.map((builder, rank) =>
      builder.finish(
        this.updatesEach ? updateEach(builder, this.source, this.ranks.indexOf(rank), keyOf) : keyOf,
        (index) => this.holds(rank, index),
      ),
    );
    verifyTransfers(finished.map(({ program }) => program));
    return finished;
  }

  private place(node: Node): StagePlace {
    const nodePlace = this.source.stages.places.get(node);
    invariant(nodePlace !== undefined, `${node.op.name} has no place in the pipeline`);
    return nodePlace;
  }

  private rankOf(node: Node): number | undefined {
    const { stage } = this.place(node);
    return stage === undefined ? undefined : this.ranks[stage];
  }

  private holds(rank: number, output: number): boolean {
    return (this.ranks[this.source.outputStages[output] ?? -1] ?? rank) === rank;
  }

  private isMicro(node: Node): boolean {
    const { phase } = this.place(node);
    return phase !== "start" && phase !== "update";
  }

  /** Computes once what all micro-batches on a rank use alike; sums that depend on the batch alone come first. */
  private start(rank: number): void {
    const sums = this.order.filter((node) => isAccumulation(node) && this.place(node).phase === "start");
    for (let microBatch = 0; microBatch < this.source.pipeline.schedule.microBatches; microBatch++)
      this.emit(rank, `start.${microBatch}`, [], { microBatch, sums });
    const shared = this.order.filter((node) => {
      if (this.place(node).phase !== "start" || this.isFree(node) || node.types.length > 1) return false;
      if (topological([node]).some(isGatheredEach)) return false;
      return (this.users.get(node) as readonly Node[]).some((user) => this.isMicro(user) && this.runsOn(user, rank));
    });
    this.emit(rank, "start", shared);
  }

  /** Whether a node is an input, or costs nothing to compute from inputs again. */
  private isFree(node: Node): boolean {
    return (
      node.op === parameterOp ||
      (isRepeated(node) && node.inputs.every((input) => !this.isMicro(input) && this.isFree(input)))
    );
  }

  /** Whether an action of the rank computes a node. */
  private runsOn(node: Node, rank: number): boolean {
    return (this.rankOf(node) ?? rank) === rank;
  }

  private act(action: Action, rank: number): void {
    const computed = new Set(this.computedBy(action));
    const results = [...computed].filter((node) => node.types.length === 1 && this.leaves(node, action));
    const sums = this.order.filter((node) => isAccumulation(node) && computed.has(node.inputs[0] as Node));
    this.emit(rank, formatAction(action), results, { microBatch: action.microBatch, sums });
  }

  private computedBy({ stage, kind }: Action): Node[] {
    return this.order.filter((node) => {
      const place = this.place(node);
      return place.stage === stage && place.phase === kind;
    });
  }

  /** Whether another action needs a value of this action. */
  private leaves(node: Node, { stage, kind }: Action): boolean {
    return (this.users.get(node) as readonly Node[]).some((user) => {
      const place = this.place(user);
      return this.isMicro(user) && (place.stage !== stage || place.phase !== kind);
    });
  }

  /** The ranks whose actions need a value of another rank. */
  private readonly ranksNeeding = (node: Node): Set<number | undefined> =>
    new Set(
      (this.users.get(node) as readonly Node[]).filter((user) => this.isMicro(user)).map((user) => this.rankOf(user)),
    );

  /** Sends to every rank what it needs, in one message per dtype. */
  private send(
    from: number,
    nodes: readonly Node[],
    ranksNeeding: (node: Node) => Set<number | undefined>,
    label: string,
    microBatch?: number,
  ): void {
    this.builders.forEach((builder, to) => {
      const needed = nodes.filter((node) => to !== from && node.types.length === 1 && ranksNeeding(node).has(to));
      for (const dtype of new Set(needed.map((node) => node.dtype))) {
        const values = needed
          .filter((node) => node.dtype === dtype)
          .map((node) => ({ key: this.key(node, microBatch), type: node.types[0] as TensorType }));
        this.builders[from]?.send(to, values, label);
        builder.receive(from, values, label);
      }
    });
  }

  /** Name of a value in the program of a rank. */
  private key(node: Node, microBatch: number | undefined): string {
    if (node.op === parameterOp) return `input ${this.graph.inputs.indexOf(node)}`;
    return this.isMicro(node) ? `${node.id} of ${microBatch}` : `${node.id}`;
  }

  /** Adds the graph that computes `results` and the running `sums` from values that the rank has. */
  private emit(
    rank: number,
    name: string,
    results: readonly Node[],
    { microBatch, sums = [] }: { readonly microBatch?: number; readonly sums?: readonly Node[] } = {},
  ): void {
    if (results.length + sums.length === 0) return;
    const builder = this.builders[rank] as ProgramBuilder;
    const roots = [...results, ...sums.map((node) => node.inputs[0] as Node)];
    const computed = new Set(results);
    const has = (node: Node): boolean =>
      node.op === parameterOp || (!computed.has(node) && builder.has(this.key(node, microBatch)));
    const joins = microBatch === undefined ? !this.updatesEach : this.gathersEach;
    const finish = joins ? formBuckets : (graph: Graph): Graph => graph;
    const members = needed(roots, has);
    const operands = [...new Set([...members.flatMap((node) => node.inputs), ...roots])].filter(has);
    operands.sort((left, right) => left.id - right.id);
    const runningSums = sums.filter((node) => builder.has(this.key(node, undefined)));
    const specs = [
      ...operands.map((node) => ({
        name: node.op === parameterOp ? String(node.attrs["name"]) : `v${node.id}`,
        type: this.inputType(node),
      })),
      ...runningSums.map((node) => ({ name: `sum${node.id}`, type: node.types[0] as TensorType })),
    ];
    const graph = traceGraph(name, specs, (...inputs) => {
      const copies = new Map<Node, Node>();
      operands.forEach((node, index) => {
        copies.set(node, this.sliced(node, inputs[index] as Node, microBatch));
      });
      for (const node of members) copies.set(node, copyNode(node, copies, microBatch));
      const values = results.map((node) => copies.get(node) as Node);
      const totals = sums.map((node) => {
        const contribution = copies.get(node.inputs[0] as Node) as Node;
        const index = runningSums.indexOf(node);
        return index < 0 ? contribution : combine(node, inputs[operands.length + index] as Node, contribution);
      });
      return [...values, ...totals];
    });
    builder.run(
      finish(graph),
      [...operands.map((node) => this.key(node, microBatch)), ...runningSums.map((node) => this.key(node, undefined))],
      [...results.map((node) => this.key(node, microBatch)), ...sums.map((node) => this.key(node, undefined))],
    );
  }

  private isBatch(node: Node): boolean {
    return node.op === parameterOp && this.source.pipeline.batch[this.graph.inputs.indexOf(node)] === true;
  }

  private inputType(node: Node): TensorType {
    return this.isBatch(node)
      ? (this.source.inputs[this.graph.inputs.indexOf(node)] as { type: TensorType }).type
      : (node.types[0] as TensorType);
  }

  /** The rows of a micro-batch. */
  private sliced(node: Node, value: Node, microBatch: number | undefined): Node {
    if (!this.isBatch(node)) return value;
    const rows = node.shape[0] as number;
    const start = rows * (microBatch as number);
    const starts = node.shape.map((_size, dim) => (dim === 0 ? start : 0));
    const limits = node.shape.map((size, dim) => (dim === 0 ? start + rows : size));
    return emit.slice(value, starts, limits);
  }

  /** The update after the last micro-batch: rounds of computing on each rank, and of transfers between ranks. */
  private updates(): void {
    const updateNodes = this.order.filter((node) => !this.isMicro(node));
    for (const node of updateNodes) {
      const homeRank = this.rankOf(node);
      const inputRounds = node.inputs.map((input) => {
        const from = this.isMicro(input) ? undefined : this.rankOf(input);
        const isSent = homeRank !== undefined && from !== undefined && from !== homeRank;
        return (this.rounds.get(input) ?? 0) + (isSent ? 1 : 0);
      });
      this.rounds.set(node, isAccumulation(node) ? 0 : Math.max(0, ...inputRounds));
    }
    const last = Math.max(0, ...updateNodes.map((node) => this.rounds.get(node) as number));
    for (let round = 0; round <= last; round++) {
      this.builders.forEach((builder, rank) => {
        const results = updateNodes.filter(
          (node) => this.isResultOf(node, round, rank) && !builder.has(this.key(node, undefined)),
        );
        this.emit(rank, `update${last === 0 ? "" : `.${round}`}`, results);
      });
      this.builders.forEach((_builder, from) => {
        const nodes = updateNodes.filter((node) => this.rankOf(node) === from && this.rounds.get(node) === round);
        this.send(from, nodes, (node) => this.ranksNeedingUpdate(node, from), `update.${round}`);
      });
    }
  }

  /** Whether a rank computes a value in a round, and an output, another rank or a later round needs it. */
  private isResultOf(node: Node, round: number, rank: number): boolean {
    if (node.op === parameterOp || isAccumulation(node) || node.types.length > 1) return false;
    const homeRank = this.rankOf(node);
    if (homeRank === undefined) return round === 0 && this.outputs.has(node);
    if (homeRank !== rank || this.rounds.get(node) !== round) return false;
    if (this.outputs.has(node) || this.ranksNeedingUpdate(node, rank).size > 0) return true;
    return (this.users.get(node) as readonly Node[]).some((user) => (this.rounds.get(user) ?? round) !== round);
  }

  private ranksNeedingUpdate(node: Node, from: number): Set<number | undefined> {
    const ranks = new Set<number | undefined>();
    this.graph.outputs.forEach((output, index) => {
      if (output !== node) return;
      this.builders.forEach((_builder, rank) => {
        if (rank !== from && this.holds(rank, index)) ranks.add(rank);
      });
    });
    for (const user of this.users.get(node) as readonly Node[]) {
      const rank = this.isMicro(user) || isAccumulation(user) ? undefined : this.rankOf(user);
      if (rank !== undefined && rank !== from) ranks.add(rank);
    }
    return ranks;
  }
}

/** The nodes that must be computed for `roots`, inputs before users; `has` tells which values exist. */
function needed(roots: readonly Node[], has: (node: Node) => boolean): Node[] {
  const nodes = new Set<Node>();
  const pending = [...roots];
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (has(node) || nodes.has(node)) continue;
    nodes.add(node);
    pending.push(...node.inputs);
  }
  return [...nodes].sort((left, right) => left.id - right.id);
}

/** The node in another trace; the index on the axis of micro-batches becomes the number of the micro-batch. */
function copyNode(node: Node, copies: ReadonlyMap<Node, Node>, microBatch: number | undefined): Node {
  if (node.op.name === "axisIndex" && node.attrs["axis"] === microAxis)
    return emit.constant("i32", microBatch as number);
  const inputs = node.inputs.map((input) => copies.get(input) as Node);
  return apply(
    node.op,
    inputs,
    mapGraphs(node.attrs, (body) => copyBody(body, microBatch)),
  );
}

/** A body in which the index on the axis of micro-batches is the number of the micro-batch. */
function copyBody(body: Graph, microBatch: number | undefined): Graph {
  return traceGraph(body.name, inputSpecs(body), (...inputs) => {
    const copies = new Map<Node, Node>(body.inputs.map((input, index) => [input, inputs[index] as Node]));
    for (const node of topological(body.outputs))
      if (!copies.has(node)) copies.set(node, copyNode(node, copies, microBatch));
    return body.outputs.map((output) => copies.get(output) as Node);
  });
}

function combine(accumulation: Node, sum: Node, contribution: Node): Node {
  const { reduction } = accumulation.attrs;
  return emit.call(reduction === "sum" ? "add" : String(reduction), [sum, contribution]);
}
