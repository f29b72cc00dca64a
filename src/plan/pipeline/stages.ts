/**
 * @module Stages: which part of a micro-batch's graph runs where. The user says on which stage the parameters are; every
 * node follows from its dependencies.
 *
 * A forward node runs on the last stage that its parameters come from. A backward node contributes to gradients of some
 * stages and runs on the last of those, which is where its forward node is: nothing later needs it. So of a node that
 * depends on stages up to `u` and contributes to gradients of stages up to `d`, the stage is `min(u, d)`, unless it uses
 * a parameter of a later stage (the product that takes a gradient from one stage to the one before).
 */
import { elementOp } from "../../ir/leaf.ts";
import type { Graph, Node } from "../../ir/node.ts";
import { describeNode } from "../../ir/print.ts";
import { bytesOf, sizeOf } from "../../ir/shape.ts";
import { topological, usersOf } from "../../ir/walk.ts";
import { isAccumulation, microNodes, pipelineError, wholeBatch } from "./micro.ts";
import type { ActionKind } from "./schedule.ts";

/** What stages are found from. */
export interface StageOptions {
  readonly stages: number;
  /** For each input whether it is cut into micro-batches. */
  readonly batch: readonly boolean[];
  /** For each input the stage that holds it; undefined: every stage does. */
  readonly inputs: readonly (number | undefined)[];
  /** For each output the stage that is to hold it; undefined: every stage. */
  readonly outputs: readonly (number | undefined)[];
}

/** Where a node runs. Without a stage: wherever it is needed, since it depends on what every stage has. */
export interface StagePlace {
  readonly stage: number | undefined;
  /** The action of a micro-batch; `update` is once, after all of them; `start` once, before them. */
  readonly phase: ActionKind | "start" | "update";
}

/** The nodes of a graph with their places. */
export interface Stages {
  readonly graph: Graph;
  readonly count: number;
  readonly places: ReadonlyMap<Node, StagePlace>;
}

