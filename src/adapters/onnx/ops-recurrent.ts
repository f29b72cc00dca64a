/** @module ONNX's recurrent layers: one scan over the sequence for each direction. */

import { HeddleError } from "../../extend/index.ts";
import type { Tensor } from "../../functions/index.ts";
import * as h from "../../functions/index.ts";
import { range } from "../../ir/index.ts";
import { type Activation, activationsNamed } from "./activations.ts";
import { type NodeContext, type Result, type Rows, row } from "./context.ts";
import { positions } from "./helpers.ts";

/** The index of the activation that an LSTM applies to the cell state for its output. */
const outputOfCell = 2;

/** Computes the next states, of which the first is the output. */
type Step = (gates: Tensor, states: readonly Tensor[], parts: Direction) => readonly Tensor[];

/** Parts of one direction. */
interface Direction {
  /** Recurrent weights `[gates · hidden, hidden]`, and their bias. */
  readonly recurrent: Tensor;
  readonly recurrentBias: Tensor | undefined;
  readonly peepholes: Tensor | undefined;
  readonly hidden: number;
  readonly activate: readonly Activation[];
}

/** A kind of layer. */
interface Cell {
  readonly gates: number;
  readonly states: number;
  readonly activations: readonly string[];
  /** Whether the bias of the recurrent part is added with that of the input, for all gates. */
  readonly oneBias: (c: NodeContext) => boolean;
  readonly step: (c: NodeContext) => Step;
}

/** Slice `index` of the first dim, without that dim. */
const at = (x: Tensor, index: number): Tensor =>
  x.slice([index, ...x.shape.slice(1).map(() => 0)], [index + 1, ...x.shape.slice(1)]).reshape(x.shape.slice(1));

/** Part `index` of the last dim, in parts of `size` elements. */
function part(x: Tensor, index: number, size: number): Tensor {
  const last = x.shape.length - 1;
  const start = x.shape.map((_whole, dim) => (dim === last ? index * size : 0));
  return x.slice(
    start,
    x.shape.map((whole, dim) => (dim === last ? (index + 1) * size : whole)),
  );
}

function activationsOf(c: NodeContext, cell: Cell, directions: number): Activation[] {
  const names = c.strings(
    "activations",
    range(directions).flatMap(() => cell.activations),
  );
  const wanted = directions * cell.activations.length;
  if (names.length !== wanted) throw new HeddleError("format", `has ${names.length} activations; it takes ${wanted}`);
  const limit = c.float("clip", 0);
  return activationsNamed(names, c.floats("activation_alpha", []), c.floats("activation_beta", [])).map((fn, index) =>
    // ONNX clips "the input of activations"; as in ONNX Runtime these are the gates' inputs, not the cell state for the
    // output.
    limit === 0 || index % cell.activations.length === outputOfCell ? fn : (x) => fn(x.maximum(-limit).minimum(limit)),
  );
}

/** One direction: `[time, batch, hidden]`, and the last states. */
function run(c: NodeContext, cell: Cell, x: Tensor, direction: number, reverse: boolean, parts: Direction, step: Step) {
  const { hidden } = parts;
  const [time, batch] = x.shape as [number, number, number];
  const bias = c.has(3) ? at(c.x(3), direction) : undefined;
  let gates = x.matmul(at(c.x(1), direction).transpose());
  if (bias !== undefined) gates = gates.add(bias.slice([0], [cell.gates * hidden]));
  if (bias !== undefined && cell.oneBias(c))
    gates = gates.add(bias.slice([cell.gates * hidden], [2 * cell.gates * hidden]));
  const initial = range(cell.states).map((state) =>
    c.has(5 + state) ? initialState(c, 5 + state, direction) : h.zeros([batch, hidden], { dtype: x.dtype }),
  );
  const lengths = c.has(4) ? c.x(4).cast("i32").reshape([1, batch, 1]) : undefined;
  const live = lengths === undefined ? undefined : positions(time, 0, 3).lt(lengths);
  const xs = live === undefined ? { gates } : { gates, live };
  return h.scan(
    (states: readonly Tensor[], slice: { gates: Tensor; live?: Tensor }): [Tensor[], Tensor] => {
      const next = step(slice.gates, states, parts);
      const { live: goes } = slice;
      // Beyond its length a sequence keeps its state, and gives zeros.
      const nextStates =
        goes === undefined ? [...next] : next.map((state, index) => h.select(goes, state, states[index] as Tensor));
      const y = next[0] as Tensor;
      return [nextStates, goes === undefined ? y : h.select(goes, y, h.zerosLike(y))];
    },
    initial,
    xs,
    { reverse },
  );
}

