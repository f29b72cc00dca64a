/**
 * @module From a program of matrices to that of one worker: for each operator the way that is cheapest for what is there, by the bytes that are
 * sent and the operations of each worker, and the changes of form between them. The result is a program of steps like any other.
 */

import { type Machine, sendSeconds, workSeconds } from "../../cost/index.ts";
import { cells, type Expression, noAttrs, type Operator, type Size } from "../expression.ts";
import { others } from "../operators.ts";
import type { TogetherLine } from "../programs.ts";
import { type Pass, planRows, type Stage, type Step } from "../rows/plan.ts";
import {
  bytesOfMove,
  type Form,
  localSize,
  type Move,
  moveTo,
  type Place,
  type Reduction,
  roundsOfMove,
} from "./layout.ts";
import { moveOperator, type Sent } from "./moves.ts";
import { type Applied, type Strategy, strategiesOf } from "./strategies.ts";

/** The workers of a program. */
export interface Setting {
  readonly place: Place;
  /** What each of them computes and sends in a second. */
  readonly machine: Machine;
  /** Smaller matrices are not cut for their own sake. */
  readonly wholeBytes: number;
  /** Whether a matrix of this size is kept in blocks. */
  isCut(size: Size): boolean;
}

/** An input: its size, unless it is no matrix of f64, and the forms in which the workers have it. */
export interface Leaf {
  readonly size: Size | undefined;
  readonly forms: readonly Form[];
}

/** What is computed, as the program of a process has it. */
export interface Given {
  readonly steps: readonly Step[];
  readonly outputs: readonly number[];
}

/** The program of a worker. */
export interface PlanTogether {
  /** Its inputs: numbers of leaves, and in which form. */
  readonly inputs: readonly { readonly leaf: number; readonly form: Form }[];
  readonly steps: readonly Step[];
  readonly stages: readonly Stage[];
  readonly outputs: readonly number[];
  /** How the results lie. */
  readonly forms: readonly Form[];
  /** The physical operators and changes of form, for people. */
  readonly lines: readonly TogetherLine[];
  /** The names of the physical operators, in the order of the program's steps. */
  readonly operators: readonly string[];
  /** Bytes that all workers send in a run. */
  readonly bytes: number;
}

/** A value of a worker: an input, or what a step gives. */
interface LocalValue {
  /** The size of the whole matrix, and how it lies: what a worker has of it follows. */
  readonly size: Size | undefined;
  readonly form: Form;
  readonly input?: { readonly leaf: number; readonly form: Form };
  readonly step?: {
    readonly operator: Operator;
    readonly attrs: Step["attrs"];
    readonly operands: readonly LocalValue[];
  };
}

/** A value of the program, in the forms that it has had so far. */
interface Known {
  readonly size: Size | undefined;
  readonly forms: Map<Form | Reduction, LocalValue>;
  /** Of a matrix that is kept as entries, how many there are. A block of it would be dense, so each worker has all of it. */
  readonly entries?: number | undefined;
  /** The number of the value whose transpose it is. */
  readonly transposed?: number | undefined;
  /** The number of the matrix by whose rows it was computed, by a product with something whole. */
  readonly rowsOf?: number | undefined;
}

const words: Readonly<Record<Form | Reduction, string>> = {
  whole: "whole",
  0: "rows",
  1: "columns",
  sum: "a sum",
  min: "a minimum",
  max: "a maximum",
  product: "a product",
};

/** The size of what a worker has of a value. */
const sizeAt = ({ size, form }: LocalValue, place: Place): Size | undefined => size && localSize(size, form, place);

/** How many numbers are read of a value. */
const amount = ({ size, entries }: Known): number => entries ?? (size === undefined ? 0 : cells(size));

const isForm = (result: Form | Reduction): result is Form => result === "whole" || result === 0 || result === 1;

/** Plans one program. */
class Planner {
  readonly lines: TogetherLine[] = [];
  readonly operators: string[] = [];
  bytes = 0;
  private readonly known: Known[];
  private readonly setting: Setting;
  private readonly sent: Sent;

  constructor(leaves: readonly Leaf[], setting: Setting, sent: Sent) {
    this.setting = setting;
    this.sent = sent;
    this.known = leaves.map(({ size, forms }, leaf) => ({
      size,
      forms: new Map(forms.map((form) => [form, { size, form, input: { leaf, form } }])),
    }));
  }

