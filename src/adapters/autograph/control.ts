/**
 * @module What `if`, `for`, `while` and jumps of transformed functions become. Where the condition is not a tensor they
 * do what JavaScript does, statement by statement; where it is a traced tensor they become branches and loops of the
 * graph.
 */

import { type FlatTree, flattenTree, HeddleError, unflattenTree } from "../../extend/browser.ts";
import {
  and,
  cond,
  full,
  isTensor,
  isTracing,
  not,
  or,
  scan,
  type Tensor,
  traceApart,
  whileLoop,
} from "../../functions/index.ts";
import { formatType } from "../../ir/index.ts";
import { type Bounded, within as bodyWithin, checkBound, optionsOf } from "./bound.ts";
import { asCount, countOf } from "./counts.ts";
import {
  type Merged,
  type MergedLeaf,
  mergeTrees,
  missing,
  type Naming,
  type Side,
  type Source,
  sourceTensor,
} from "./merge.ts";

/** The variables of a function that a statement changes, as the transformed source hands them over. */
export interface State {
  readonly get: () => unknown[];
  readonly set: (values: readonly unknown[]) => void;
  readonly names: readonly string[];
  /** `file:line:column` of the statement. */
  readonly where: string;
  /** What cannot be done under a condition that is a tensor, each with its place. */
  readonly refused?: readonly (readonly [what: string, where: string])[];
}

/** Whether a jump is taken: known, or a bool scalar. */
type Flag = boolean | Tensor;

/**
 * How a piece of a function ended other than at its end. Each way is certain (true), possible (a tensor) or excluded
 * (false).
 */
export class Signal {
  /** Whether the loop has ended by `break`. */
  readonly broke: Flag;
  /** Whether the pass has ended by `continue`. */
  readonly continued: Flag;
  /** Whether the function has returned. */
  readonly returned: Flag;
  /** The returned value. */
  readonly value: unknown;
  constructor(broke: Flag, continued: Flag, returned: Flag, value: unknown) {
    this.broke = broke;
    this.continued = continued;
    this.returned = returned;
    this.value = value;
  }
}

export type Ending = Signal | undefined;

/** `break`: the loop runs no further iteration. */
export const broke = (): Signal => new Signal(true, false, false, missing);
/** `continue`: what follows in the iteration does not run. */
export const continued = (): Signal => new Signal(false, true, false, missing);
/** `return value`: what follows in the function does not run. */
export const returned = (value?: unknown): Signal => new Signal(false, false, true, value);

const either = (left: Flag, right: Flag): Flag => {
  if (left === true || right === true) return true;
  if (left === false) return right;
  return right === false ? left : or(left, right);
};
const stopOf = (signal: Signal): Flag => either(either(signal.broke, signal.continued), signal.returned);
const orNothing = (signal: Signal): Ending => (stopOf(signal) === false ? undefined : signal);
/** The part of an ending that ends a loop: `break` and `return`. */
const leaving = (ending: Ending): Ending =>
  ending === undefined ? undefined : orNothing(new Signal(ending.broke, false, ending.returned, ending.value));
/** The part of an ending that reaches beyond a loop: `return`. */
const returning = (ending: Ending): Ending =>
  ending === undefined ? undefined : orNothing(new Signal(false, false, ending.returned, ending.value));

/**
 * The truth value of a condition: a bool tensor where the condition is a traced bool tensor, or a number that a tensor
 * decides; else a boolean. Tensors of other dtypes are objects, and so true; outside of a trace the value of a bool
 * tensor is read.
 *
 * @throws HeddleError `autograph` for a bool tensor that is not a scalar.
 */
export function decide(test: unknown, where: string): boolean | Tensor {
  if (isTensor(test) && countOf(test) !== undefined) return test.ne(0);
  if (!isTensor(test) || test.dtype !== "bool") return Boolean(test);
  if (test.shape.length > 0)
    throw new HeddleError("autograph", `a condition must be one truth value, got ${formatType(test)}`, {
      where,
      hint: "reduce it with all(condition) or any(condition), or choose by element with select(condition, a, b)",
    });
  return isTracing() ? test : Boolean(test.itemSync());
}

