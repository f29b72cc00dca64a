/**
 * @module From a program of matrices to that of one worker: for each operator the way that is cheapest for what is there, by the bytes that are
 * sent and the operations of each worker, and the changes of form between them. The result is a program of steps like any other.
 */

import { type Machine, sendSeconds, workSeconds } from "../../cost/index.ts";
import { cells, type Expression, noAttrs, type Operator, type Size } from "../expression.ts";
import { others } from "../operators.ts";
import type { TogetherLine } from "../programs.ts";
import { planRows, type Stage, type Step } from "../rows/plan.ts";
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
  readonly size: Size | undefined;
  /** Its size on the worker with the longest block. */
  readonly longest: Size | undefined;
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
      forms: new Map(forms.map((form) => [form, { ...this.sizes(size, form), input: { leaf, form } }])),
    }));
  }

  /** Plans a step by its cheapest way. */
  step({ operator, attrs, size, operands }: Step): void {
    const { place } = this.setting;
    const inputs = operands.map((operand) => this.known[operand] as Known);
    // What is no matrix of f64 is whole, and has no sides that could be cut.
    const sizes = inputs.map((input) => input.size ?? ([0, 0] as const));
    const applied: Applied = { operator, attrs, inputs: sizes, size };
    const ways = this.isWorthIt(inputs, size)
      ? strategiesOf(applied, place.size)
      : strategiesOf(applied, place.size).slice(0, 1);
    const [first, ...rest] = ways as [Strategy, ...Strategy[]];
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
      ...this.sizes(size, isForm(best.result) ? best.result : "whole"),
      step: { operator: best.local?.(place) ?? operator, attrs, operands: values },
    };
    this.lines.push({ step: this.known.length, how: `${name}: ${words[best.result]}` });
    this.operators.push(name);
    this.known.push({
      size,
      forms: new Map([[best.result, value]]),
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
    const all = sizes.reduce((sum, one) => sum + cells(one), cells(size));
    const flops =
      operator.work?.(
        sizes.map((one) => ({ size: one }) as Expression),
        size,
      ) ?? all;
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
      ...this.sizes(size, form),
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

  private sizes(size: Size | undefined, form: Form): Pick<LocalValue, "size" | "longest"> {
    const { place } = this.setting;
    const last: Place = { rank: place.size - 1, size: place.size };
    return { size: size && localSize(size, form, place), longest: size && localSize(size, form, last) };
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
  const localSteps = ordered.map(({ step, size }): Step => {
    const { operator, attrs, operands } = step as NonNullable<LocalValue["step"]>;
    return { operator, attrs, size: size as Size, operands: operands.map((operand) => place.get(operand) as number) };
  });
  const localOutputs = results.map(({ local: value }) => place.get(value) as number);
  return {
    inputs: inputs.map(({ input }) => input as NonNullable<LocalValue["input"]>),
    steps: localSteps,
    stages: stagesOf(inputs, ordered, localSteps, localOutputs),
    outputs: localOutputs,
    forms: results.map(({ form }) => form),
    lines: planner.lines,
    operators: planner.operators,
    bytes: planner.bytes,
  };
}

/**
 * The passes over a worker's rows. Blocks differ by a row: all workers plan for the longest one, so that they come to their collectives in the
 * same order.
 */
function stagesOf(
  inputs: readonly LocalValue[],
  ordered: readonly LocalValue[],
  steps: readonly Step[],
  outputs: readonly number[],
): readonly Stage[] {
  const longest = steps.map((step, index) => ({ ...step, size: (ordered[index] as LocalValue).longest as Size }));
  const stages = planRows({ inputs: inputs.map((input) => input.longest), steps: longest, outputs });
  const rows = (value: number): number => ([...inputs, ...ordered][value] as LocalValue).size?.[0] as number;
  return stages.map(({ values, pass }) =>
    pass === undefined ? { values } : { values, pass: { ...pass, length: rows(pass.stacks[0] as number) } },
  );
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
