/**
 * @module The programs of a pipeline: for each rank of the stage axis the steps of its actions in the order of the
 * schedule, with what it sends and receives between them.
 *
 * [Note: why no rank waits for ever] All transfers and actions are put into one order, by the times of the simulation;
 * each rank runs its part of that order. Of what has not happened yet, the first in the order can always happen: its
 * ranks have nothing to do before it. So sends may wait for their receivers without a deadlock.
 */
import { inputSpecs, traceGraph } from "../ir/graph.ts";
import { parameterOp } from "../ir/leaf.ts";
import type { Attrs, Graph, Node } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { apply, isGraph } from "../ir/trace.ts";
import { topological, usersOf } from "../ir/walk.ts";
import * as emit from "../ops/emit.ts";
import { formBuckets } from "../plan/buckets.ts";
import { localType } from "../plan/layout.ts";
import {
  type Action,
  assignStages,
  formatAction,
  isAccumulation,
  microAxis,
  rankOfStages,
  type StagePlace,
  type Stages,
  simulate,
  stageAxis,
} from "../plan/pipeline/index.ts";
import type { Plan, PlannedPipeline, PlannedValue } from "../plan/plan.ts";
import { invariant } from "../util/errors.ts";
import { type BuilderSource, type PartProgram, ProgramBuilder } from "./builder.ts";
import { isRepeated } from "./split.ts";
import { verifyTransfers } from "./transfers.ts";

/** A pipeline's plan with all that follows from it and is not said in it. */
interface PipelineSource extends BuilderSource {
  readonly stages: Stages;
  readonly pipeline: PlannedPipeline;
  /** For each output the stage that holds it; undefined: every rank does. */
  readonly outputStages: readonly (number | undefined)[];
}

/**
 * Makes the program of each rank of a pipeline. Equal plans give equal programs.
 *
 * @param donated for each output the index of the input whose buffer it takes over
 * @throws HeddleError `schedule` when the schedule cannot run; `pipeline` when a node has no place.
 */
export function pipelinePrograms(
  { name, mesh, inputs, outputs, local }: Plan,
  pipeline: PlannedPipeline,
  donated: readonly (number | undefined)[],
): PartProgram[] {
  const stagesOf = (values: readonly PlannedValue[]) => values.map(({ stage }) => stage);
  const here = (values: readonly PlannedValue[]) =>
    values.map((value) => ({ name: value.name, type: localType(value.type, value.layout, mesh) }));
  const outputStages = stagesOf(outputs);
  const stages = assignStages(local, {
    stages: pipeline.schedule.stages,
    batch: pipeline.batch,
    inputs: stagesOf(inputs),
    outputs: outputStages,
  });
  const common = { name, axes: mesh.axes, stageAxis, inputs: here(inputs), outputs: here(outputs), donated };
  return new PipelineWriter({ ...common, stages, pipeline, outputStages }).programs();
}

/** A value that one rank makes and another needs. */
interface Transfer {
  readonly from: number;
  readonly to: number;
  readonly nodes: readonly Node[];
}

class PipelineWriter {
  private readonly source: PipelineSource;
  private readonly graph: Graph;
  private readonly order: readonly Node[];
  private readonly users: ReadonlyMap<Node, readonly Node[]>;
  private readonly ranks: readonly number[];
  private readonly builders: readonly ProgramBuilder[];
  private readonly outputs: ReadonlySet<Node>;
  /** How many times what an update needs has travelled before it can be made. */
  private readonly rounds = new Map<Node, number>();

  constructor(source: PipelineSource) {
    this.source = source;
    this.graph = source.stages.graph;
    this.order = topological(this.graph.outputs);
    this.users = usersOf(this.order);
    this.outputs = new Set(this.graph.outputs);
    this.ranks = rankOfStages(source.pipeline.schedule).map((rank) => rank as number);
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
    // What arrives at a time is there for what begins then.
    events.sort(
      (one, other) => one.time - other.time || Number(other.sends) - Number(one.sends) || one.rank - other.rank,
    );
    for (const { sends, rank, action } of events) {
      if (sends) for (const transfer of this.transfersOf(action, rank)) this.send(transfer, action);
      else this.act(action, rank);
    }
    this.updates();
    const finished = this.builders.map((builder, rank) =>
      builder.finish(
        (index) => this.key(this.graph.outputs[index] as Node, undefined),
        (index) => this.holds(rank, index),
      ),
    );
    verifyTransfers(finished.map(({ program }) => program));
    return finished;
  }

