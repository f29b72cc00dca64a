/**
 * @module Weight stashing (PipeDream: Narayanan et al., 2019): a stage updates its parameters within a step, after each micro-batch or after several. A
 * forward pass uses the newest parameters of its stage, or, with a delay, those of some updates before, and the backward pass of the same micro-batch those
 * that its forward pass used.
 */
import { inlineGraph, inputSpecs, traceGraph } from "../../ir/graph.ts";
import type { Graph, Node } from "../../ir/node.ts";
import type { TensorType } from "../../ir/shape.ts";
import { topological } from "../../ir/walk.ts";
import * as emit from "../../ops/emit.ts";
import type { Schedule } from "../../plan/pipeline/index.ts";
import { HeddleError } from "../../util/errors.ts";
import type { BuilderSource, Entry, GraphEntry, ProgramBuilder } from "../builder.ts";

/** What a rank holds and updates: one stage. */
interface Stashing {
  readonly name: string;
  readonly stage: number;
  readonly microBatches: number;
  /** The micro-batches after which there is an update, ascending. */
  readonly after: readonly number[];
  readonly delay: number | undefined;
  /** The key of the input that counts steps, where there is one. */
  readonly step: string;
  /** For each output that is the next value of an input of the stage: the number of that input. */
  readonly updates: ReadonlyMap<number, number>;
  /** The key of an output. */
  readonly keyOf: (output: number) => string;
}

/**
 * Changes the entries of a builder so that the parameters of its stage are updated after each micro-batch; gives the keys of the outputs. An output on the
 * stage is the next value of the input with its name. An input `step`, an i32 scalar, counts steps: updates read the number of earlier updates instead.
 *
 * @throws HeddleError `pipeline` where an update needs other stages, or a result needs the gradients of all micro-batches
 */
export function updateEach(
  builder: ProgramBuilder,
  source: BuilderSource & {
    readonly pipeline: { readonly schedule: Schedule };
    readonly outputStages: readonly (number | undefined)[];
  },
  stage: number,
  keyOf: (output: number) => string,
): (output: number) => string {
  const { name, inputs, outputs, outputStages, pipeline } = source;
  const updates = new Map<number, number>();
  outputs.forEach((output, index) => {
    const input = outputStages[index] === stage ? inputs.findIndex((one) => one.name === output.name) : -1;
    if (input >= 0) updates.set(index, input);
  });
  const { microBatches, delay, ranks } = pipeline.schedule;
  const after = ranks
    .flat()
    .flatMap((action) => (action.kind === "U" && action.stage === stage ? [action.microBatch] : []));
  const step = `input ${inputs.findIndex((one) => one.name === "step" && one.type.shape.length === 0 && one.type.dtype === "i32")}`;
  const writer = new StashWriter({ name, stage, microBatches, after, delay, step, updates, keyOf });
  builder.entries = writer.rewritten(builder.entries);
  for (const entry of builder.entries)
    if (entry.kind === "graph") for (const key of entry.makes) builder.defined.add(key);
  return (output) => writer.finalKey(output);
}

class StashWriter {
  private readonly given: Stashing;
  /** Updates whose values are computed, by output. */
  private readonly updates: ReadonlyMap<number, number>;
  private readonly inputs: ReadonlySet<string>;
  private readonly made: Entry[] = [];
  private readonly starts: GraphEntry[] = [];
  /** The version that each micro-batch uses. */
  private readonly stash = new Map<string, number>();
  private version = 0;
  /** The update after the last backward pass, until it is made. */
  private pending = (): void => {};
  /** The sums so far of each update's gradients. */
  private readonly summed = new Map<string, string>();
  /** What is known before the first micro-batch. */
  private readonly early = new Set<string>();

  constructor(given: Stashing) {
    this.given = given;
    this.updates = new Map([...given.updates].filter(([output]) => !given.keyOf(output).startsWith("input ")));
    this.inputs = new Set([...this.updates.values()].map((input) => `input ${input}`));
  }

  finalKey(output: number): string {
    const input = this.updates.get(output);
    return input === undefined ? this.given.keyOf(output) : this.at(`input ${input}`, this.given.after.length);
  }

