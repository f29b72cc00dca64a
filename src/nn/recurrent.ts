/**
 * @module Recurrent networks over sequences: one `scan` per layer and direction, PyTorch's parameter names and gate order. The
 * contributions of the inputs to the gates are one product over the whole sequence.
 */

import { concat, isTensor, random, scan, select, type Tensor, type Tensors, zeros } from "../functions/index.ts";
import { isFloat } from "../ir/dtype.ts";
import { formatType, sameShape, type TensorType } from "../ir/shape.ts";
import { checkTensor, valuesAtHand } from "../tensor/tensor.ts";
import { HeddleError } from "../util/errors.ts";
import { asRecord, checkInteger, checkNumber, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { keyOf } from "./dropout.ts";
import { uniformByFanIn } from "./initialise.ts";
import {
  type Applied,
  type ApplyOptions,
  checkWidth,
  type Layer,
  madeBy,
  ofLayer,
  positioned,
  scopeKey,
  type Variables,
} from "./layer.ts";
import { type Cell, gruCellRule, joined, lstmCellRule, plainCell, type RecurrentState } from "./recurrent-cells.ts";

/** Options of {@link lstm} and {@link gru}. */
export interface RecurrentOptions {
  /** Width of the state. */
  readonly hidden: number;
  /** Number of stacked layers; default 1. */
  readonly layers?: number;
  /** A second network per layer that runs from the last step to the first; its outputs follow those of the first network. Default false. */
  readonly bidirectional?: boolean;
  /** Probability of dropping an output of a layer before the next layer, while training; default 0. */
  readonly dropout?: number;
  /** Add biases; default true. */
  readonly bias?: boolean;
  /** Whether sequences are `[batch, time, features]` (default, unlike PyTorch) or `[time, batch, features]`. */
  readonly batchFirst?: boolean;
  /** What `apply` gives: the outputs of all steps (default), or the final states of the last layer, `[batch, directions · hidden]`. */
  readonly output?: "sequence" | "last";
}

/** Options of {@link rnn}. */
export interface RnnOptions extends RecurrentOptions {
  /** Default `"tanh"`. */
  readonly nonlinearity?: "tanh" | "relu";
}

/** Options of a recurrent layer's `run`. */
export interface RunOptions extends ApplyOptions {
  /** Initial states `[layers · directions, batch, hidden]`; default zeros. */
  readonly initial?: RecurrentState;
  /**
   * Number of steps of each sequence (i32 `[batch]`), from 0 to the steps of the input; later steps change no state and give 0. Default
   * all steps. A length out of range is an error (`value`); a traced one is clamped.
   */
  readonly lengths?: Tensor;
}

/** What a recurrent layer's `run` gives. */
export interface RunResult {
  /** Outputs of the last layer, `[batch, time, directions · hidden]` or with time first. */
  readonly y: Tensor;
  /** Final states `[layers · directions, batch, hidden]`: each sequence's state after its own last step. */
  readonly final: RecurrentState;
}

/** Parameters of a recurrent layer: those of the first layer, and those of the others under the same names with `_l1`, …, `_reverse`. */
export type RecurrentParams = {
  readonly weight_ih_l0: Tensor;
  readonly weight_hh_l0: Tensor;
  readonly [name: string]: Tensor;
};

/** A layer over sequences. */
export interface RecurrentLayer extends Layer<RecurrentParams> {
  /** As {@link Layer.apply}, with initial states and lengths, too. With `output: "last"`, y is the final state that `run` gives. */
  apply(variables: Variables<RecurrentParams>, x: Tensor, options?: RunOptions): Applied;
  /**
   * As `apply`, and gives the final states, too; y is always the whole sequence.
   *
   * @throws HeddleError `shape` when states or lengths do not fit
   */
  run(variables: Variables<RecurrentParams>, x: Tensor, options?: RunOptions): RunResult;
}

/**
 * A plain recurrent network (Elman, 1990): `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`. Parameters `weight_ih_l0`, `weight_hh_l0`,
 * `bias_ih_l0`, `bias_hh_l0`, and so on for each layer, `…_reverse` for the reverse direction, uniform within `1 / √hidden`.
 *
 * @throws HeddleError `option` for an option out of range
 */
export function rnn(options: RnnOptions): RecurrentLayer {
  const { nonlinearity = "tanh", ...rest } = asRecord("rnn", options);
  if (nonlinearity !== "tanh" && nonlinearity !== "relu")
    throw new HeddleError("option", `rnn: nonlinearity must be tanh or relu, got ${String(nonlinearity)}`);
  return madeBy(recurrent("rnn", plainCell(nonlinearity), rest), "rnn", options);
}

/**
 * A network of gated recurrent units (Cho et al., 2014), as PyTorch's: gates reset, update, new. Parameters as {@link rnn}'s, three
 * blocks each.
 */
export const gru = (options: RecurrentOptions): RecurrentLayer =>
  madeBy(recurrent("gru", gruCellRule, options), "gru", options);

/**
 * A network of long short-term memory (Hochreiter and Schmidhuber, 1997): gates input, forget, cell, output. Parameters as
 * {@link rnn}'s, four blocks each; states have `c` too.
 */
export const lstm = (options: RecurrentOptions): RecurrentLayer =>
  madeBy(recurrent("lstm", lstmCellRule, options), "lstm", options);

/** The options with defaults. */
type Settings = Required<RecurrentOptions>;

function settingsOf(kind: string, options: RecurrentOptions): Settings {
  checkOptions(kind, options, ["hidden", "layers", "bidirectional", "dropout", "bias", "batchFirst", "output"]);
  const settings: Settings = {
    layers: 1,
    bidirectional: false,
    dropout: 0,
    bias: true,
    batchFirst: true,
    output: "sequence",
    ...options,
  };
  checkInteger(kind, "hidden", settings.hidden, 1);
  checkInteger(kind, "layers", settings.layers, 1);
  checkNumber(kind, "dropout", settings.dropout, 0, 1);
  if (settings.output !== "sequence" && settings.output !== "last")
    throw new HeddleError("option", `${kind}: output must be sequence or last, got ${String(settings.output)}`);
  return settings;
}

/** Suffixes of the parameters of each layer, one per direction. */
const suffixes = ({ layers, bidirectional }: Settings): string[][] =>
  Array.from({ length: layers }, (_unused, layer) =>
    bidirectional ? [`_l${layer}`, `_l${layer}_reverse`] : [`_l${layer}`],
  );

function recurrent(kind: string, cell: Cell, options: RecurrentOptions): RecurrentLayer {
  const settings = settingsOf(kind, options);
  const run = (variables: Variables<RecurrentParams>, x: Tensor, runOptions: RunOptions = {}): RunResult => {
    return ofLayer(kind, () => {
      checkSequences(x);
      checkOptions(`${kind}: run`, runOptions, ["train", "key", "precision", "initial", "lengths"]);
      return runLayers(cell, settings, variables.params, x, runOptions);
    });
  };
  const layer = positioned<RecurrentParams>(
    {
      kind,
      init(key, input) {
        checkSequences(input);
        const params = freshParams(cell, settings, key, input);
        return { params, state: {}, output: outputType(settings, input) };
      },
      apply(variables, x, runOptions = {}): Applied {
        checkSequences(x);
        const { y, final } = runLayers(cell, settings, variables.params, x, runOptions);
        return { y: settings.output === "sequence" ? y : lastOf(settings, final), state: {} };
      },
    },
    ["initial", "lengths"],
  );
  return Object.assign(layer, { run });
}

function checkSequences(input: TensorType): void {
  if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
  if (input.shape.length !== 3)
    throw new HeddleError("shape", `takes sequences [batch, time, features], got ${formatType(input)}`);
}

const directionsOf = ({ bidirectional }: Settings): number => (bidirectional ? 2 : 1);

function outputType(settings: Settings, input: TensorType): TensorType {
  const width = settings.hidden * directionsOf(settings);
  const [first, second] = input.shape as [number, number, number];
  const batch = settings.batchFirst ? first : second;
  return { dtype: input.dtype, shape: settings.output === "last" ? [batch, width] : [first, second, width] };
}

function freshParams(cell: Cell, settings: Settings, key: Tensor, input: TensorType): RecurrentParams {
  const { hidden, bias } = settings;
  const rows = cell.gates * hidden;
  let width = input.shape[2] as number;
  const params: { [name: string]: Tensor } = {};
  let ordinal = 0;
  const add = (name: string, shape: readonly number[]): void => {
    params[name] = uniformByFanIn(scopeKey(key, ordinal++), shape, hidden, input.dtype);
  };
  for (const layer of suffixes(settings)) {
    for (const suffix of layer) {
      add(`weight_ih${suffix}`, [rows, width]);
      add(`weight_hh${suffix}`, [rows, hidden]);
      if (!bias) continue;
      add(`bias_ih${suffix}`, [rows]);
      add(`bias_hh${suffix}`, [rows]);
    }
    width = hidden * directionsOf(settings);
  }
  return params as RecurrentParams;
}

/** All layers, over `[time, batch, features]`. */
function runLayers(cell: Cell, settings: Settings, params: Tensors, x: Tensor, options: RunOptions): RunResult {
  checkWidth(x, (params["weight_ih_l0"] as Tensor).shape[1] as number);
  const swap = (value: Tensor): Tensor => (settings.batchFirst ? value.transpose([1, 0, 2]) : value);
  let sequence = swap(x);
  const batch = sequence.shape[1] as number;
  checkRun(cell, settings, batch, x, options);
  const ends: RecurrentState[] = [];
  suffixes(settings).forEach((directions, layer) => {
    const outputs = directions.map((suffix, direction) => {
      const begin = stateAt(cell, settings, options.initial, ends.length, [batch, settings.hidden], x);
      const run = overTime(cell, named(params, suffix), sequence, begin, {
        lengths: options.lengths,
        reverse: direction > 0,
      });
      ends.push(run.end);
      return run.outputs;
    });
    sequence = joined(outputs);
    if (layer + 1 < settings.layers) sequence = dropped(sequence, settings.dropout, layer, options);
  });
  const stacked = (pick: (state: RecurrentState) => Tensor): Tensor =>
    concat(ends.map((end) => pick(end).reshape([1, batch, settings.hidden])));
  const final = { h: stacked(({ h }) => h), ...(cell.memory ? { c: stacked(({ c }) => c as Tensor) } : {}) };
  return { y: swap(sequence), final };
}

function checkRun(cell: Cell, settings: Settings, batch: number, x: Tensor, { initial, lengths }: RunOptions): void {
  const expected: TensorType = {
    dtype: x.dtype,
    shape: [settings.layers * directionsOf(settings), batch, settings.hidden],
  };
  const fits = (state: Tensor | undefined): boolean =>
    state !== undefined && sameShape(state.shape, expected.shape) && state.dtype === expected.dtype;
  if (initial !== undefined && !(fits(initial.h) && (!cell.memory || fits(initial.c)))) {
    const names = cell.memory ? "h and c" : "h";
    const received = [initial.h, ...(cell.memory ? [initial.c] : [])].map((state) =>
      isTensor(state) ? formatType(state) : shown(state),
    );
    throw new HeddleError(
      "shape",
      `initial states are ${names} of ${formatType(expected)} each, got ${received.join(" and ")}`,
    );
  }
  if (lengths === undefined) return;
  checkTensor("lengths", lengths);
  if (lengths.dtype !== "i32" || !sameShape(lengths.shape, [batch]))
    throw new HeddleError("shape", `lengths are i32[${batch}], one per sequence, got ${formatType(lengths)}`);
  checkSteps(lengths, x.shape[settings.batchFirst ? 1 : 0] as number);
}

/** Checks lengths whose values are known. Traced lengths are clamped to 0 and the number of steps. */
function checkSteps(lengths: Tensor, steps: number): void {
  valuesAtHand(lengths)?.forEach((length, sequence) => {
    if (length >= 0 && length <= steps) return;
    throw new HeddleError("value", `lengths: sequence ${sequence} has length ${length}, but there are ${steps} steps`, {
      hint: `lengths are from 0 to ${steps}, one per sequence`,
    });
  });
}

/** Initial state of the layer and direction number `index`. */
function stateAt(
  cell: Cell,
  settings: Settings,
  initial: RecurrentState | undefined,
  index: number,
  shape: readonly [number, number],
  { dtype }: Tensor,
): RecurrentState {
  const pick = (states: Tensor): Tensor =>
    states.slice([index, 0, 0], [index + 1, shape[0], settings.hidden]).reshape(shape);
  if (initial !== undefined) return { h: pick(initial.h), ...(cell.memory ? { c: pick(initial.c as Tensor) } : {}) };
  const zeroState = zeros(shape, { dtype });
  return { h: zeroState, ...(cell.memory ? { c: zeroState } : {}) };
}

function dropped(x: Tensor, rate: number, layer: number, options: ApplyOptions): Tensor {
  if (options.train !== true || rate === 0) return x;
  if (rate === 1) return x.mul(0);
  const mask = random.bernoulli(scopeKey(keyOf(options), layer), 1 - rate, x.shape);
  return select(mask, x.mul(1 / (1 - rate)), 0);
}

/** Weights and biases of one layer and direction, or of a cell. */
interface CellParams {
  readonly weightIh: Tensor;
  readonly weightHh: Tensor;
  readonly biasIh: Tensor | undefined;
  readonly biasHh: Tensor | undefined;
}

const named = (params: Tensors, suffix = ""): CellParams => ({
  weightIh: params[`weight_ih${suffix}`] as Tensor,
  weightHh: params[`weight_hh${suffix}`] as Tensor,
  biasIh: params[`bias_ih${suffix}`] as Tensor | undefined,
  biasHh: params[`bias_hh${suffix}`] as Tensor | undefined,
});

const mapped = (x: Tensor, weight: Tensor, bias: Tensor | undefined): Tensor => {
  checkWidth(x, weight.shape[1] as number);
  const product = x.matmul(weight.transpose());
  return bias === undefined ? product : product.add(bias);
};

function overTime(
  cell: Cell,
  params: CellParams,
  sequence: Tensor,
  begin: RecurrentState,
  { lengths, reverse }: { readonly lengths: Tensor | undefined; readonly reverse: boolean },
): { outputs: Tensor; end: RecurrentState } {
  const contributions = mapped(sequence, params.weightIh, params.biasIh);
  const [end, outputs] = scan(
    (state: RecurrentState, fromInput: Tensor, index: Tensor): [RecurrentState, Tensor] => {
      const next = cell.next(fromInput, mapped(state.h, params.weightHh, params.biasHh), state);
      if (lengths === undefined) return [next, next.h];
      const running = lengths.gt(index).reshape([lengths.shape[0] as number, 1]);
      const stepOrHold = (fresh: Tensor, old: Tensor): Tensor => select(running, fresh, old);
      const h = stepOrHold(next.h, state.h);
      const newState = next.c === undefined ? { h } : { h, c: stepOrHold(next.c, state.c as Tensor) };
      return [newState, select(running, next.h, 0)];
    },
    begin,
    contributions,
    { reverse },
  );
  return { outputs, end };
}

/** The states of the last layer, the directions side by side. */
function lastOf(settings: Settings, { h }: RecurrentState): Tensor {
  const [count, batch, hidden] = h.shape as [number, number, number];
  const directions = directionsOf(settings);
  return joined(
    Array.from({ length: directions }, (_unused, direction) => {
      const index = count - directions + direction;
      return h.slice([index, 0, 0], [index + 1, batch, hidden]).reshape([batch, hidden]);
    }),
  );
}

/** One step of a network as a layer: `apply` starts from zeros and gives the next `h`. */
export interface CellLayer extends Layer {
  /** The next state, from `[batch, features]`; without a state, from zeros. */
  step(variables: Pick<Variables, "params">, x: Tensor, state?: RecurrentState): RecurrentState;
}

/** Options of cells. */
export interface CellOptions {
  /** Width of the state. */
  readonly hidden: number;
  /** Default true. */
  readonly bias?: boolean;
}

function cellLayer(kind: string, cell: Cell, options: CellOptions): CellLayer {
  checkOptions(kind, options, ["hidden", "bias"]);
  const { hidden, bias = true } = options;
  checkInteger(kind, "hidden", hidden, 1);
  const check = (input: TensorType): void => {
    if (!isFloat(input.dtype)) throw new HeddleError("dtype", `takes floats, got ${formatType(input)}`);
    if (input.shape.length !== 2) throw new HeddleError("shape", `takes [batch, features], got ${formatType(input)}`);
  };
  const step: CellLayer["step"] = ({ params }, x, state) => {
    check(x);
    const zeroState = (): Tensor => zeros([x.shape[0] as number, hidden], { dtype: x.dtype });
    const from = state ?? { h: zeroState(), ...(cell.memory ? { c: zeroState() } : {}) };
    const cellParams = named(params);
    return cell.next(
      mapped(x, cellParams.weightIh, cellParams.biasIh),
      mapped(from.h, cellParams.weightHh, cellParams.biasHh),
      from,
    );
  };
  const layer = positioned({
    kind,
    init(key, input) {
      check(input);
      const rows = cell.gates * hidden;
      const make = (ordinal: number, shape: readonly number[]): Tensor =>
        uniformByFanIn(scopeKey(key, ordinal), shape, hidden, input.dtype);
      const biases = bias ? { bias_ih: make(2, [rows]), bias_hh: make(3, [rows]) } : {};
      return {
        params: { weight_ih: make(0, [rows, input.shape[1] as number]), weight_hh: make(1, [rows, hidden]), ...biases },
        state: {},
        output: { dtype: input.dtype, shape: [input.shape[0] as number, hidden] },
      };
    },
    apply: (variables, x) => ({ y: step(variables, x).h, state: {} }),
  });
  return Object.assign(layer, { step });
}

/** One step of {@link rnn}; parameters `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`. */
export function rnnCell(options: CellOptions & { readonly nonlinearity?: "tanh" | "relu" }): CellLayer {
  const { nonlinearity = "tanh", ...rest } = asRecord("rnnCell", options);
  if (nonlinearity !== "tanh" && nonlinearity !== "relu")
    throw new HeddleError("option", `rnnCell: nonlinearity must be tanh or relu, got ${String(nonlinearity)}`);
  return madeBy(cellLayer("rnnCell", plainCell(nonlinearity), rest), "rnnCell", options);
}

/** One step of {@link gru}; parameters `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`. */
export const gruCell = (options: CellOptions): CellLayer =>
  madeBy(cellLayer("gruCell", gruCellRule, options), "gruCell", options);

/** One step of {@link lstm}; parameters `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`. */
export const lstmCell = (options: CellOptions): CellLayer =>
  madeBy(cellLayer("lstmCell", lstmCellRule, options), "lstmCell", options);
