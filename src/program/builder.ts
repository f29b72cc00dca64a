/** @module The builder of one rank's program: graphs, sends and receives in order, with values by name. */
import type { Graph } from "../ir/node.ts";
import type { TensorType } from "../ir/shape.ts";
import { invariant } from "../util/errors.ts";
import type { Program, ProgramAxis, Step, ValueId, WorkStep } from "./program.ts";
import { splitGraph, withFrees } from "./split.ts";

/** A program, with the indices of the plan's inputs that it takes and of the plan's outputs that it computes. */
export interface PartProgram {
  readonly program: Program;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** A value that is sent. */
export interface NamedValue {
  readonly key: string;
  readonly type: TensorType;
}

/** The whole pipeline, as far as a builder needs it. */
export interface BuilderSource {
  readonly name: string;
  readonly axes: readonly ProgramAxis[];
  readonly stageAxis: string;
  readonly inputs: readonly { readonly name: string; readonly type: TensorType }[];
  readonly outputs: readonly { readonly name: string; readonly type: TensorType }[];
  readonly donated: readonly (number | undefined)[];
}

/** A graph that is run on named values. */
export interface GraphEntry {
  readonly kind: "graph";
  readonly graph: Graph;
  readonly takes: readonly string[];
  readonly makes: readonly string[];
}

export type Entry =
  | GraphEntry
  | {
      readonly kind: "send" | "receive";
      readonly peer: number;
      readonly values: readonly NamedValue[];
      readonly label: string;
    };

const inputIndex = (key: string): number | undefined => {
  const match = /^input (\d+)$/.exec(key);
  return match === null ? undefined : Number(match[1]);
};

/** Collects the graphs, sends and receives of a rank. A name may be bound again: from then on it means the new value. */
export class ProgramBuilder {
  private readonly source: BuilderSource;
  /** In the order in which they run. */
  entries: Entry[] = [];
  /** The names of values that have been made. */
  readonly defined = new Set<string>();

  constructor(source: BuilderSource) {
    this.source = source;
  }

  /** Whether a value has been computed or received. */
  has(key: string): boolean {
    return this.defined.has(key);
  }

  /** Runs a graph on named values; `makes` names its outputs. */
  run(graph: Graph, takes: readonly string[], makes: readonly string[]): void {
    this.entries.push({ kind: "graph", graph, takes, makes });
    for (const key of makes) this.defined.add(key);
  }

  send(peer: number, values: readonly NamedValue[], label: string): void {
    this.entries.push({ kind: "send", peer, values, label });
  }

  receive(peer: number, values: readonly NamedValue[], label: string): void {
    this.entries.push({ kind: "receive", peer, values, label });
    for (const { key } of values) this.defined.add(key);
  }

  /** The program. `holds` tells which outputs of the pipeline this rank holds. */
  finish(outputKey: (index: number) => string, holds: (output: number) => boolean): PartProgram {
    const outputs = [...this.source.outputs.keys()].filter(holds);
    const needed = [
      ...this.entries.flatMap((entry) =>
        entry.kind === "graph" ? entry.takes : entry.kind === "send" ? entry.values.map(({ key }) => key) : [],
      ),
      ...outputs.map(outputKey),
    ];
    const used = new Set(needed.flatMap((key) => (this.defined.has(key) ? [] : [inputIndex(key) ?? -1])));
    invariant(!used.has(-1), `a pipeline of '${this.source.name}' needs a value that nothing makes`);
    const inputs = [...used].sort((left, right) => left - right);
    return { program: new Numbering(this.source, inputs).program(this.entries, outputs, outputKey), inputs, outputs };
  }
}

/** Numbers the values of a rank. */
class Numbering {
  private readonly source: BuilderSource;
  private readonly inputs: readonly number[];
  private readonly values: TensorType[] = [];
  private readonly ids = new Map<string, ValueId>();
  private readonly steps: WorkStep[] = [];

  constructor(source: BuilderSource, inputs: readonly number[]) {
    this.source = source;
    this.inputs = inputs;
    for (const index of inputs) this.define(`input ${index}`, (source.inputs[index] as { type: TensorType }).type);
  }

  program(entries: readonly Entry[], outputs: readonly number[], outputKey: (index: number) => string): Program {
    for (const entry of entries) this.add(entry);
    const { name, axes } = this.source;
    const inputSpecs = this.inputs.map((index) => this.source.inputs[index] as { name: string; type: TensorType });
    const outputSpecs = outputs.map((index) => {
      const output = this.source.outputs[index] as { name: string; type: TensorType };
      return { ...output, value: this.id(outputKey(index)) };
    });
    const donated = outputs.map((index) => {
      const donor = this.inputs.indexOf(this.source.donated[index] ?? -1);
      return donor < 0 ? undefined : donor;
    });
    const steps: Step[] = withFrees(
      this.steps,
      inputSpecs.length,
      outputSpecs.map(({ value }) => value),
    );
    return { name, axes, inputs: inputSpecs, outputs: outputSpecs, values: this.values, steps, donated };
  }

  private define(key: string, type: TensorType): ValueId {
    this.values.push(type);
    this.ids.set(key, this.values.length - 1);
    return this.values.length - 1;
  }

  private id(key: string): ValueId {
    const id = this.ids.get(key);
    invariant(id !== undefined, `value '${key}' of '${this.source.name}' is used before it is made`);
    return id;
  }

  private add(entry: Entry): void {
    if (entry.kind === "graph") {
      this.inline(entry.graph, entry.takes, entry.makes);
      return;
    }
    const { stageAxis: axis, axes } = this.source;
    const parts = axes.find(({ name }) => name === axis)?.size as number;
    const common = { kind: "collective" as const, op: entry.kind, axis, label: entry.label };
    const attrs = { axis, parts, peer: entry.peer, label: entry.label };
    if (entry.kind === "send") {
      this.steps.push({ ...common, attrs, arguments: entry.values.map(({ key }) => this.id(key)), results: [] });
      return;
    }
    const types = entry.values.map(({ type }) => type);
    const receiveAttrs = {
      ...attrs,
      dtype: (types[0] as TensorType).dtype,
      shapes: types.map(({ shape }) => [...shape]),
    };
    const results = entry.values.map(({ key, type }) => this.define(key, type));
    this.steps.push({ ...common, attrs: receiveAttrs, arguments: [], results });
  }

  /** Appends the steps of a graph's program, with values renumbered for this program. */
  private inline(graph: Graph, takes: readonly string[], makes: readonly string[]): void {
    const inner = splitGraph(graph, this.source.axes);
    const ids = takes.map((key) => this.id(key));
    const renumbered = (value: ValueId): ValueId => {
      const known = ids[value];
      if (known !== undefined) return known;
      this.values.push(inner.values[value] as TensorType);
      ids[value] = this.values.length - 1;
      return this.values.length - 1;
    };
    const regions = inner.steps.filter((step) => step.kind === "run").length;
    let region = 0;
    for (const step of inner.steps) {
      if (step.kind === "free") continue;
      const numbers = { arguments: step.arguments.map(renumbered), results: step.results.map(renumbered) };
      if (step.kind !== "run") this.steps.push({ ...step, ...numbers });
      else {
        const name = regions === 1 ? graph.name : `${graph.name}.${region++}`;
        this.steps.push({ ...step, ...numbers, region: { ...step.region, name } });
      }
    }
    inner.outputs.forEach(({ value }, index) => {
      this.ids.set(makes[index] as string, renumbered(value));
    });
  }
}
