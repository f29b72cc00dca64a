/**
 * @module Stages: the rank that runs each part of a micro-batch's graph. The user assigns parameters to stages; the stage
 * of every other node follows from its dependencies.
 *
 * A forward node runs on the last stage among those of its parameters. A backward node contributes to gradients of some
 * stages and runs on the last of those, where its forward node is, since no later stage needs it. So a node that depends
 * on stages up to `u` and contributes to gradients of stages up to `d` is on stage `min(u, d)`, unless it uses a parameter
 * of a later stage (the product that takes a gradient from one stage to the one before).
 */
import { elementOp } from "../../ir/leaf.ts";
import type { Graph, Node } from "../../ir/node.ts";
import { describeNode } from "../../ir/print.ts";
import { bytesOf, sizeOf } from "../../ir/shape.ts";
import { topological, usersOf } from "../../ir/walk.ts";
import { isAccumulation, microNodes, pipelineError, wholeBatch } from "./micro.ts";
import type { ActionKind } from "./schedule.ts";

/** What the assignment of stages depends on. */
export interface StageOptions {
  readonly stages: number;
  /** For each input whether it is split into micro-batches. */
  readonly batch: readonly boolean[];
  /** For each input the stage that holds it; undefined: all stages. */
  readonly inputs: readonly (number | undefined)[];
  /** For each output the stage that is to hold it; undefined: all stages. */
  readonly outputs: readonly (number | undefined)[];
}

/** Where a node runs. Without a stage: wherever it is needed, since it depends only on values that every stage has. */
export interface StagePlace {
  readonly stage: number | undefined;
  /** The action of a micro-batch; `start` runs once before all micro-batches, `update` once after them. */
  readonly phase: ActionKind | "start" | "update";
}

/** The nodes of a graph with their stages. */
export interface Stages {
  readonly graph: Graph;
  readonly count: number;
  readonly places: ReadonlyMap<Node, StagePlace>;
}

/**
 * Assigns each node of a micro-batch's graph to a stage.
 *
 * @throws HeddleError `pipeline` naming a node that fits no stage: it uses parameters of two stages, or a stage needs a
 * value of a later one.
 */
export function assignStages(graph: Graph, options: StageOptions): Stages {
  return new Assignment(graph, options).run();
}

const none = -1;

class Assignment {
  private readonly graph: Graph;
  private readonly options: StageOptions;
  private readonly order: readonly Node[];
  private readonly users: ReadonlyMap<Node, readonly Node[]>;
  private readonly micro: ReadonlySet<Node>;
  /** Nodes that depend on an accumulation. */
  private readonly afterAccumulation = new Set<Node>();
  /** The last stage that a node depends on; `none` where it depends only on values that all stages have. */
  private readonly lastSource = new Map<Node, number>();
  private readonly stage = new Map<Node, number>();
  private readonly forward = new Set<Node>();
  private readonly places = new Map<Node, StagePlace>();
  private readonly last: number;

  constructor(graph: Graph, options: StageOptions) {
    this.graph = graph;
    this.options = options;
    this.order = topological(graph.outputs);
    this.users = usersOf(this.order);
    this.micro = microNodes(graph, (input) => options.batch[graph.inputs.indexOf(input)] === true);
    this.last = options.stages - 1;
  }

  run(): Stages {
    this.classify();
    this.placeMicro();
    this.findForward();
    this.liftBackward();
    for (const node of this.order) if (this.micro.has(node)) this.placeInAction(node);
    this.checkEdges();
    this.placeUpdates();
    return { graph: this.graph, count: this.options.stages, places: this.places };
  }

  private inputStage(node: Node): number {
    return this.options.inputs[this.graph.inputs.indexOf(node)] ?? none;
  }

  private classify(): void {
    for (const node of this.order) {
      const inputStages = node.inputs.map((input) => this.lastSource.get(input) as number);
      this.lastSource.set(node, Math.max(this.inputStage(node), none, ...inputStages));
      // A sum that depends on the batch alone (the count of a mask) is known before the first action.
      const isLate = isAccumulation(node) && this.lastSource.get(node) !== none;
      if (isLate || node.inputs.some((input) => this.afterAccumulation.has(input))) this.afterAccumulation.add(node);
      if (this.afterAccumulation.has(node) && this.micro.has(node))
        throw wholeBatch(node.inputs.find((input) => this.afterAccumulation.has(input)) as Node);
    }
  }

  /** The stage of the parameter whose gradient an accumulation is: the nearest parameter whose update uses it. */
  private readonly targetOf = (accumulation: Node): number | undefined => {
    // Same-sized values first: a norm over all gradients enters every update, too, but as a scalar.
    const size = sizeOf(accumulation.shape);
    return this.nearest(accumulation, (node) => sizeOf(node.shape) === size) ?? this.nearest(accumulation, () => true);
  };

  private nearest(from: Node, passes: (node: Node) => boolean): number | undefined {
    const seen = new Set<Node>([from]);
    for (let ring: readonly Node[] = [from]; ring.length > 0; ) {
      const stages = ring.flatMap((node) =>
        this.graph.outputs.flatMap((output, index) => (output === node ? [this.options.outputs[index]] : [])),
      );
      const assigned = stages.filter((stage) => stage !== undefined);
      if (assigned.length > 0) return Math.max(...assigned);
      const next = ring.flatMap((node) => this.users.get(node) ?? []).filter((node) => !seen.has(node) && passes(node));
      for (const node of next) seen.add(node);
      ring = [...new Set(next)];
    }
    return undefined;
  }