/** Checks the condition of a construct that cannot become part of a graph: it may be anything but a traced bool. */
export function plain(test: unknown, what: string, where: string): unknown {
  if (typeof decide(test, where) === "boolean")
    return isTensor(test) && test.dtype === "bool" ? decide(test, where) : test;
  throw new HeddleError("autograph", `${what} cannot depend on a tensor`, {
    where,
    hint: "docs/autograph.md lists what can; cond, whileLoop and select say it directly",
  });
}

function refuse({ refused = [] }: Pick<State, "refused">): void {
  const [first] = refused;
  if (first === undefined) return;
  const what = refused.map(([reason]) => reason).join("; ");
  throw new HeddleError("autograph", `under a condition that is a tensor: ${what}`, {
    where: first[1],
    hint: "both branches are traced, so effects would be those of both: return what changes and assign it to variables here",
  });
}

/** How many branches and loop bodies under conditions that are tensors are being traced, one within another. */
let undecided = 0;

/** The last error that a `throw` in such a branch or body threw, and its place. */
let lastThrown: { readonly error: unknown; readonly where: string } | undefined;
/** Errors that left such a branch or body: whether the program would throw them is not known. */
const escaped = new WeakSet<object>();

/** The deepest nesting since it was last 0, and the place of its innermost condition. */
let deepest = { undecided: 0, where: "" };
/** Nesting from this depth on is taken for endless recursion; the stack has room for more. */
const recursive = 32;

/** Traces a piece that runs only under the condition at `where`, which is a tensor. */
function perhaps<T>(where: string, piece: () => T): T {
  if (undecided === 0) deepest = { undecided: 0, where };
  undecided += 1;
  if (undecided > deepest.undecided) deepest = { undecided, where };
  try {
    return piece();
  } catch (error) {
    // The outermost level reports the error: at the inner levels the stack is full.
    if (undecided === 1 && error instanceof RangeError && deepest.undecided >= recursive) throw endlessRecursion(error);
    const known = lastThrown !== undefined && Object.is(lastThrown.error, error) ? refusedThrow(lastThrown) : error;
    if (typeof known === "object" && known !== null) escaped.add(known);
    throw known;
  } finally {
    undecided -= 1;
    lastThrown = undefined;
  }
}

const refusedThrow = ({ error, where }: { readonly error: unknown; readonly where: string }): HeddleError =>
  new HeddleError("autograph", `throw under a condition that is a tensor: ${String(error)}`, {
    where,
    hint: "both branches of such a condition are traced, so it would always be thrown: return a value that says so instead",
  });

const endlessRecursion = (cause: RangeError): HeddleError =>
  new HeddleError("autograph", "recursion under a condition that is a tensor has no end", {
    where: deepest.where,
    hint: "both branches of such a condition are traced, so every call makes another one: write a loop, or let a plain number end it",
    cause,
  });

/** The operand of `throw`; its place is kept for an error that leaves a branch on a tensor. */
export function thrown(error: unknown, where: string): unknown {
  if (undecided > 0) lastThrown = { error, where };
  return error;
}

/** Called at the start of a `catch`: throws errors of tracing again, which are not the function's own. */
export function rethrow(error: unknown): void {
  const refusal = error instanceof HeddleError && error.code === "autograph" && isTracing();
  if (refusal || (typeof error === "object" && error !== null && escaped.has(error))) throw error;
}

const flat = (tree: unknown): FlatTree<Tensor> => flattenTree(tree, isTensor);
/** The values of one side as a tree, with what is known of the whole numbers among them. */
const sideOf = ({ shape, leaves }: FlatTree<Tensor>, when: string): Side => ({
  shape,
  leaves: leaves.map((leaf) => ({ type: leaf, count: countOf(leaf) })),
  when,
});
/** Marks tensors as whole numbers where those in `like` are. */
const counted = (tensors: readonly Tensor[], like: readonly (Tensor | MergedLeaf)[]): Tensor[] =>
  tensors.map((tensor, at) => {
    const known = like[at] as Tensor | MergedLeaf;
    return asCount(tensor, isTensor(known) ? countOf(known) : known.count);
  });