  rewritten(entries: readonly Entry[]): Entry[] {
    const isGraph = (entry: Entry): entry is GraphEntry => entry.kind === "graph";
    for (const { graph } of entries.filter(isGraph)) {
      const [, stage, kind] = /^(\d+)([FBW])\d+$/.exec(graph.name) ?? [];
      if (kind === "W") throw this.error("its backward passes are in two parts");
      if (stage !== undefined && Number(stage) !== this.given.stage) throw this.error("its rank has other stages, too");
    }
    const sums = new Set(
      entries
        .filter(isGraph)
        .flatMap(({ graph, makes }) => (/^\d+B\d+$/.test(graph.name) ? makes.filter((key) => /^\d+$/.test(key)) : [])),
    );
    const updating = entries.filter((entry) => isGraph(entry) && entry.graph.name.startsWith("update")) as GraphEntry[];
    for (const entry of entries) {
      // What other stages wait for goes before an update.
      if (entry.kind !== "send") this.flush();
      const action = isGraph(entry) ? /^\d+([FB])(\d+)$/.exec(entry.graph.name) : null;
      if (!isGraph(entry)) this.made.push(entry);
      else if (action !== null) this.act(entry, action[1] as string, action[2] as string, sums, updating);
      else if (updating.includes(entry)) this.finish(entry, sums);
      else {
        if (entry.graph.name === "start") this.starts.push(entry);
        for (const key of entry.makes) this.early.add(key);
        this.made.push(entry);
      }
    }
    this.flush();
    return this.made;
  }

  private flush(): void {
    this.pending();
    this.pending = () => {};
  }

  /** The key of a value that follows from the parameters of a version. */
  private at(key: string, version: number): string {
    const follows = this.inputs.has(key) || this.starts.some(({ makes }) => makes.includes(key));
    return follows && version > 0 ? `${key} @${version}` : key;
  }

  private act(
    entry: GraphEntry,
    kind: string,
    microBatch: string,
    sums: ReadonlySet<string>,
    updating: readonly GraphEntry[],
  ): void {
    const { after, delay } = this.given;
    const group = after.findIndex((last) => last >= Number(microBatch));
    if (kind === "F") this.stash.set(microBatch, delay === undefined ? this.version : Math.max(0, group - delay));
    const version = this.stash.get(microBatch) ?? this.version;
    if (version > this.version) throw this.error(`micro-batch ${microBatch} comes before the update that it needs`);
    const takes = entry.takes.map((key, index) => {
      if (kind === "F" || !sums.has(key)) return this.at(key, version);
      const before = this.summed.get(`${key} ${group}`);
      return before ?? this.zero(key, entry.graph.inputs[index]?.types[0] as TensorType);
    });
    const makes = entry.makes.map((key) => (kind === "B" && sums.has(key) ? `${key} of ${microBatch}` : key));
    this.made.push({ ...entry, takes, makes });
    if (kind === "B")
      for (const key of entry.makes) if (sums.has(key)) this.summed.set(`${key} ${group}`, `${key} of ${microBatch}`);
    if (kind === "B" && after.includes(Number(microBatch)))
      this.pending = () => this.update(microBatch, entry, sums, updating);
  }

  /** The number of earlier updates, from that of earlier steps. */
  private counted(): string {
    const { step, after } = this.given;
    const name = `update ${this.version} of ${step}`;
    if (!this.made.some((entry) => entry.kind === "graph" && entry.makes.includes(name)))
      this.made.push({
        kind: "graph",
        graph: traceGraph("count", [{ name: "step", type: { dtype: "i32", shape: [] } }], (value) => [
          emit.call("add", [
            emit.call("mul", [value as Node, emit.constant("i32", after.length)]),
            emit.constant("i32", this.version),
          ]),
        ]),
        takes: [step],
        makes: [name],
      });
    return name;
  }

  /** Zeros in place of the sum over earlier micro-batches. */
  private zero(key: string, type: TensorType): string {
    const name = `zeros for ${key}`;
    if (!this.made.some((entry) => entry.kind === "graph" && entry.makes.includes(name)))
      this.made.push({
        kind: "graph",
        graph: traceGraph("zeros", [], () => [emit.broadcastTo(emit.constant(type.dtype, 0), type.shape)]),
        takes: [],
        makes: [name],
      });
    return name;
  }