  private placeMicro(): void {
    const lastTarget = new Map<Node, number>();
    for (const node of [...this.order].reverse()) {
      if (!this.micro.has(node)) continue;
      const targets = (this.users.get(node) as readonly Node[]).map((user) =>
        isAccumulation(user) ? (this.targetOf(user) ?? this.last) : (lastTarget.get(user) ?? none),
      );
      lastTarget.set(node, Math.max(none, ...targets));
    }
    for (const node of this.order) {
      if (!this.micro.has(node) || this.inputStage(node) !== none) continue;
      const source = this.lastSource.get(node) as number;
      if (source === none) continue;
      // An element is on the stage of its tuple.
      if (node.op === elementOp) {
        this.stage.set(node, this.stage.get(node.inputs[0] as Node) as number);
        continue;
      }
      const fixed = node.inputs.filter((input) => !this.micro.has(input) && this.lastSource.get(input) !== none);
      const needed = Math.max(none, ...fixed.map((input) => this.lastSource.get(input) as number));
      const stage = Math.max(Math.min(source, lastTarget.get(node) as number), needed);
      for (const input of fixed) this.checkOnStage(node, stage, input);
      this.stage.set(node, stage);
    }
  }

  /** A value that is the same for all micro-batches is not sent: it must be on the stage that uses it. */
  private checkOnStage(node: Node, stage: number, input: Node): void {
    const owners = topological([input]).filter((owner) => this.inputStage(owner) !== none);
    const stranger = owners.find((owner) => this.inputStage(owner) !== stage);
    if (stranger === undefined) return;
    const name = String(stranger.attrs["name"]);
    throw pipelineError(
      `'${name}' is on stage ${this.inputStage(stranger)}, but ${describeNode(node)} needs it on stage ${stage}`,
      node,
      "give the stages in the order of the network, and layers that share a parameter the same stage",
    );
  }

  /** Forward nodes are those that a later stage or an output for the user needs. The other nodes wait for gradients. */
  private findForward(): void {
    const sinks = this.order.filter(
      (node) =>
        this.micro.has(node) &&
        (this.users.get(node) as readonly Node[]).some((user) =>
          isAccumulation(user)
            ? this.targetOf(user) === undefined
            : (this.stage.get(user) ?? none) > (this.stage.get(node) ?? this.last),
        ),
    );
    for (const node of topological(sinks)) if (this.micro.has(node)) this.forward.add(node);
  }

  /** A sum of two gradients from a later stage is computed there, so that one value is sent instead of two. */
  private liftBackward(): void {
    for (const node of this.order) {
      const stage = this.stage.get(node);
      if (stage === undefined || this.forward.has(node) || node.op === elementOp || node.types.length > 1) continue;
      const sources = [...new Set(node.inputs)].filter((input) => this.stage.has(input));
      const from = this.stage.get(sources[0] ?? node) as number;
      if (from <= stage || sources.some((input) => this.stage.get(input) !== from || this.forward.has(input))) continue;
      if (node.inputs.some((input) => !this.micro.has(input) && this.lastSource.get(input) !== none)) continue;
      const bytes = (nodes: readonly Node[]): number =>
        nodes.flatMap(({ types }) => types).reduce((total, type) => total + bytesOf(type), 0);
      if (bytes([node]) < bytes(sources)) this.stage.set(node, from);
    }
  }

  private placeInAction(node: Node): void {
    const source = node.op === elementOp ? (node.inputs[0] as Node) : node;
    this.places.set(node, { stage: this.stage.get(node), phase: this.forward.has(source) ? "F" : "B" });
  }

  private checkEdges(): void {
    for (const node of this.order) {
      const to = this.places.get(node);
      if (to?.stage === undefined) continue;
      for (const input of node.inputs) {
        const from = this.places.get(input);
        if (from?.stage === undefined || follows(from.stage, from.phase, to.stage, to.phase)) continue;
        throw pipelineError(
          `${describeNode(node)} of stage ${to.stage} needs ${describeNode(input)} of stage ${from.stage}, which comes later: the graph is not a pipeline of these stages`,
          node,
        );
      }
    }
  }

  /** Accumulations are on the stage of their contributions, updates on the stage that holds their result. */
  private placeUpdates(): void {
    const lastHolder = new Map<Node, number>();
    for (const node of [...this.order].reverse()) {
      if (this.micro.has(node)) continue;
      const holders = this.graph.outputs.flatMap((output, index) =>
        output === node ? [this.options.outputs[index] ?? this.last] : [],
      );
      const userStages = (this.users.get(node) as readonly Node[]).map((user) => lastHolder.get(user) ?? none);
      lastHolder.set(node, Math.max(none, ...holders, ...userStages));
    }
    const sourceStage = new Map<Node, number>();
    for (const node of this.order) {
      if (this.micro.has(node)) continue;
      if (isAccumulation(node)) sourceStage.set(node, this.places.get(node.inputs[0] as Node)?.stage ?? none);
      else {
        const inputStage = this.inputStage(node);
        sourceStage.set(
          node,
          Math.max(inputStage, none, ...node.inputs.map((input) => sourceStage.get(input) ?? none)),
        );
      }
      const source = sourceStage.get(node) as number;
      const fixed = isAccumulation(node) || this.inputStage(node) !== none;
      const stage = source === none ? undefined : fixed ? source : Math.min(source, lastHolder.get(node) as number);
      this.places.set(node, { stage, phase: this.afterAccumulation.has(node) ? "update" : "start" });
    }
  }
}

/** Whether an action comes after another of the same micro-batch in every schedule. */
function follows(from: number, phase: string, to: number, nextPhase: string): boolean {
  if (phase === "F" && nextPhase === "F") return from <= to;
  if (phase === "B" && nextPhase === "B") return from >= to;
  return phase === "F";
}
