/**
 * @module Chains of eager calls. An elementwise call on little memory that is made again and again is not run at once: its result
 * records the call. A call that takes such a result continues the chain, and a chain that is made again and again is one program.
 */

import { type Compiled, compileGraph, runCompiled } from "../compile/compile.ts";
import type { Value } from "../compile/value.ts";
import { inlineGraph, traceGraph } from "../ir/graph.ts";
import type { Graph, Node } from "../ir/node.ts";
import { bytesOf, sameShape, type TensorType } from "../ir/shape.ts";
import { Trace } from "../ir/trace.ts";
import { topological } from "../ir/walk.ts";
import { isOp, isPointwise } from "../passes/match.ts";
import type { Runtime } from "../runtime/devices.ts";

/** Most bytes of an operand and of a result: a recorded call keeps its operands. */
const mostBytes = 64 * 1024;
const mostCalls = 16;
/** Most operands of a chain that are no results of the chain itself, and most operands of a call. */
const mostOperands = 8;
const mostOfCall = 3;
/** Calls of a kind before one is recorded, and runs of a chain before the chain is compiled, which takes as long as many runs. */
const warmCalls = 64;
const warmRuns = 128;
/** Most chains that are known; then all are forgotten, and new ones are compiled more seldom. */
const mostChains = 2048;

let chains = 0;
let links = 0;
let generation = 0;

/** Calls of the same kinds, one after another, on operands of which the same are equal. */
interface Chain {
  readonly before: Chain | undefined;
  readonly last: Link;
  /** The operands of the last call: 0 is the result of the chain before, k is operand k - 1 of the chain. */
  readonly places: readonly number[];
  readonly calls: number;
  readonly generation: number;
  /** Chains with one more call. */
  readonly next: Map<number, Chain>;
  runs: number;
  compiled: Compiled | undefined;
}

/** A kind of elementwise call: what it computes, and the chains that begin with it. */
export class Link {
  readonly graph: Graph;
  readonly compiled: Compiled;
  readonly type: TensorType;
  private readonly number = links++;
  private first = new Map<number, Chain>();
  private generation = generation;
  private calls = 0;

  private constructor(graph: Graph, compiled: Compiled, type: TensorType) {
    this.graph = graph;
    this.compiled = compiled;
    this.type = type;
  }

  /** The kind of the calls of a graph; undefined if such a call is always run at once. */
  static of(graph: Graph, compiled: Compiled): Link | undefined {
    const { axes, local } = compiled.runtime;
    const { inputs, outputs } = graph;
    const isSingle = axes.length === 0 && local.length === 1 && outputs.length === 1 && inputs.length <= mostOfCall;
    if (!isSingle || ![...inputs, ...outputs].every(isSmall) || !topological(outputs).every(isElementwise)) return;
    return new Link(graph, compiled, (outputs[0] as Node).types[0] as TensorType);
  }

  /** The result of a call, computed when its memory is needed; undefined if the call is to be run now. */
  resultOf(values: readonly Value[]): Value | undefined {
    if (this.calls < warmCalls) {
      this.calls++;
      return undefined;
    }
    for (const value of values) {
      if (!(value instanceof Recorded)) continue;
      const chain = value.chainFor(this.type);
      const result = chain === undefined ? undefined : this.record(values, value, chain);
      if (result !== undefined) return result;
    }
    return this.record(values, undefined, undefined);
  }

  private record(values: readonly Value[], before: Recorded | undefined, chain: Chain | undefined): Value | undefined {
    const { runtime } = this.compiled;
    const known = before === undefined ? [] : before.operands;
    let operands = known;
    let key = this.number;
    for (let index = 0; index < mostOfCall; index++) {
      const value = values[index];
      let place = 0;
      if (value !== undefined && value !== before) {
        place = operands.indexOf(value) + 1;
        if (place === 0) {
          if (operands.length === mostOperands || !isKept(value, runtime)) return undefined;
          operands = [...operands, value];
          place = operands.length;
        }
      }
      key = key * (mostOperands + 1) + place;
    }
    before?.take();
    return new Recorded(this.type, runtime, this.chain(key, values, operands, before, chain), operands);
  }