  /** Plans a step by its cheapest way. */
  step({ operator, attrs, size, operands }: Step): void {
    const { place } = this.setting;
    const inputs = operands.map((operand) => this.known[operand] as Known);
    // What is no matrix of f64 is whole, and has no sides that could be cut.
    const sizes = inputs.map((input) => input.size ?? ([0, 0] as const));
    const applied: Applied = { operator, attrs, inputs: sizes, size };
    const [first, ...together] = strategiesOf(applied, place.size) as [Strategy, ...Strategy[]];
    const isPossible = ({ operands: lie }: Strategy): boolean =>
      lie.every((form, index) => form === "whole" || inputs[index]?.entries === undefined);
    const rest = this.isWorthIt(inputs, size) ? together.filter(isPossible) : [];
    const best = rest.reduce(
      (least, way) => {
        const cost = this.cost(way, applied, inputs);
        return cost < least.cost ? { way, cost } : least;
      },
      { way: first, cost: this.cost(first, applied, inputs) },
    ).way;
    const isMoved = best.operands.some((form, index) => moveOf(inputs[index] as Known, form, place.size) !== undefined);
    const values = best.operands.map((form, index) => this.inForm(operands[index] as number, form));
    const name = isMoved ? best.name : this.nameOf(best.name, operands);
    const value: LocalValue = {
      size,
      form: isForm(best.result) ? best.result : "whole",
      step: { operator: best.local?.(place) ?? operator, attrs, operands: values },
    };
    this.lines.push({ step: this.known.length, how: `${name}: ${words[best.result]}` });
    this.operators.push(name);
    this.known.push({
      size,
      forms: new Map([[best.result, value]]),
      entries: operator.kept === true ? amount(inputs[0] as Known) : undefined,
      transposed: operator === others.transpose ? operands[0] : undefined,
      rowsOf: best.name === "mapmm" && best.result === 0 ? operands[0] : this.rowsBehind(operator, operands),
    });
  }

  /** A result in the form that it is kept in: small ones whole, if they have to be sent anyway. */
  output(value: number): { readonly local: LocalValue; readonly form: Form } {
    const { forms, size } = this.known[value] as Known;
    const isSmall = size === undefined || !this.setting.isCut(size);
    const held = ([0, 1, "whole"] as const).filter((form) => forms.has(form));
    const form = held.find((one) => (one === "whole") === isSmall) ?? held[0] ?? (isSmall ? "whole" : 0);
    return { local: this.inForm(value, form), form };
  }

  /** Whether other ways than by each worker alone come into question. */
  private isWorthIt(inputs: readonly Known[], size: Size): boolean {
    const isLarge = (one: Size | undefined): boolean => one !== undefined && 8 * cells(one) > this.setting.wholeBytes;
    return isLarge(size) || inputs.some(({ forms, size: own }) => forms.has(0) || forms.has(1) || isLarge(own));
  }

  /** Seconds of a way: what has to be sent before and, for what is to be summed up, after it, and the operations of a worker. */
  private cost(
    { operands, result }: Strategy,
    { operator, inputs: sizes, size }: Applied,
    inputs: readonly Known[],
  ): number {
    const { place, machine } = this.setting;
    const before = operands.map((form, index) => {
      const move = moveOf(inputs[index] as Known, form, place.size);
      return move === undefined ? 0 : this.seconds(move, sizes[index] as Size);
    });
    const kept = this.setting.isCut(size) ? 0 : "whole";
    const after = isForm(result) ? 0 : this.seconds(moveTo(result, kept) as Move, size);
    const all = inputs.reduce((sum, one) => sum + amount(one), cells(size));
    // Of what an operator does for each element it does the share that has an entry.
    const density = inputs.reduce((of, one, at) => (of * amount(one)) / cells(sizes[at] as Size) || of, 1);
    const dense = operator.work?.(
      sizes.map((one) => ({ size: one }) as Expression),
      size,
    );
    const flops = dense === undefined ? all : dense * density;
    const share = operands.every((form) => form === "whole") && result === "whole" ? 1 : place.size;
    const work = workSeconds({ flops: flops / share, bytes: (8 * all) / share }, machine);
    return before.reduce((sum, one) => sum + one, after + work);
  }

  private seconds(move: Move, size: Size): number {
    const { place, machine } = this.setting;
    const bytes = bytesOfMove(move, size, place.size) / place.size;
    return sendSeconds({ axis: "data", rounds: roundsOfMove(move, size, place.size), bytes }, machine);
  }

  /** A value in a form, changed if need be; a change is made once. */
  private inForm(value: number, form: Form): LocalValue {
    const known = this.known[value] as Known;
    const there = known.forms.get(form);
    if (there !== undefined) return there;
    const { place } = this.setting;
    const size = known.size as Size;
    const move = moveOf(known, form, place.size) as Move;
    const from = sourceOf(known, form, place.size) as Form | Reduction;
    const made: LocalValue = {
      size,
      form,
      step: {
        operator: moveOperator(move, size, place, this.sent),
        attrs: noAttrs,
        operands: [known.forms.get(from) as LocalValue],
      },
    };
    const bytes = bytesOfMove(move, size, place.size);
    this.bytes += bytes;
    this.lines.push({ how: `${move.kind} ${value}: ${words[from]} to ${words[form]}`, bytes });
    known.forms.set(form, made);
    return made;
  }