/**
 * Assigns each node of a micro-batch's graph to a stage.
 *
 * @throws HeddleError `pipeline` naming a node that has no place: it uses parameters of two stages, or what a stage makes
 * is needed by one before it.
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
  /** What depends on an accumulation. */
  private readonly after = new Set<Node>();
  /** The last stage that a node depends on; `none` where it depends on what all stages have. */
  private readonly up = new Map<Node, number>();
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
      const above = node.inputs.map((input) => this.up.get(input) as number);
      this.up.set(node, Math.max(this.inputStage(node), none, ...above));
      // A sum over the batch alone (the count of a mask) is known before the first action.
      const late = isAccumulation(node) && this.up.get(node) !== none;
      if (late || node.inputs.some((input) => this.after.has(input))) this.after.add(node);
      if (this.after.has(node) && this.micro.has(node))
        throw wholeBatch(node.inputs.find((input) => this.after.has(input)) as Node);
    }
  }

  /** The stage of the parameter that an accumulation is for: the nearest one whose new value it enters. */
  private readonly targetOf = (accumulation: Node): number | undefined => {
    // Elementwise first: a norm over all gradients enters every update, but not elementwise.
    const size = sizeOf(accumulation.shape);
    return this.nearest(accumulation, (node) => sizeOf(node.shape) === size) ?? this.nearest(accumulation, () => true);
  };

  private nearest(from: Node, passes: (node: Node) => boolean): number | undefined {
    const seen = new Set<Node>([from]);
    for (let ring: readonly Node[] = [from]; ring.length > 0; ) {
      const stages = ring.flatMap((node) =>
        this.graph.outputs.flatMap((output, index) => (output === node ? [this.options.outputs[index]] : [])),
      );
      const held = stages.filter((stage) => stage !== undefined);
      if (held.length > 0) return Math.max(...held);
      const next = ring.flatMap((node) => this.users.get(node) ?? []).filter((node) => !seen.has(node) && passes(node));
      for (const node of next) seen.add(node);
      ring = [...new Set(next)];
    }
    return undefined;
  }

  private placeMicro(): void {
    const down = new Map<Node, number>();
    for (const node of [...this.order].reverse()) {
      if (!this.micro.has(node)) continue;
      const targets = (this.users.get(node) as readonly Node[]).map((user) =>
        isAccumulation(user) ? (this.targetOf(user) ?? this.last) : (down.get(user) ?? none),
      );
      down.set(node, Math.max(none, ...targets));
    }
    for (const node of this.order) {
      if (!this.micro.has(node) || this.inputStage(node) !== none) continue;
      const up = this.up.get(node) as number;
      if (up === none) continue;
      // A result is where the node with several results is.
      if (node.op === elementOp) {
        this.stage.set(node, this.stage.get(node.inputs[0] as Node) as number);
        continue;
      }
      const held = node.inputs.filter((input) => !this.micro.has(input) && this.up.get(input) !== none);
      const wanted = Math.max(none, ...held.map((input) => this.up.get(input) as number));
      const stage = Math.max(Math.min(up, down.get(node) as number), wanted);
      for (const input of held) this.checkHeld(node, stage, input);
      this.stage.set(node, stage);
    }
  }

  /** What is the same for all micro-batches does not travel: it must be where it is used. */
  private checkHeld(node: Node, stage: number, input: Node): void {
    const owners = topological([input]).filter((one) => this.inputStage(one) !== none);
    const elsewhere = owners.find((one) => this.inputStage(one) !== stage);
    if (elsewhere === undefined) return;
    const name = String(elsewhere.attrs["name"]);
    throw pipelineError(
      `'${name}' is on stage ${this.inputStage(elsewhere)}, but ${describeNode(node)} needs it on stage ${stage}`,
      node,
      "give the stages in the order of the network, and what shares a parameter to one stage",
    );
  }

  /** Forward is what the outputs for the user, or a later stage, need. The rest waits for gradients. */
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

  /** A sum of two gradients of a later stage is made there, so that one value travels, not two. */
  private liftBackward(): void {
    for (const node of this.order) {
      const stage = this.stage.get(node);
      if (stage === undefined || this.forward.has(node) || node.op === elementOp || node.types.length > 1) continue;
      const sources = [...new Set(node.inputs)].filter((input) => this.stage.has(input));
      const from = this.stage.get(sources[0] ?? node) as number;
      if (from <= stage || sources.some((input) => this.stage.get(input) !== from || this.forward.has(input))) continue;
      if (node.inputs.some((input) => !this.micro.has(input) && this.up.get(input) !== none)) continue;
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
          `${describeNode(node)} of stage ${to.stage} needs ${describeNode(input)} of stage ${from.stage}, which comes later: the graph is no pipeline of these stages`,
          node,
        );
      }
    }
  }

  /** Accumulations are where their contributions are; updates where what they give is held. */
  private placeUpdates(): void {
    const down = new Map<Node, number>();
    for (const node of [...this.order].reverse()) {
      if (this.micro.has(node)) continue;
      const held = this.graph.outputs.flatMap((output, index) =>
        output === node ? [this.options.outputs[index] ?? this.last] : [],
      );
      const below = (this.users.get(node) as readonly Node[]).map((user) => down.get(user) ?? none);
      down.set(node, Math.max(none, ...held, ...below));
    }
    const from = new Map<Node, number>();
    for (const node of this.order) {
      if (this.micro.has(node)) continue;
      if (isAccumulation(node)) from.set(node, this.places.get(node.inputs[0] as Node)?.stage ?? none);
      else {
        const own = this.inputStage(node);
        from.set(node, Math.max(own, none, ...node.inputs.map((input) => from.get(input) ?? none)));
      }
      const up = from.get(node) as number;
      const fixed = isAccumulation(node) || this.inputStage(node) !== none;
      const stage = up === none ? undefined : fixed ? up : Math.min(up, down.get(node) as number);
      this.places.set(node, { stage, phase: this.after.has(node) ? "update" : "start" });
    }
  }
}

/** Whether an action comes after another of the same micro-batch in every schedule. */
function follows(from: number, phase: string, to: number, nextPhase: string): boolean {
  if (phase === "F" && nextPhase === "F") return from <= to;
  if (phase === "B" && nextPhase === "B") return from >= to;
  return phase === "F";
}