  private place(node: Node): StagePlace {
    const place = this.source.stages.places.get(node);
    invariant(place !== undefined, `${node.op.name} has no place in the pipeline`);
    return place;
  }

  private rankOf(node: Node): number | undefined {
    const { stage } = this.place(node);
    return stage === undefined ? undefined : this.ranks[stage];
  }

  private holds(rank: number, output: number): boolean {
    const stage = this.source.outputStages[output];
    return stage === undefined || this.ranks[stage] === rank;
  }

  private isMicro(node: Node): boolean {
    const { phase } = this.place(node);
    return phase === "F" || phase === "B";
  }

  /** What all micro-batches of a rank's stages use and none changes is made once; sums over the batch alone first. */
  private start(rank: number): void {
    const sums = this.order.filter((node) => isAccumulation(node) && this.place(node).phase === "start");
    for (let microBatch = 0; microBatch < this.source.pipeline.schedule.microBatches; microBatch++)
      this.emit(rank, `start.${microBatch}`, [], { microBatch, sums });
    const made = this.order.filter((node) => {
      if (this.place(node).phase !== "start" || this.isFree(node) || node.types.length > 1) return false;
      return (this.users.get(node) as readonly Node[]).some((user) => this.isMicro(user) && this.runsOn(user, rank));
    });
    this.emit(rank, "start", made);
  }

  /** Inputs, and what costs nothing to make of them again. */
  private isFree(node: Node): boolean {
    return (
      node.op === parameterOp ||
      (isRepeated(node) && node.inputs.every((input) => !this.isMicro(input) && this.isFree(input)))
    );
  }

  /** Whether an action of the rank computes a node. */
  private runsOn(node: Node, rank: number): boolean {
    const home = this.rankOf(node);
    return home === undefined || home === rank;
  }

  private act(action: Action, rank: number): void {
    const { stage, kind, microBatch } = action;
    const here = (node: Node): boolean => {
      const place = this.place(node);
      return place.stage === stage && place.phase === kind;
    };
    const kept = this.order.filter((node) => here(node) && node.types.length === 1 && this.leaves(node, action));
    const sums = this.order.filter((node) => isAccumulation(node) && here(node.inputs[0] as Node));
    this.emit(rank, formatAction(action), kept, { microBatch, sums });
  }

  /** Whether another action needs the value. */
  private leaves(node: Node, { stage, kind }: Action): boolean {
    return (this.users.get(node) as readonly Node[]).some((user) => {
      const place = this.place(user);
      return this.isMicro(user) && (place.stage !== stage || place.phase !== kind);
    });
  }

  /** The ranks on which actions need a value that is made on another. */
  private needing(node: Node): Set<number> {
    const found = new Set<number>();
    for (const user of this.users.get(node) as readonly Node[]) {
      if (!this.isMicro(user)) continue;
      const rank = this.rankOf(user);
      if (rank !== undefined) found.add(rank);
    }
    return found;
  }

  private transfersOf({ stage, kind }: Action, from: number): Transfer[] {
    const made = this.order.filter((node) => {
      const place = this.place(node);
      return place.stage === stage && place.phase === kind && node.types.length === 1;
    });
    return this.byReceiver(from, made, (node) => this.needing(node));
  }

  private byReceiver(from: number, nodes: readonly Node[], needing: (node: Node) => Set<number>): Transfer[] {
    return this.builders.flatMap((_builder, to): Transfer[] => {
      const wanted = to === from ? [] : nodes.filter((node) => needing(node).has(to));
      return wanted.length === 0 ? [] : [{ from, to, nodes: wanted }];
    });
  }

