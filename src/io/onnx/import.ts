/**
 * @module Reading an ONNX model: its nodes are composed of tensors' operations, by the table of `ops.ts`, whenever the
 * model is applied, so that it can be compiled, differentiated and sharded as any function.
 */
import type { DType } from "../../ir/dtype.ts";
import type { HostTensor, Node } from "../../ir/node.ts";
import { formatType, sizeOf } from "../../ir/shape.ts";
import type { Layer } from "../../nn/index.ts";
import { evaluateGraph } from "../../ops/index.ts";
import { evalShape, isTensor, jit, random, Tensor, type Tensors } from "../../tensor/index.ts";
import { traceFunction } from "../../tensor/tracing.ts";
import { HeddleError } from "../../util/errors.ts";
import { checkOptions } from "../../util/options.ts";
import { called } from "../../util/source.ts";
import { toTensor } from "../host.ts";
import { readWhole } from "../read.ts";
import { type BuildGraph, NodeContext, type Result, type Row, Value } from "./context.ts";
import { type GraphProto, type ModelProto, type NodeProto, readModel, type TensorProto } from "./messages.ts";
import { newestOpset, oldestOpset, rowOf } from "./ops.ts";
import { dtypeOfCode, hostOfProto, readExternal } from "./tensors.ts";
import { isConstantInput, weightsOf } from "./weights.ts";

/** An input or output of a model: sizes that are not fixed are named, or `"?"`. */
export interface OnnxPort {
  readonly name: string;
  readonly dtype: DType;
  /** Undefined where the file does not even tell the rank. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** A tensor by the name of an input, or `{ dtype, shape, data }` where shapes depend on its values. */
export interface OnnxInputs {
  readonly [name: string]: Tensor | HostTensor;
}

/** Options of {@link loadOnnx}. */
export interface OnnxOptions {
  /** What messages call it; default the path. */
  readonly file?: string;
}

/** Options of {@link OnnxModel.apply} and {@link OnnxModel.run}. */
export interface OnnxRunOptions {
  /** Random key (u32[2]), which nodes that draw without a seed of their own need. */
  readonly key?: Tensor | undefined;
}

/** Values that are folded have at most so many elements: shapes and small tables, not weights. */
const largestFolded = 65_536;

/** A model read from an ONNX file. */
export class OnnxModel {
  readonly inputs: readonly OnnxPort[];
  readonly outputs: readonly OnnxPort[];
  /** The version of ONNX's own ops that the file asks for. */
  readonly opset: number;
  /** The ops that the model consists of, each once. */
  readonly ops: readonly string[];
  /** The weights of the file by name, which can be trained: its float initializers, without those that are constants. */
  readonly params: { readonly [name: string]: Tensor };
  readonly #graph: GraphProto;
  readonly #initial: ReadonlyMap<string, Value>;
  readonly #file: string;
  readonly #compiled: (params: Tensors, inputs: Tensors, drawn: OnnxRunOptions) => Record<string, Tensor>;

  /** @internal */
  constructor(model: ModelProto, graph: GraphProto, initial: ReadonlyMap<string, HostTensor>, file: string) {
    const opset = opsetOf(model, file);
    this.#graph = graph;
    this.#file = file;
    this.opset = opset;
    this.ops = [...new Set(opsOf(graph))].sort();
    this.inputs = graph.input.filter(({ name }) => !initial.has(name ?? "")).map((info) => portOf(info, file));
    this.outputs = graph.output.map((info) => portOf(info, file));
    const weights = weightsOf(model, graph, initial);
    const values = [...initial].map(([name, host]) => {
      const value = weights.has(name) ? new Value(toTensor(host), { host }) : new Value(host);
      return [name, value] as const;
    });
    this.#initial = new Map(values);
    this.params = Object.fromEntries(
      values.filter(([name]) => weights.has(name)).map(([name, { tensor }]) => [name, tensor]),
    );
    this.#compiled = jit((params: Tensors, inputs: Tensors, drawn: OnnxRunOptions) =>
      this.apply(inputs as OnnxInputs, params, drawn),
    );
  }

