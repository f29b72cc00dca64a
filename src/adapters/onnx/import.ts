/**
 * @module Reading an ONNX model: its nodes are composed of tensors' operations, by the table of `ops.ts`, whenever the
 * model is applied, so that it can be compiled, differentiated and sharded as any function.
 */

import {
  asRecord,
  called,
  checkHost,
  checkOptions,
  HeddleError,
  listed,
  readWhole,
  shown,
} from "../../extend/index.ts";
import { evalShape, isTensor, jit, type Tensor, type Tensors } from "../../functions/index.ts";
import { type DType, formatType, type HostTensor } from "../../ir/index.ts";
import type { Layer } from "../../nn/index.ts";
import { Builder, initialOf } from "./builder.ts";
import { Value } from "./context.ts";
import { isExternal, readExternal } from "./external.ts";
import { inlined, opsetOfImports } from "./functions.ts";
import { type GraphProto, type ModelProto, readModel, type TensorProto, type ValueInfo } from "./messages.ts";
import { type Needed, nameOfSparse, neededOfWhole, withTensors } from "./needed.ts";
import { newestOpset, oldestOpset, rowOf } from "./ops.ts";
import { dtypeOfCode, hasDType, tensorOf } from "./tensors.ts";
import { weightsOf } from "./weights.ts";

/** An input or output of a model: sizes that are not fixed are named, or `"?"`. */
export interface OnnxPort {
  readonly name: string;
  /** Undefined only for an output whose type the file does not give. */
  readonly dtype: DType | undefined;
  /** Undefined where the file does not give the rank. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** A tensor by the name of an input, or `{ dtype, shape, data }` where shapes depend on its values. */
export interface OnnxInputs {
  readonly [name: string]: Tensor | HostTensor;
}

/** Options of {@link loadOnnx}. */
export interface OnnxOptions {
  /** The name in error messages; default the path. */
  readonly file?: string;
  /**
   * Names of the outputs to compute; default all. Nodes and tensors that only other outputs need are neither read nor
   * checked.
   */
  readonly outputs?: readonly string[];
}

/** Options of {@link OnnxModel.apply} and {@link OnnxModel.run}. */
export interface OnnxRunOptions {
  /** Random key (u32[2]), which nodes that draw without a seed of their own need. */
  readonly key?: Tensor | undefined;
}

/** A model read from an ONNX file. */
export class OnnxModel {
  /** Inputs that must be given: names, dtypes and shapes. */
  readonly inputs: readonly OnnxPort[];
  /** Inputs with a default value in the file, an initializer. */
  readonly optionalInputs: readonly OnnxPort[];
  /** Outputs: names, dtypes and shapes. */
  readonly outputs: readonly OnnxPort[];
  /** The version of ONNX's own ops that the file asks for. */
  readonly opset: number;
  /** The ops that the model consists of, each once. */
  readonly ops: readonly string[];
  /** The weights of the file by name, which can be trained: its float initializers, without those that are constants. */
  readonly params: { readonly [name: string]: Tensor };
  readonly #graph: GraphProto;
  /** The inputs and tensors that its outputs need. */
  readonly #sources: ReadonlySet<string>;
  readonly #initial: ReadonlyMap<string, Value>;
  readonly #file: string;
  readonly #compiled: (params: Tensors, inputs: Tensors, drawn: OnnxRunOptions) => Record<string, Tensor>;