  /** One message per dtype. */
  private send({ from, to, nodes }: Transfer, action: Action | string): void {
    const label = typeof action === "string" ? action : formatAction(action);
    const microBatch = typeof action === "string" ? undefined : action.microBatch;
    for (const dtype of new Set(nodes.map((node) => node.dtype))) {
      const keys = nodes
        .filter((node) => node.dtype === dtype)
        .map((node) => ({ key: this.key(node, microBatch), type: node.types[0] as TensorType }));
      this.builders[from]?.send(to, keys, label);
      this.builders[to]?.receive(from, keys, label);
    }
  }

  /** Name of a value in the program of a rank. */
  private key(node: Node, microBatch: number | undefined): string {
    if (node.op === parameterOp) return `input ${this.graph.inputs.indexOf(node)}`;
    return this.isMicro(node) ? `${node.id} of ${microBatch}` : `${node.id}`;
  }

  /** Adds the graph that makes `made` and the sums so far from what the rank has. */
  private emit(
    rank: number,
    name: string,
    made: readonly Node[],
    { microBatch, sums = [] }: { readonly microBatch?: number; readonly sums?: readonly Node[] } = {},
  ): void {
    if (made.length + sums.length === 0) return;
    const builder = this.builders[rank] as ProgramBuilder;
    const roots = [...made, ...sums.map((node) => node.inputs[0] as Node)];
    const fresh = new Set(made);
    const has = (node: Node): boolean =>
      node.op === parameterOp || (!fresh.has(node) && builder.has(this.key(node, microBatch)));
    const finish = microBatch === undefined ? formBuckets : (graph: Graph): Graph => graph;
    const members = needed(roots, has);
    const given = [...new Set([...members.flatMap((node) => node.inputs), ...roots])].filter(has);
    given.sort((one, other) => one.id - other.id);
    const earlier = sums.filter((node) => builder.has(this.key(node, undefined)));
    const specs = [
      ...given.map((node) => ({
        name: node.op === parameterOp ? String(node.attrs["name"]) : `v${node.id}`,
        type: this.typeGiven(node),
      })),
      ...earlier.map((node) => ({ name: `sum${node.id}`, type: node.types[0] as TensorType })),
    ];
    const graph = traceGraph(name, specs, (...inputs) => {
      const copies = new Map<Node, Node>();
      given.forEach((node, index) => {
        copies.set(node, this.sliced(node, inputs[index] as Node, microBatch));
      });
      for (const node of members) copies.set(node, copied(node, copies, microBatch));
      const values = made.map((node) => copies.get(node) as Node);
      const totals = sums.map((node) => {
        const contribution = copies.get(node.inputs[0] as Node) as Node;
        const place = earlier.indexOf(node);
        return place < 0 ? contribution : combined(node, inputs[given.length + place] as Node, contribution);
      });
      return [...values, ...totals];
    });
    builder.run(
      finish(graph),
      [...given.map((node) => this.key(node, microBatch)), ...earlier.map((node) => this.key(node, undefined))],
      [...made.map((node) => this.key(node, microBatch)), ...sums.map((node) => this.key(node, undefined))],
    );
  }

  private isBatch(node: Node): boolean {
    return node.op === parameterOp && this.source.pipeline.batch[this.graph.inputs.indexOf(node)] === true;
  }

  private typeGiven(node: Node): TensorType {
    return this.isBatch(node)
      ? (this.source.inputs[this.graph.inputs.indexOf(node)] as { type: TensorType }).type
      : (node.types[0] as TensorType);
  }

  /** The rows of a micro-batch. */
  private sliced(node: Node, whole: Node, microBatch: number | undefined): Node {
    if (!this.isBatch(node)) return whole;
    const rows = node.shape[0] as number;
    const start = rows * (microBatch as number);
    const starts = node.shape.map((_size, dim) => (dim === 0 ? start : 0));
    const limits = node.shape.map((size, dim) => (dim === 0 ? start + rows : size));
    return emit.slice(whole, starts, limits);
  }