/** The values of the two branches of a traced condition, merged by a `cond`. */
function merged(test: Tensor, onTrue: () => unknown, onFalse: () => unknown, naming: Naming): unknown {
  const [left, right] = perhaps(
    naming.where,
    () => [traceApart("onTrue", [], onTrue), traceApart("onFalse", [], onFalse)] as const,
  );
  const sides = [
    sideOf(flat(left.output), "where the condition holds"),
    sideOf(flat(right.output), "where it does not"),
  ] as const;
  const both = mergeTrees(...sides, naming);
  if (both.leaves.length === 0) return unflattenTree(both.shape, []);
  const [whenTrue, whenFalse] = ([left, right] as const).map((traced, branchIndex) => (): Tensor[] => {
    const leaves = traced.place();
    return both.leaves.map(({ type, sources }) => sourceTensor(sources[branchIndex] as Source, type, leaves));
  }) as [() => Tensor[], () => Tensor[]];
  const results = cond(
    test,
    () => whenTrue(),
    () => whenFalse(),
  );
  return unflattenTree(both.shape, counted(results, both.leaves));
}

const namingOf = ({ names, where }: State): Naming => ({
  where,
  name: ([part, variable]) => (part === 0 ? `'${names[variable as number]}'` : "the result of the function"),
});

type Packed = readonly [values: readonly unknown[], broke: Flag, continued: Flag, returned: Flag, value: unknown];

const pack = (values: readonly unknown[], ending: Ending): Packed => [
  values,
  ending?.broke ?? false,
  ending?.continued ?? false,
  ending?.returned ?? false,
  ending === undefined ? missing : ending.value,
];

function unpack([values, ...ending]: Packed, state: State): Ending {
  state.set(values);
  return orNothing(new Signal(...ending));
}

/** Runs both branches from the same values of the variables, and merges what they leave. */
function tensorBranch(test: Tensor, onTrue: () => Ending, onFalse: () => Ending, state: State): Ending {
  refuse(state);
  const before = state.get();
  const from = (branch: () => Ending) => (): unknown => {
    state.set(before);
    const ending = branch();
    return pack(state.get(), ending);
  };
  try {
    return unpack(merged(test, from(onTrue), from(onFalse), namingOf(state)) as Packed, state);
  } catch (error) {
    state.set(before);
    throw error;
  }
}

/** Runs the rest of a function, unless the function has ended. */
function andThen(ending: Ending, rest: (() => Ending) | undefined, state: State): Ending {
  if (rest === undefined) return ending;
  if (ending === undefined) return rest();
  const stop = stopOf(ending);
  return typeof stop === "boolean" ? ending : tensorBranch(stop, () => certain(ending), rest, state);
}

/** An ending that is known to have happened: where only one way is possible, that way is certain. */
function certain({ broke, continued, returned, value }: Signal): Signal {
  const possible = [broke, continued, returned].map((flag) => flag !== false);
  if (possible.filter(Boolean).length > 1) return new Signal(broke, continued, returned, value);
  const [mayBreak, mayContinue, mayReturn] = possible as [boolean, boolean, boolean];
  return new Signal(mayBreak, mayContinue, mayReturn, value);
}

/** `if (test) onTrue else onFalse`, and what follows where one of them may jump. */
export function branch(
  test: unknown,
  onTrue: () => Ending,
  onFalse: (() => Ending) | undefined,
  state: State,
  rest?: () => Ending,
): Ending {
  const decided = decide(test, state.where);
  const [whenTrue, whenFalse] = [onTrue, onFalse ?? (() => undefined)].map(
    (piece) => (): Ending => andThen(piece(), rest, state),
  ) as [() => Ending, () => Ending];
  if (typeof decided === "boolean") return decided ? whenTrue() : whenFalse();
  return tensorBranch(decided, whenTrue, whenFalse, state);
}

/** `test ? onTrue : onFalse`. */
export function choose(test: unknown, onTrue: () => unknown, onFalse: () => unknown, where: string): unknown {
  const decided = decide(test, where);
  if (typeof decided === "boolean") return decided ? onTrue() : onFalse();
  return merged(decided, onTrue, onFalse, { where, name: () => "the value of the condition" });
}