  private update(
    microBatch: string,
    { makes, graph }: GraphEntry,
    sums: ReadonlySet<string>,
    updating: readonly GraphEntry[],
  ): void {
    // Contributions are parts of the mean over the whole batch.
    const { microBatches, after } = this.given;
    const parts = microBatches / (Number(microBatch) - (after[this.version - 1] ?? -1));
    const sent = makes.flatMap((key, index) =>
      sums.has(key) ? [{ key, type: graph.outputs[index]?.types[0] as TensorType }] : [],
    );
    if (sent.length === 0) return;
    const scaled = traceGraph(
      "gradients",
      sent.map(({ key, type }) => ({ name: `v${key}`, type })),
      (...values) =>
        values.map((value, index) => {
          const { dtype, shape } = (sent[index] as { type: TensorType }).type;
          return emit.call("mul", [value, emit.broadcastTo(emit.constant(dtype, parts), shape)]);
        }),
    );
    const own = (key: string): string => `${key} alone`;
    this.made.push({
      kind: "graph",
      graph: scaled,
      takes: sent.map(({ key }) => `${key} of ${microBatch}`),
      makes: sent.map(({ key }) => own(key)),
    });
    const wanted = new Map([...this.updates].map(([output, input]) => [this.given.keyOf(output), `input ${input}`]));
    const known = new Set(sent.map(({ key }) => key));
    const next = this.version + 1;
    for (const entry of updating) {
      const some = only(entry, (key) => wanted.has(key));
      if (some === undefined) continue;
      if (some.takes.some((key) => !/^input /.test(key) && !known.has(key) && !this.early.has(key)))
        throw this.error(
          "an update needs values of other stages, such as the norm of all gradients, so it cannot be made after each micro-batch",
        );
      this.made.push({
        ...some,
        takes: some.takes.map((key) =>
          known.has(key) ? own(key) : key === this.given.step ? this.counted() : this.at(key, this.version),
        ),
        makes: some.makes.map((key) => this.at(wanted.get(key) as string, next)),
      });
    }
    this.version = next;
    for (const start of this.starts)
      this.made.push({
        ...start,
        takes: start.takes.map((key) => this.at(key, next)),
        makes: start.makes.map((key) => this.at(key, next)),
      });
  }

  /** The results that are no updates, after the last micro-batch. */
  private finish(entry: GraphEntry, sums: ReadonlySet<string>): void {
    const keys = new Set([...this.updates.keys()].map((output) => this.given.keyOf(output)));
    const rest = only(entry, (key) => !keys.has(key));
    if (rest === undefined) return;
    if (rest.takes.some((key) => sums.has(key)))
      throw this.error("a result needs the gradients of all micro-batches, which are not summed");
    this.made.push({ ...rest, takes: rest.takes.map((key) => this.at(key, this.version)) });
  }

  private error(what: string): HeddleError {
    return new HeddleError(
      "pipeline",
      `'${this.given.name}': stage ${this.given.stage} is updated within a step, but ${what}`,
      {
        hint: 'pass schedule: "1f1b"',
      },
    );
  }
}

/** The part of an entry that makes some of its values; undefined where it makes none of them. */
function only(entry: GraphEntry, isWanted: (key: string) => boolean): GraphEntry | undefined {
  const { graph, takes, makes } = entry;
  const places = makes.flatMap((key, index) => (isWanted(key) ? [index] : []));
  if (places.length === 0) return undefined;
  const outputs = places.map((place) => graph.outputs[place] as Graph["outputs"][number]);
  const used = new Set(topological(outputs));
  const kept = graph.inputs.flatMap((input, index) => (used.has(input) ? [index] : []));
  const inner: Graph = {
    ...graph,
    outputs,
    inputs: kept.map((index) => graph.inputs[index] as Graph["inputs"][number]),
  };
  return {
    ...entry,
    graph: traceGraph(graph.name, inputSpecs(inner), (...inputs) => inlineGraph(inner, inputs)),
    takes: kept.map((index) => takes[index] as string),
    makes: places.map((place) => makes[place] as string),
  };
}