  /** After the last micro-batch: each rank's update, and what the ranks need of each other for it, in rounds. */
  private updates(): void {
    const late = this.order.filter((node) => !this.isMicro(node));
    for (const node of late) {
      const home = this.rankOf(node);
      const before = node.inputs.map((input) => {
        const from = this.isMicro(input) ? undefined : this.rankOf(input);
        const travels = home !== undefined && from !== undefined && from !== home;
        return (this.rounds.get(input) ?? 0) + (travels ? 1 : 0);
      });
      this.rounds.set(node, isAccumulation(node) ? 0 : Math.max(0, ...before));
    }
    const last = Math.max(0, ...late.map((node) => this.rounds.get(node) as number));
    for (let round = 0; round <= last; round++) {
      this.builders.forEach((builder, rank) => {
        const made = late.filter((node) => this.isMadeIn(node, round, rank) && !builder.has(this.key(node, undefined)));
        this.emit(rank, `update${last === 0 ? "" : `.${round}`}`, made);
      });
      this.builders.forEach((_builder, from) => {
        const nodes = late.filter((node) => this.rankOf(node) === from && this.rounds.get(node) === round);
        for (const transfer of this.byReceiver(from, nodes, (node) => this.needingUpdate(node, from)))
          this.send(transfer, `update.${round}`);
      });
    }
  }

  /** Whether a rank makes a value in a round and something else than the rest of that round needs it. */
  private isMadeIn(node: Node, round: number, rank: number): boolean {
    if (node.op === parameterOp || isAccumulation(node) || node.types.length > 1) return false;
    const home = this.rankOf(node);
    if (home === undefined) return round === 0 && this.outputs.has(node);
    if (home !== rank || this.rounds.get(node) !== round) return false;
    if (this.outputs.has(node) || this.needingUpdate(node, rank).size > 0) return true;
    return (this.users.get(node) as readonly Node[]).some((user) => (this.rounds.get(user) ?? round) !== round);
  }

  private needingUpdate(node: Node, from: number): Set<number> {
    const found = new Set<number>();
    this.graph.outputs.forEach((output, index) => {
      if (output !== node) return;
      this.builders.forEach((_builder, rank) => {
        if (rank !== from && this.holds(rank, index)) found.add(rank);
      });
    });
    for (const user of this.users.get(node) as readonly Node[]) {
      const rank = this.isMicro(user) || isAccumulation(user) ? undefined : this.rankOf(user);
      if (rank !== undefined && rank !== from) found.add(rank);
    }
    return found;
  }
}

/** What must be computed for `roots` from what there is, inputs before users. */
function needed(roots: readonly Node[], has: (node: Node) => boolean): Node[] {
  const found = new Set<Node>();
  const open = [...roots];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (has(node) || found.has(node)) continue;
    found.add(node);
    open.push(...node.inputs);
  }
  return [...found].sort((one, other) => one.id - other.id);
}

/** The node in another trace, with the number of the micro-batch where it is asked for. */
function copied(node: Node, copies: ReadonlyMap<Node, Node>, microBatch: number | undefined): Node {
  if (node.op.name === "axisIndex" && node.attrs["axis"] === microAxis)
    return emit.constant("i32", microBatch as number);
  const inputs = node.inputs.map((input) => copies.get(input) as Node);
  const attrs = Object.fromEntries(
    Object.entries(node.attrs).map(([key, value]) => [key, isGraph(value) ? numbered(value, microBatch) : value]),
  );
  return apply(node.op, inputs, attrs as Attrs);
}

/** A body in which the number of the micro-batch stands for the place on the axis of micro-batches. */
function numbered(body: Graph, microBatch: number | undefined): Graph {
  return traceGraph(body.name, inputSpecs(body), (...inputs) => {
    const copies = new Map<Node, Node>(body.inputs.map((input, index) => [input, inputs[index] as Node]));
    for (const node of topological(body.outputs))
      if (!copies.has(node)) copies.set(node, copied(node, copies, microBatch));
    return body.outputs.map((output) => copies.get(output) as Node);
  });
}

function combined(accumulation: Node, sum: Node, contribution: Node): Node {
  const { reduction } = accumulation.attrs;
  return emit.call(reduction === "sum" ? "add" : String(reduction), [sum, contribution]);
}