  /** The name of a product that sums over blocks whose operands lie as they have to already. */
  private nameOf(name: string, operands: readonly number[]): string {
    if (name !== "cpmm") return name;
    const [left, right] = operands.map((operand) => this.known[operand] as Known) as [Known, Known];
    if (left.transposed === undefined) return name;
    if (left.transposed === operands[1]) return "tsmm";
    return right.rowsOf === left.transposed ? "mapmmchain" : "zipmm";
  }

  private rowsBehind(operator: Operator, operands: readonly number[]): number | undefined {
    if (operator.elementwise !== true) return undefined;
    return operands.map((operand) => this.known[operand]?.rowsOf).find((of) => of !== undefined);
  }
}

/** The form from which the wanted one costs least. */
function sourceOf({ forms, size }: Known, wanted: Form, workers: number): Form | Reduction | undefined {
  if (forms.has(wanted) || size === undefined) return undefined;
  const bytes = (from: Form | Reduction): number => bytesOfMove(moveTo(from, wanted) as Move, size, workers);
  return [...forms.keys()].reduce((best, from) => (bytes(from) < bytes(best) ? from : best));
}

function moveOf(known: Known, wanted: Form, workers: number): Move | undefined {
  const from = sourceOf(known, wanted, workers);
  return from === undefined ? undefined : moveTo(from, wanted);
}

/** Plans a program for one worker. All workers make the same plan, for blocks of their own. */
export function planTogether(
  { steps, outputs }: Given,
  leaves: readonly Leaf[],
  setting: Setting,
  sent: Sent,
): PlanTogether {
  const planner = new Planner(leaves, setting, sent);
  for (const step of steps) planner.step(step);
  const results = outputs.map((output) => planner.output(output));
  const { inputs, ordered } = numbered(results.map(({ local: value }) => value));
  const place = new Map([...inputs, ...ordered].map((value, index) => [value, index]));
  const localSteps = ordered.map((value): Step => {
    const { operator, attrs, operands } = value.step as NonNullable<LocalValue["step"]>;
    const size = sizeAt(value, setting.place) as Size;
    return { operator, attrs, size, operands: operands.map((operand) => place.get(operand) as number) };
  });
  const localOutputs = results.map(({ local: value }) => place.get(value) as number);
  return {
    inputs: inputs.map(({ input }) => input as NonNullable<LocalValue["input"]>),
    steps: localSteps,
    stages: stagesOf(inputs, ordered, { steps: localSteps, outputs: localOutputs }, setting.place),
    outputs: localOutputs,
    forms: results.map(({ form }) => form),
    lines: planner.lines,
    operators: planner.operators,
    bytes: planner.bytes,
  };
}

/**
 * The passes over a worker's rows. Blocks differ by a row: all workers plan for the longest one, so that they come to their collectives in the
 * same order. Rows are told by their number, so a pass has to find the same sides on every worker: a block of a matrix with a row less, or
 * a whole matrix, may be as long as the longest block and not as long as another.
 */
function stagesOf(
  inputs: readonly LocalValue[],
  ordered: readonly LocalValue[],
  { steps, outputs }: Given,
  { rank, size: workers }: Place,
): readonly Stage[] {
  const all = [...inputs, ...ordered];
  const sizes = Array.from({ length: workers }, (_unused, of) =>
    all.map((value) => sizeAt(value, { rank: of, size: workers })),
  );
  const longest = sizes.at(-1) as readonly (Size | undefined)[];
  const rowsOf = ({ stacks }: Pass, of: number): number => sizes[of]?.[stacks[0] as number]?.[0] as number;
  const isForAll = (pass: Pass): boolean =>
    sizes.every((own, of) =>
      [...pass.stacks, ...pass.values].every((value) =>
        own[value]?.every((side, dim) => (side === rowsOf(pass, of)) === (longest[value]?.[dim] === pass.length)),
      ),
    );
  const planned = planRows({
    inputs: longest.slice(0, inputs.length),
    steps: steps.map((step, index) => ({ ...step, size: longest[inputs.length + index] as Size })),
    outputs,
  });
  return planned.map(({ values, pass }): Stage => {
    if (pass === undefined) return { values };
    return isForAll(pass)
      ? { values, pass: { ...pass, length: rowsOf(pass, rank) } }
      : { values: [...values, ...pass.values] };
  });
}

/** The inputs and the steps that results need, operands first. */
function numbered(roots: readonly LocalValue[]): { readonly inputs: LocalValue[]; readonly ordered: LocalValue[] } {
  const [inputs, ordered, seen]: [LocalValue[], LocalValue[], Set<LocalValue>] = [[], [], new Set()];
  const stack: { readonly value: LocalValue; next: number }[] = [];
  const visit = (value: LocalValue): void => {
    if (seen.has(value)) return;
    seen.add(value);
    if (value.input === undefined) stack.push({ value, next: 0 });
    else inputs.push(value);
  };
  for (const root of roots) {
    visit(root);
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const operand = top.value.step?.operands[top.next++];
      if (operand !== undefined) visit(operand);
      else ordered.push((stack.pop() as typeof top).value);
    }
  }
  return { inputs, ordered };
}