function initialState(c: NodeContext, index: number, direction: number): Tensor {
  const state = c.x(index);
  return at(c.int("layout", 0) === 1 ? state.transpose([1, 0, 2]) : state, direction);
}

function recurrent(cell: Cell): (c: NodeContext) => Result[] {
  return (c) => {
    const batchFirst = c.int("layout", 0) === 1;
    const x = batchFirst ? c.x().transpose([1, 0, 2]) : c.x();
    const named = c.string("direction", "forward");
    const reversed = named === "bidirectional" ? [false, true] : [named === "reverse"];
    const hidden = c.shape(2).at(-1) as number;
    const all = activationsOf(c, cell, reversed.length);
    const each = cell.activations.length;
    const runs = reversed.map((reverse, direction) => {
      const bias = c.has(3) ? at(c.x(3), direction) : undefined;
      const parts: Direction = {
        hidden,
        recurrent: at(c.x(2), direction),
        recurrentBias: bias?.slice([cell.gates * hidden], [2 * cell.gates * hidden]),
        peepholes: c.has(7) ? at(c.x(7), direction) : undefined,
        activate: all.slice(direction * each, (direction + 1) * each),
      };
      return run(c, cell, x, direction, reverse, parts, cell.step(c));
    });
    const stacked = (list: readonly Tensor[], dim: number): Tensor =>
      h.concat(
        list.map((state) => state.reshape([...state.shape.slice(0, dim), 1, ...state.shape.slice(dim)])),
        dim,
      );
    const y = stacked(
      runs.map(([, outputs]) => outputs),
      1,
    );
    const states = range(cell.states).map((state) =>
      stacked(
        runs.map(([last]) => last[state] as Tensor),
        0,
      ),
    );
    if (!batchFirst) return [y, ...states];
    return [y.transpose([2, 0, 1, 3]), ...states.map((state) => state.transpose([1, 0, 2]))];
  };
}

const rnn: Cell = {
  gates: 1,
  states: 1,
  activations: ["Tanh"],
  oneBias: () => true,
  step:
    () =>
    (gates, [state], { recurrent: weight, activate }) => {
      const [fn] = activate as [Activation];
      return [fn(gates.add((state as Tensor).matmul(weight.transpose())))];
    },
};

/** Gates in the order update, reset, hidden. */
const gru: Cell = {
  gates: 3,
  states: 1,
  activations: ["Sigmoid", "Tanh"],
  // After the reset gate or before it: the bias of the hidden gate's recurrent part is added where its product is.
  oneBias: () => false,
  step: (c) => {
    const linearFirst = c.flag("linear_before_reset", false);
    return (gates, [held], { recurrent: weight, recurrentBias, hidden, activate }) => {
      const [gate, fn] = activate as [Activation, Activation];
      const state = held as Tensor;
      const turned = weight.transpose();
      const biased = (x: Tensor, index: number): Tensor =>
        recurrentBias === undefined ? x : x.add(part(recurrentBias, index, hidden));
      const through = (x: Tensor, index: number): Tensor => biased(x.matmul(part(turned, index, hidden)), index);
      const update = gate(part(gates, 0, hidden).add(through(state, 0)));
      const reset = gate(part(gates, 1, hidden).add(through(state, 1)));
      const inner = linearFirst ? reset.mul(through(state, 2)) : through(reset.mul(state), 2);
      const fresh = fn(part(gates, 2, hidden).add(inner));
      return [h.sub(1, update).mul(fresh).add(update.mul(state))];
    };
  },
};

/** Gates in the order input, output, forget, cell. */
const lstm: Cell = {
  gates: 4,
  states: 2,
  activations: ["Sigmoid", "Tanh", "Tanh"],
  oneBias: () => true,
  step: (c) => {
    const coupled = c.flag("input_forget", false);
    return (gates, [state, held], { recurrent: weight, peepholes, hidden, activate }) => {
      const [gate, fn, out] = activate as [Activation, Activation, Activation];
      const cell = held as Tensor;
      const all = gates.add((state as Tensor).matmul(weight.transpose()));
      const peep = (index: number, by: Tensor): Tensor => {
        const gateInput = part(all, index, hidden);
        return peepholes === undefined ? gateInput : gateInput.add(part(peepholes, index, hidden).mul(by));
      };
      const input = gate(peep(0, cell));
      const forget = coupled ? h.sub(1, input) : gate(peep(2, cell));
      const next = forget.mul(cell).add(input.mul(fn(part(all, 3, hidden))));
      return [gate(peep(1, next)).mul(out(next)), next];
    };
  },
};

export const recurrentRows: Rows = {
  GRU: row(7, recurrent(gru)),
  LSTM: row(7, recurrent(lstm)),
  RNN: row(7, recurrent(rnn)),
};