  /** @internal */
  constructor({ model, graph, sources, opset, file }: Asked) {
    this.#graph = graph;
    this.#sources = sources;
    this.#file = file;
    this.opset = opset;
    this.ops = [...new Set(opsOf(graph))].sort();
    const held = new Set([...namesHeld(model.graph as GraphProto)]);
    const understood = graph.input.filter((info) => sources.has(info.name ?? "") || isPort(info));
    const ports = understood.map((info) => portOf(info, file));
    this.inputs = ports.filter(({ name }) => !held.has(name));
    this.optionalInputs = ports.filter(({ name }) => held.has(name));
    this.outputs = graph.output.map((info) => (isUntold(info) ? untold(info) : portOf(info, file)));
    const initial = initialOf(graph, file);
    const weights = weightsOf(model, graph, initial);
    const values = [...initial].map(([name, host]) => {
      const value = weights.has(name) ? new Value(tensorOf(host), { host }) : new Value(host);
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
    asRecord(`${this.#file}: apply`, inputs);
    checkOptions(`${this.#file}: apply`, options, ["key"]);
    const values = new Map<string, Value>();
    for (const [name, value] of this.#initial) values.set(name, this.#held(name, value, params));
    const names = new Set<string>();
    for (const [ports, optional] of [
      [this.inputs, false],
      [this.optionalInputs, true],
    ] as const) {
      for (const port of ports) {
        names.add(port.name);
        const value = this.#fed(port, inputs, optional || !this.#sources.has(port.name));
        if (value !== undefined) values.set(port.name, new Value(value));
      }
    }
    const unknown = Object.keys(inputs).find((name) => !names.has(name));
    if (unknown !== undefined) {
      throw new HeddleError("argument", `${this.#file} has no input "${unknown}"`, {
        hint: `its inputs are ${listed([...names])}`,
      });
    }
    const builder = new Builder(this.opset, this.#file, options.key);
    const outputs = builder.run(this.#graph, values, undefined);
    return Object.fromEntries(outputs.map((value, index) => [this.outputs[index]?.name, value.tensor]));
  }

  /** Like {@link OnnxModel.apply}, compiled once for each shape of the inputs. */
  run(inputs: OnnxInputs, options: OnnxRunOptions = {}): Record<string, Tensor> {
    asRecord(`${this.#file}: run`, inputs);
    checkOptions(`${this.#file}: run`, options, ["key"]);
    const drawn = options.key === undefined ? {} : { key: options.key };
    const known = Object.entries(inputs).filter(([, input]) => !isTensor(input));
    if (known.length > 0) {
      const rest = Object.fromEntries(Object.entries(inputs).filter(([, input]) => isTensor(input)));
      const fixed = Object.fromEntries(known);
      return jit((params: Tensors, tensors: Tensors, runOptions: OnnxRunOptions) =>
        this.apply({ ...(tensors as OnnxInputs), ...fixed }, params, runOptions),
      )(this.params, rest as Tensors, drawn);
    }
    return this.#compiled(this.params, inputs as Tensors, drawn);
  }

  /**
   * The model as a layer of one input and one output, with the weights as its parameters: for `nn.sequential`, `train`
   * and fine-tuning.
   *
   * @throws HeddleError `model` when the model has another number of inputs or outputs.
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

  /**
   * A tensor of the file, or its replacement in `params`. A replaced weight keeps the file's numbers as its known
   * value; another replaced tensor has no known value.
   */
  #held(name: string, value: Value, params: Tensors): Value {
    const replacement = (params as { readonly [name: string]: Tensor })[name];
    if (replacement === undefined) return value.folds ? value : new Value(value.host as HostTensor);
    return value.folds ? new Value(replacement) : new Value(replacement, { host: value.host as HostTensor });
  }

  #fed({ name, dtype, shape }: OnnxPort, inputs: OnnxInputs, optional: boolean): Tensor | HostTensor | undefined {
    const input = inputs[name];
    if (input === undefined) {
      if (optional) return undefined;
      throw new HeddleError("argument", `${this.#file}: input "${name}" is missing`, {
        hint: `apply takes { ${this.inputs.map((port) => port.name).join(", ")} }`,
      });
    }
    if (!isTensor(input)) checkHost(`${this.#file}: input "${name}"`, input);
    const fits =
      input.dtype === dtype &&
      (shape === undefined ||
        (shape.length === input.shape.length &&
          shape.every((size, dim) => typeof size === "string" || size === input.shape[dim])));
    if (!fits) {
      const wanted = `${dtype}${shape === undefined ? "" : `[${shape.join(",")}]`}`;
      throw new HeddleError("shape", `${this.#file}: input "${name}" is ${wanted}, got ${formatType(input)}`);
    }
    return input;
  }
}

const opsOf = (graph: GraphProto): string[] =>
  graph.node.flatMap(({ opType = "", attribute }) => [
    opType,
    ...attribute.flatMap(({ g }) => (g === undefined ? [] : opsOf(g))),
  ]);

/** Names of all tensors of a file, used or not. */
const namesHeld = ({ initializer, sparseInitializer = [] }: GraphProto): string[] => [
  ...initializer.map(({ name = "" }) => name),
  ...sparseInitializer.map(nameOfSparse),
];

const isPort = ({ type }: ValueInfo): boolean => hasDType(type?.tensorType?.elemType);

/** Whether the file gives no type for a value, as opposed to a type other than a tensor. */
const isUntold = ({ type = {} }: ValueInfo): boolean =>
  Object.keys(type).length === 0 || (type.tensorType !== undefined && (type.tensorType.elemType ?? 0) === 0);

const untold = ({ name = "" }: ValueInfo): OnnxPort => ({ name, dtype: undefined, shape: undefined });

function portOf(info: ValueInfo, file: string): OnnxPort {
  const name = info.name ?? "";
  const tensor = info.type?.tensorType;
  if (tensor?.elemType === undefined) {
    throw new HeddleError("model", `${file}: "${name}" is not a tensor`, {
      hint: "sequences, maps and optional values have no counterpart in Heddle; { outputs: [name] } asks for other outputs alone",
    });
  }
  // Exporters write sizes that they do not know as 0 and -1, too.
  const shape = tensor.shape?.dim.map(({ dimValue = 0, dimParam }) => (dimValue > 0 ? dimValue : dimParam || "?"));
  return { name, dtype: dtypeOfCode(tensor.elemType, `"${name}" of ${file}`), shape };
}

/**
 * The version of ONNX's ops that a model asks for; a model that consists of functions alone may leave the version to
 * them.
 */
function opsetOf({ opsetImport, functions = [] }: ModelProto, file: string): number {
  const opset = opsetOfImports([...opsetImport, ...functions.flatMap((definition) => definition.opsetImport)]) ?? 1;
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
    rowOf(node, node.opset ?? opset, file);
    for (const { g } of node.attribute) if (g !== undefined) checkOps(g, opset, file);
  }
}

/** The requested part of a file: the graph of the requested outputs, with functions inlined. */
interface Asked extends Pick<Needed, "graph" | "sources"> {
  readonly model: ModelProto;
  readonly opset: number;
  readonly file: string;
}

/** Reads the requested part of a file; tensors in other files are not read yet. */
function askedOf(what: string, bytes: Uint8Array, file: string, options: OnnxOptions): Asked {
  checkOptions(what, options, ["file", "outputs"]);
  const model = readModel(bytes, file);
  if (model.graph === undefined) throw new HeddleError("format", `${file} is not a valid ONNX file: it has no graph`);
  const opset = opsetOf(model, file);
  const output = outputsAsked(what, model.graph, options.outputs, file);
  const flat = inlined({ ...model.graph, output }, model.functions ?? [], file);
  const { graph, sources } = neededOfWhole(flat, file);
  checkOps(graph, opset, file);
  return { model, graph, sources, opset, file };
}

function outputsAsked(
  what: string,
  { output }: GraphProto,
  names: readonly string[] | undefined,
  file: string,
): GraphProto["output"] {
  if (names === undefined) return output;
  if (!Array.isArray(names))
    throw new HeddleError("option", `${what}: outputs is a list of names, got ${shown(names)}`);
  return names.map((name: unknown) => {
    const found = output.find((info) => info.name === name);
    if (found !== undefined) return found;
    throw new HeddleError("option", `${what}: ${file} has no output ${shown(name)}`, {
      hint: `its outputs are ${listed(output.map((info) => String(info.name)))}`,
    });
  });
}

/** The tensors that lie in other files, in a graph and in those within it. */
function externalOf(graph: GraphProto): TensorProto[] {
  const found: TensorProto[] = [];
  withTensors(graph, (proto) => {
    if (isExternal(proto)) found.push(proto);
    return proto;
  });
  return found;
}

/**
 * Reads an ONNX model in memory.
 *
 * @throws HeddleError `format` for a malformed file; `model` naming the first node whose op is not in the table, or an
 * opset out of range; `dtype` for tensors of types that Heddle lacks; each of these only where a requested output
 * depends on it. Tensors kept in other files are refused: {@link loadOnnx} reads them.
 */
export function parseOnnx(bytes: Uint8Array, options: OnnxOptions = {}): OnnxModel {
  const { file = "the ONNX model" } = asRecord("parseOnnx", options);
  if (!(bytes instanceof Uint8Array))
    throw new HeddleError("argument", `parseOnnx: takes the bytes of a file as a Uint8Array, got ${shown(bytes)}`, {
      hint: "loadOnnx takes a path",
    });
  const asked = askedOf("parseOnnx", bytes, file, options);
  for (const { name } of externalOf(asked.graph))
    throw new HeddleError("model", `${file} keeps "${name}" in another file`, { hint: "read it with loadOnnx" });
  return new OnnxModel(asked);
}

/**
 * Reads an ONNX file. Tensors that it keeps in other files are read where those lie within its folder, or, where the path is a link,
 * within that of the file it leads to.
 *
 *     const model = await io.loadOnnx("net.onnx");
 *     const { logits } = model.run({ images });
 *
 * @throws as {@link parseOnnx}; `file` when it cannot be read.
 */
export function loadOnnx(path: string, options: OnnxOptions = {}): Promise<OnnxModel> {
  return called(async () => {
    const { file = path } = asRecord("loadOnnx", options);
    const asked = askedOf("loadOnnx", await readWhole("loadOnnx", path), file, options);
    const read = new Map<TensorProto, TensorProto>();
    for (const proto of externalOf(asked.graph))
      if (!read.has(proto))
        read.set(proto, { ...proto, rawData: await readExternal(proto, path, file), dataLocation: 0 });
    if (read.size === 0) return new OnnxModel(asked);
    const graph = withTensors(asked.graph, (proto) => read.get(proto) ?? proto);
    return new OnnxModel({ ...asked, graph });
  });
}