  /**
   * The outputs by name: an ordinary function of tensors, for use within `jit`, `grad` or a model of one's own.
   *
   * @param params weights in place of the file's, by name; other tensors of the file may be replaced too
   * @param options `key` for nodes that draw random numbers
   * @throws HeddleError `argument` for a missing input or key; `dynamic` where a shape depends on values; what an op refuses, each
   * with the node and the file.
   */
  apply(inputs: OnnxInputs, params: Tensors = this.params, options: OnnxRunOptions = {}): Record<string, Tensor> {
    checkOptions(`${this.#file}: apply`, options, ["key"]);
    const values = new Map<string, Value>();
    for (const [name, value] of this.#initial) values.set(name, this.#held(name, value, params));
    for (const port of this.inputs) values.set(port.name, new Value(this.#given(port, inputs)));
    const names = new Set(this.inputs.map(({ name }) => name));
    const unknown = Object.keys(inputs).find((name) => !names.has(name));
    if (unknown !== undefined) {
      throw new HeddleError("argument", `${this.#file} has no input "${unknown}"`, {
        hint: `its inputs are ${[...names].join(", ")}`,
      });
    }
    const builder = new Builder(this.opset, this.#file, options.key);
    const outputs = builder.run(this.#graph, values, undefined);
    return Object.fromEntries(outputs.map((value, index) => [this.outputs[index]?.name, value.tensor]));
  }

  /** Like {@link OnnxModel.apply}, compiled once for each shape of the inputs. */
  run(inputs: OnnxInputs, options: OnnxRunOptions = {}): Record<string, Tensor> {
    checkOptions(`${this.#file}: run`, options, ["key"]);
    const drawn = options.key === undefined ? {} : { key: options.key };
    const known = Object.entries(inputs).filter(([, input]) => !isTensor(input));
    if (known.length > 0) {
      const rest = Object.fromEntries(Object.entries(inputs).filter(([, input]) => isTensor(input)));
      const fixed = Object.fromEntries(known);
      return jit((params: Tensors, given: Tensors, own: OnnxRunOptions) =>
        this.apply({ ...(given as OnnxInputs), ...fixed }, params, own),
      )(this.params, rest as Tensors, drawn);
    }
    return this.#compiled(this.params, inputs as Tensors, drawn);
  }

  /**
   * The model as a layer of one input and one output, with the weights as its parameters: for `nn.sequential`, `train` and
   * fine-tuning.
   *
   * @throws HeddleError `model` when it has several.
   */
  layer(): Layer {
    const [input, output] = [this.inputs[0], this.outputs[0]];
    if (input === undefined || output === undefined || this.inputs.length !== 1 || this.outputs.length !== 1) {
      throw new HeddleError(
        "model",
        `${this.#file} has ${this.inputs.length} inputs and ${this.outputs.length} outputs; a layer has one of each`,
        { hint: "call apply({ name: tensor, … }) in a function of your own" },
      );
    }
    const apply = (params: Tensors, x: Tensor, key?: Tensor): Tensor =>
      this.apply({ [input.name]: x }, params, { key })[output.name] as Tensor;
    return {
      kind: "onnx",
      init: (key, type) => ({
        params: this.params,
        state: {},
        output: evalShape((x) => apply(this.params, x, key), type),
      }),
      apply: ({ params }, x, { key } = {}) => ({ y: apply(params, x, key), state: {} }),
    };
  }

  /** A tensor of the file, or what is given in its place. Only weights are known by what the file has where they are replaced. */
  #held(name: string, value: Value, params: Tensors): Value {
    const given = (params as { readonly [name: string]: Tensor })[name];
    if (given === undefined) return value.folds ? value : new Value(value.host as HostTensor);
    return value.folds ? new Value(given) : new Value(given, { host: value.host as HostTensor });
  }

  #given({ name, dtype, shape }: OnnxPort, inputs: OnnxInputs): Tensor | HostTensor {
    const given = inputs[name];
    if (given === undefined) {
      throw new HeddleError("argument", `${this.#file}: input "${name}" is missing`, {
        hint: `apply takes { ${this.inputs.map((port) => port.name).join(", ")} }`,
      });
    }
    const fits =
      given.dtype === dtype &&
      (shape === undefined ||
        (shape.length === given.shape.length &&
          shape.every((size, dim) => typeof size === "string" || size === given.shape[dim])));
    if (!fits) {
      const wanted = `${dtype}${shape === undefined ? "" : `[${shape.join(",")}]`}`;
      throw new HeddleError("shape", `${this.#file}: input "${name}" is ${wanted}, got ${formatType(given)}`);
    }
    return given;
  }
}

const opsOf = (graph: GraphProto): string[] =>
  graph.node.flatMap(({ opType = "", attribute }) => [
    opType,
    ...attribute.flatMap(({ g }) => (g === undefined ? [] : opsOf(g))),
  ]);

function portOf(info: GraphProto["input"][number], file: string): OnnxPort {
  const name = info.name ?? "";
  const tensor = info.type?.tensorType;
  if (tensor?.elemType === undefined) {
    throw new HeddleError("model", `${file}: "${name}" is no tensor`, {
      hint: "sequences, maps and optional values have no counterpart in Heddle",
    });
  }
  const shape = tensor.shape?.dim.map(({ dimValue, dimParam }) => dimValue ?? dimParam ?? "?");
  return { name, dtype: dtypeOfCode(tensor.elemType, `"${name}" of ${file}`), shape };
}

/** The name of a node in messages. */
const describe = (node: NodeProto): string =>
  `node ${node.name === undefined || node.name === "" ? `of "${node.output[0] ?? ""}"` : `"${node.name}"`} (${node.opType})`;

class Builder {
  readonly #opset: number;
  readonly #file: string;
  readonly #key: Tensor | undefined;
  /** How many nodes have drawn so far: each draws from a key of its own. */
  #draws = 0;
  readonly #seeded = new Map<NodeProto, number>();

  constructor(opset: number, file: string, key: Tensor | undefined) {
    this.#opset = opset;
    this.#file = file;
    this.#key = key;
  }

  /** The key of the next node that draws: that of its seed stays the same whatever other nodes draw. */
  #keyOf(node: NodeProto, seed: number | undefined): Tensor {
    if (seed !== undefined) {
      // A node within a loop that is written out draws anew in each iteration.
      const times = this.#seeded.get(node) ?? 0;
      this.#seeded.set(node, times + 1);
      return random.foldIn(random.key(new Uint32Array(Float32Array.of(seed).buffer)[0] as number), times);
    }
    if (this.#key === undefined) {
      throw new HeddleError("argument", "draws random numbers, but has no seed, and no key was given", {
        hint: "apply or run the model with { key: random.key(0) }",
      });
    }
    return random.foldIn(this.#key, this.#draws++);
  }

  /** The outputs of a graph, whose values by name are put into `values`; `outer` are those around a graph of an attribute. */
  run(
    graph: GraphProto,
    values: Map<string, Value>,
    outer: ((name: string) => Value | undefined) | undefined,
  ): Value[] {
    const find = (name: string): Value | undefined => values.get(name) ?? outer?.(name);
    const found = (name: string, what: string): Value => {
      const value = find(name);
      if (value === undefined)
        throw new HeddleError("format", `${this.#file}: ${what} "${name}", which nothing before it makes`);
      return value;
    };
    for (const node of graph.node) {
      const inputs = node.input.map((name, index) =>
        name === "" ? undefined : asTaken(node, index, found(name, `${describe(node)} takes`)),
      );
      const results = this.#node(node, inputs, find);
      node.output.forEach((name, index) => {
        const result = results[index];
        if (name === "") return;
        if (result !== undefined) values.set(name, result);
        else throw this.#located(node, new HeddleError("op", `gives no result ${index} here ("${name}")`));
      });
    }
    return graph.output.map(({ name = "" }) => found(name, "an output is"));
  }

  #context(node: NodeProto, inputs: readonly (Value | undefined)[], buildGraph: BuildGraph): NodeContext {
    return new NodeContext(node, inputs, this.#opset, { buildGraph, keyOf: (seed) => this.#keyOf(node, seed) });
  }

  #located(node: NodeProto, error: HeddleError): HeddleError {
    const Kind = error.constructor as typeof HeddleError;
    const hint = error.hint === undefined ? {} : { hint: error.hint };
    return new Kind(error.code, `${this.#file}: ${describe(node)}: ${error.plain}`, { ...hint, cause: error });
  }

  #node(node: NodeProto, inputs: readonly (Value | undefined)[], find: (name: string) => Value | undefined): Value[] {
    // A name for the same value, which stays known.
    if (node.opType === "Identity" && inputs[0] !== undefined) return [inputs[0]];
    const row = rowOf(node, this.#opset, this.#file);
    const build = (graph: GraphProto, given: readonly Value[]): Value[] => {
      const values = new Map(graph.input.map(({ name = "" }, index) => [name, given[index] as Value]));
      for (const proto of graph.initializer) values.set(proto.name ?? "", new Value(hostOfProto(proto, this.#file)));
      return this.run(graph, values, find);
    };
    try {
      const folded = this.#fold(row, node, inputs, build);
      return folded ?? valuesOf(row.build(this.#context(node, inputs, build)));
    } catch (error) {
      if (!(error instanceof HeddleError) || error.plain.startsWith(`${this.#file}: `)) throw error;
      throw this.#located(node, error);
    }
  }

  /** The results of a node on known values, computed now; undefined where there are others, or results are large. */
  #fold(
    row: Row,
    node: NodeProto,
    inputs: readonly (Value | undefined)[],
    build: (graph: GraphProto, inputs: readonly Value[]) => Value[],
  ): Value[] | undefined {
    const present = inputs.filter((input): input is Value => input !== undefined);
    // Graphs of attributes use values from around them, which are of no fold.
    if (node.attribute.some(({ g }) => g !== undefined)) return undefined;
    if (row.random === true || present.length === 0 || !present.every(({ folds, host }) => folds && host !== undefined))
      return undefined;
    const specs = present.map(({ type }, index) => ({ name: `x${index}`, type }));
    let made: readonly Result[] = [];
    const { graph, captured } = traceFunction<Tensor>("fold", specs, (nodes) => {
      const stand = new Map(present.map((value, index) => [value, standIn(value, nodes[index] as Node)]));
      const own = inputs.map((input) => (input === undefined ? undefined : stand.get(input)));
      made = listOf(row.build(this.#context(node, own, build)));
      return made.filter((result) => isTensor(result)).map((result) => result.node);
    });
    const tensors = made.filter((result) => isTensor(result));
    if (tensors.some(({ shape }) => sizeOf(shape) > largestFolded)) return undefined;
    const hosts = captured.map((tensor) => ({ dtype: tensor.dtype, shape: tensor.shape, data: tensor.dataSync() }));
    const given = present.map(({ host }) => host as HostTensor);
    const results = evaluateGraph(graph, [...given, ...hosts]);
    let next = 0;
    return made.map(
      (result) => (isTensor(result) ? new Value(results[next++] as HostTensor) : valueOf(result)) as Value,
    );
  }
}

/** A weight that is also what ONNX means as a constant is one there: files keep equal tensors once. */
const asTaken = (node: NodeProto, index: number, value: Value): Value =>
  value.host !== undefined && !value.folds && isConstantInput(node, index, value.host) ? new Value(value.host) : value;

/** A known value as a node of a trace, which rows may also ask for its numbers. */
const standIn = (value: Value, node: Node): Value => new Value(Tensor.ofNode(node), { host: value.host as HostTensor });

const listOf = (results: ReturnType<Row["build"]>): readonly Result[] =>
  Array.isArray(results) ? (results as readonly Result[]) : [results as Result];

const valueOf = (result: Result): Value | undefined => (result === undefined ? undefined : new Value(result));

const valuesOf = (results: ReturnType<Row["build"]>): Value[] => listOf(results).map(valueOf) as Value[];

/** The version of ONNX's ops that a model asks for. */
function opsetOf(model: ModelProto, file: string): number {
  const own = model.opsetImport.find(({ domain = "" }) => domain === "" || domain === "ai.onnx");
  const opset = own?.version ?? 1;
  if (opset < oldestOpset || opset > newestOpset) {
    throw new HeddleError("model", `${file} uses opset ${opset}; opsets ${oldestOpset} to ${newestOpset} are read`, {
      hint: "export it again with an opset in that range, or convert it with onnx.version_converter",
    });
  }
  return opset;
}

/** Throws for the first node of an op that the table lacks, also within graphs of attributes. */
function checkOps(graph: GraphProto, opset: number, file: string): void {
  for (const node of graph.node) {
    rowOf(node, opset, file);
    for (const { g } of node.attribute) if (g !== undefined) checkOps(g, opset, file);
  }
}

function modelOf(model: ModelProto, file: string, external: (proto: TensorProto) => Uint8Array | undefined): OnnxModel {
  const { graph } = model;
  if (graph === undefined) throw new HeddleError("format", `${file} is not a valid ONNX file: it has no graph`);
  if ((model.functions ?? []).length > 0) {
    throw new HeddleError("model", `${file} defines functions of its own (${model.functions?.[0]?.name})`, {
      hint: "inline them with onnx.inliner.inline_local_functions",
    });
  }
  if ((graph.sparseInitializer ?? []).length > 0)
    throw new HeddleError("model", `${file} has sparse initializers, which are not read`);
  checkOps(graph, opsetOf(model, file), file);
  const constants = new Map<string, HostTensor>();
  for (const proto of graph.initializer) {
    const name = proto.name ?? "";
    if (constants.has(name)) throw new HeddleError("format", `${file} has two initializers "${name}"`);
    constants.set(name, hostOfProto(proto, file, external(proto)));
  }
  return new OnnxModel(model, graph, constants, file);
}

const isExternal = (proto: TensorProto): boolean => proto.dataLocation === 1;

/**
 * Reads an ONNX model in memory.
 *
 * @throws HeddleError `format` for a malformed file; `model` naming the first node whose op is not in the table, or an opset
 * out of range; `dtype` for tensors of types that Heddle lacks. Tensors kept in other files are refused: {@link loadOnnx} reads them.
 */
export function parseOnnx(bytes: Uint8Array, options: OnnxOptions = {}): OnnxModel {
  checkOptions("parseOnnx", options, ["file"]);
  const { file = "the ONNX model" } = options;
  return modelOf(readModel(bytes, file), file, (proto) => {
    if (!isExternal(proto)) return undefined;
    throw new HeddleError("model", `${file} keeps "${proto.name}" in another file`, { hint: "read it with loadOnnx" });
  });
}

/**
 * Reads an ONNX file. Tensors that it keeps in other files are read where those lie within its folder.
 *
 *     const model = await io.loadOnnx("net.onnx");
 *     const { logits } = model.run({ images });
 *
 * @throws as {@link parseOnnx}; `file` when it cannot be read.
 */
export function loadOnnx(path: string, options: OnnxOptions = {}): Promise<OnnxModel> {
  return called(async () => {
    checkOptions("loadOnnx", options, ["file"]);
    const { file = path } = options;
    const model = readModel(await readWhole("loadOnnx", path), file);
    const external = new Map<TensorProto, Uint8Array>();
    for (const proto of model.graph?.initializer ?? [])
      if (isExternal(proto)) external.set(proto, await readExternal(proto, path));
    return modelOf(model, file, (proto) => external.get(proto));
  });
}