/** How a loop is written. */
export interface LoopParts {
  readonly test: () => unknown;
  readonly update?: (() => unknown) | undefined;
  readonly body: () => Ending;
  /** Whether the body runs before the first test. */
  readonly bodyFirst?: boolean;
  /** Whether only a jump ends the loop. */
  readonly endless?: boolean;
}

/** `while`, `do … while` and `for (;;)`. */
export function loop(parts: LoopParts, state: State, rest?: () => Ending): Ending {
  let ending: Ending;
  const bounded: Bounded = { bound: undefined, may: true };
  const body = (): Ending => bodyWithin(bounded, parts.body);
  for (let iterations = 0; ; iterations++) {
    const go = (iterations === 0 && parts.bodyFirst === true) || decide(parts.test(), state.where);
    if (typeof go !== "boolean" || (parts.endless === true && ending !== undefined)) {
      ending = tensorLoop({ ...parts, body }, state, ending, bounded, iterations);
      // Without a `break` in it, only a `return` ends such a loop.
      if (parts.endless === true && ending?.broke === false) ending = returned(ending.value);
      break;
    }
    if (!go) break;
    // Once a traced jump may have ended the loop, the number of iterations is not known.
    if (ending === undefined) checkBound(bounded, iterations, state.where);
    ending = leaving(onward(ending, body, state));
    if (ending !== undefined && stopOf(ending) === true) break;
    parts.update?.();
  }
  return andThen(returning(ending), rest, state);
}

/** One more iteration, unless a traced jump has ended the loop. */
function onward(ending: Ending, body: () => Ending, state: State): Ending {
  const stop = ending === undefined ? false : stopOf(ending);
  if (typeof stop === "boolean") return body();
  return tensorBranch(stop, () => ending, body, state);
}

/** An iteration: from the variables and the ending before it to those after it. */
type Iteration = (carry: Packed, row: Tensor | undefined) => Packed;

/** The carry of a loop in a form that every iteration keeps: values that change are tensors. */
function stableCarry(first: Packed, iteration: Iteration, state: State, row: Tensor | undefined) {
  let start = flat(first);
  const naming = namingOf(state);
  for (;;) {
    const types = row === undefined ? [] : [{ dtype: row.dtype, shape: row.shape.slice(1) }];
    const carried = start;
    const { output } = traceApart("probe", [...start.leaves, ...types], (...leaves) =>
      iteration(
        unflattenTree(carried.shape, counted(leaves.slice(0, carried.leaves.length), carried.leaves)) as Packed,
        row === undefined ? undefined : leaves.at(-1),
      ),
    );
    const carry = mergeTrees(sideOf(start, "before an iteration"), sideOf(flat(output), "after it"), naming, true);
    if (carry.leaves.every((leaf, at) => isAs(leaf, at, carried.leaves))) return { start, carry };
    const grown = carry.leaves.map(({ type, sources }) => sourceTensor(sources[0], type, carried.leaves));
    start = flat(unflattenTree(carry.shape, counted(grown, carry.leaves)));
  }
}

/** Whether a leaf of the carry is the leaf that the loop starts with, unchanged in type. */
function isAs({ type, count, sources: [source] }: MergedLeaf, at: number, leaves: readonly Tensor[]): boolean {
  const leaf = leaves[at];
  return "leaf" in source && source.leaf === at && leaf?.dtype === type.dtype && countOf(leaf) === count;
}

/** The leaves that the next iteration gets. */
function nextLeaves(packed: Packed, carry: Merged, naming: Naming, start: FlatTree<Tensor>): Tensor[] {
  const result = flat(packed);
  const again = mergeTrees(sideOf(start, "before an iteration"), sideOf(result, "after it"), naming, true);
  return carry.leaves.map(({ type }, at) =>
    sourceTensor((again.leaves[at] as MergedLeaf).sources[1], type, result.leaves),
  );
}

