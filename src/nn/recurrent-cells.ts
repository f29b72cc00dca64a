/** @module One step of the recurrent networks: gates in PyTorch's order, parameters in its shapes. */
import { concat, type Tensor } from "../functions/index.ts";

/** The state that a network carries from step to step. */
export interface RecurrentState {
  /** `[batch, hidden]`. */
  readonly h: Tensor;
  /** The cell state of an LSTM, `[batch, hidden]`. */
  readonly c?: Tensor;
}

/** The step of one kind of network. */
export interface Cell {
  /** Blocks of `hidden` rows in the weights. */
  readonly gates: number;
  /** Whether it carries `c` too. */
  readonly memory: boolean;
  /** The next state, from the input's and the state's contributions to all gates, `[batch, gates · hidden]` each. */
  readonly next: (fromInput: Tensor, fromState: Tensor, state: RecurrentState) => RecurrentState;
}

/** Gate `index` of `[batch, gates · hidden]`. */
function gate(gates: Tensor, index: number, hidden: number): Tensor {
  const [batch] = gates.shape as [number, number];
  return gates.slice([0, index * hidden], [batch, (index + 1) * hidden]);
}

const widthOf = ({ h }: RecurrentState): number => h.shape[1] as number;

/** h' = f(x + h). */
export const plainCell = (nonlinearity: "tanh" | "relu"): Cell => ({
  gates: 1,
  memory: false,
  next: (fromInput, fromState) => {
    const sum = fromInput.add(fromState);
    return { h: nonlinearity === "tanh" ? sum.tanh() : sum.relu() };
  },
});

/** Gates reset, update, new; the reset gate scales the state's contribution, its bias included. */
export const gruCellRule: Cell = {
  gates: 3,
  memory: false,
  next: (fromInput, fromState, state) => {
    const hidden = widthOf(state);
    const reset = gate(fromInput, 0, hidden)
      .add(gate(fromState, 0, hidden))
      .sigmoid();
    const update = gate(fromInput, 1, hidden)
      .add(gate(fromState, 1, hidden))
      .sigmoid();
    const fresh = gate(fromInput, 2, hidden)
      .add(reset.mul(gate(fromState, 2, hidden)))
      .tanh();
    return { h: fresh.add(update.mul(state.h.sub(fresh))) };
  },
};

/** Gates input, forget, cell, output. */
export const lstmCellRule: Cell = {
  gates: 4,
  memory: true,
  next: (fromInput, fromState, state) => {
    const hidden = widthOf(state);
    const gates = fromInput.add(fromState);
    const [input, forget, output] = [0, 1, 3].map((index) => gate(gates, index, hidden).sigmoid()) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    const fresh = gate(gates, 2, hidden).tanh();
    const c = forget.mul(state.c as Tensor).add(input.mul(fresh));
    return { h: output.mul(c.tanh()), c };
  },
};

/** Joins the outputs of the directions along the last dim. */
export const joined = (parts: readonly Tensor[]): Tensor =>
  parts.length === 1 ? (parts[0] as Tensor) : concat(parts, (parts[0] as Tensor).shape.length - 1);