  private chain(
    key: number,
    values: readonly Value[],
    operands: readonly Value[],
    result: Recorded | undefined,
    before: Chain | undefined,
  ): Chain {
    if (this.generation !== generation) [this.first, this.generation] = [new Map(), generation];
    const siblings = before === undefined ? this.first : before.next;
    let chain = siblings.get(key);
    if (chain !== undefined) return chain;
    const places = values.map((value) => (value === result ? 0 : operands.indexOf(value) + 1));
    const calls = (before?.calls ?? 0) + 1;
    chain = { before, last: this, places, calls, generation, next: new Map(), runs: 0, compiled: undefined };
    siblings.set(key, chain);
    if (++chains > mostChains) {
      chains = 0;
      generation++;
    }
    return chain;
  }
}

/** The result of a chain, computed when its memory is needed. */
class Recorded implements Value {
  readonly type: TensorType;
  readonly runtime: Runtime;
  readonly layout: Value["layout"] = [];
  operands: readonly Value[];
  private chain: Chain | undefined;
  private taken = false;
  private made: Value["shards"] | undefined;

  constructor(type: TensorType, runtime: Runtime, chain: Chain, operands: readonly Value[]) {
    this.type = type;
    this.runtime = runtime;
    this.chain = chain;
    this.operands = operands;
  }

  /** The chain that a call with a result of this type can continue. A result that was taken once is computed for the next call. */
  chainFor({ shape }: TensorType): Chain | undefined {
    const { chain } = this;
    if (chain === undefined || this.taken || chain.calls === mostCalls || chain.generation !== generation) return;
    return sameShape(shape, this.type.shape) ? chain : undefined;
  }

  /** A call has taken the result, and computes it itself. */
  take(): void {
    this.taken = true;
  }

  get shards(): Value["shards"] {
    if (this.made !== undefined) return this.made;
    this.made = run(this.chain as Chain, this.operands).shards;
    [this.chain, this.operands] = [undefined, []];
    return this.made;
  }

  /** The shards that this value owns. */
  get held(): Value["shards"] {
    return this.made ?? [];
  }
}

function run(chain: Chain, operands: readonly Value[]): Value {
  if (chain.calls === 1 || chain.runs < warmRuns * (chain.generation + 1)) {
    chain.runs++;
    return runEach(chain, operands);
  }
  chain.compiled ??= compileChain(chain, operands);
  return runCompiled(chain.compiled, operands)[0] as Value;
}

/** Runs one call after another. */
function runEach({ before, last, places }: Chain, operands: readonly Value[]): Value {
  const result = before === undefined ? undefined : runEach(before, operands);
  const values = places.map((place) => (place === 0 ? result : operands[place - 1]) as Value);
  return runCompiled(last.compiled, values)[0] as Value;
}

function compileChain(chain: Chain, operands: readonly Value[]): Compiled {
  const { graph, compiled } = chain.last;
  const specs = operands.map(({ type }, index) => ({ name: `x${index}`, type }));
  const nodesOf = ({ before, last, places }: Chain, inputs: readonly Node[]): Node[] => {
    const [result] = before === undefined ? [] : nodesOf(before, inputs);
    return inlineGraph(
      last.graph,
      places.map((place) => (place === 0 ? result : inputs[place - 1]) as Node),
    );
  };
  const body = (...inputs: Node[]): Node[] => nodesOf(chain, inputs);
  return compileGraph(traceGraph(graph.name, specs, body, new Trace(false)), compiled.runtime);
}

const isSmall = ({ types: [type] }: Node): boolean =>
  (type?.dtype === "f32" || type?.dtype === "f64") && bytesOf(type) <= mostBytes;

/** Whether a node has the same bits in any program: sums would not, and no float is refused. */
const isElementwise = (node: Node): boolean =>
  isSmall(node) &&
  (node.op.name === "parameter" || isOp(node, "constant") || isOp(node, "broadcast") || isPointwise(node));

/** Whether the memory of an operand is there, and can be kept as it is. */
function isKept(value: Value, runtime: Runtime): boolean {
  const [shard] = value.shards;
  if (value.runtime !== runtime || shard?.keep === undefined || !shard.ready) return false;
  shard.keep();
  return true;
}