/** A loop whose end is not known when it is traced. */
function tensorLoop(
  { test, update, body }: LoopParts,
  state: State,
  ending: Ending,
  bounded: Bounded,
  done: number,
): Ending {
  refuse(state);
  const iteration: Iteration = ([values]) => {
    state.set(values);
    const ended = perhaps(state.where, () => leaving(body()));
    perhaps(state.where, () => update?.());
    return pack(state.get(), ended);
  };
  const first = pack(state.get(), ending);
  const { start, carry } = stableCarry(first, iteration, state, undefined);
  const packedOf = (leaves: readonly Tensor[]): Packed =>
    unflattenTree(start.shape, counted(leaves, start.leaves)) as Packed;
  const goesOn = (leaves: readonly Tensor[]): Tensor => {
    const [values, ...flags] = packedOf(leaves);
    state.set(values);
    const go = decide(test(), state.where);
    const stop = stopOf(new Signal(...flags));
    const asked = typeof go === "boolean" ? full([], Number(go), { dtype: "bool" }) : go;
    return typeof stop === "boolean" ? asked : and(not(stop), asked);
  };
  // The name is for the error of a loop that runs past its bound.
  const name = `loop-of-line-${/:(\d+):\d+$/.exec(state.where)?.[1] ?? ""}`;
  const next = (leaves: readonly Tensor[]): readonly Tensor[] =>
    nextLeaves(iteration(packedOf(leaves), undefined), carry, namingOf(state), start);
  const last = whileLoop<readonly Tensor[]>(
    goesOn,
    Object.defineProperty(next, "name", { value: name }),
    start.leaves,
    optionsOf(bounded, done, state.where),
  );
  return unpack(packedOf(last), state);
}

const unbounded: Bounded = { bound: undefined, may: false };

/**
 * `for (const element of elements)`. The elements of a tensor are its slices along dim 0; a traced loop over them is a
 * scan, which has a gradient.
 */
export function each(elements: unknown, body: (element: unknown) => Ending, state: State, rest?: () => Ending): Ending {
  let ending: Ending;
  if (isTensor(elements) && isTracing()) ending = tensorRows(elements, body, state);
  else
    for (const element of isTensor(elements) ? rowsOf(elements) : (elements as Iterable<unknown>)) {
      ending = leaving(onward(ending, () => bodyWithin(unbounded, () => body(element)), state));
      if (ending !== undefined && stopOf(ending) === true) break;
    }
  return andThen(returning(ending), rest, state);
}

function rowsOf(x: Tensor): Tensor[] {
  const [length = 0, ...shape] = x.shape;
  const zeros = shape.map(() => 0);
  return Array.from({ length }, (_unused, at) => x.slice([at, ...zeros], [at + 1, ...shape]).reshape(shape));
}

function tensorRows(rows: Tensor, body: (element: unknown) => Ending, state: State): Ending {
  if (rows.shape.length === 0)
    throw new HeddleError("autograph", `${formatType(rows)} has no dim to iterate over`, { where: state.where });
  refuse(state);
  const iteration: Iteration = ([values, ...flags], row) => {
    state.set(values);
    const ended = perhaps(state.where, () =>
      leaving(onward(orNothing(new Signal(...flags)), () => bodyWithin(unbounded, () => body(row)), state)),
    );
    return pack(state.get(), ended);
  };
  const { start, carry } = stableCarry(pack(state.get(), undefined), iteration, state, rows);
  const packedOf = (leaves: readonly Tensor[]): Packed =>
    unflattenTree(start.shape, counted(leaves, start.leaves)) as Packed;
  const [last] = scan(
    (leaves: readonly Tensor[], row: Tensor): [readonly Tensor[], Tensor[]] => [
      nextLeaves(iteration(packedOf(leaves), row), carry, namingOf(state), start),
      [],
    ],
    start.leaves as readonly Tensor[],
    rows,
  );
  return unpack(packedOf(last), state);
}

/** The result of a function. */
export function leave(ending: Ending, where: string): unknown {
  if (ending === undefined || ending.returned === false) return undefined;
  if (ending.returned === true) return ending.value;
  throw new HeddleError("autograph", "the function returns a value for one condition and nothing for another", {
    where,
    hint: "end it with a return",
  });
}
