/**
 * @module The part of Python's pickle format that files of tensors use. Nothing is called and only plain values are
 * made: a call that a pickle asks for is kept as a {@link Call} for the reader of the file.
 */
import type { HeddleError } from "../util/errors.ts";

/** A name of a module of Python, such as `torch.FloatStorage`. */
export class Global {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** A call that a pickle asks for, or a persistent id, which has no callee. */
export class Call {
  readonly callee: Pickled;
  readonly argument: Pickled;
  constructor(callee: Pickled, argument: Pickled) {
    this.callee = callee;
    this.argument = argument;
  }
}

/** A value: dicts are maps, lists and tuples arrays. */
export type Pickled =
  | undefined
  | null
  | boolean
  | number
  | string
  | Uint8Array
  | Pickled[]
  | Map<Pickled, Pickled>
  | Global
  | Call;

const mark = Symbol("mark");
type Slot = Pickled | typeof mark;

/** Reads the bytes of one pickle. */
class Reader {
  private at = 0;
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private readonly problem: (what: string) => HeddleError;

  constructor(bytes: Uint8Array, problem: (what: string) => HeddleError) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.problem = problem;
  }

  /** Moves on by `count` bytes, which must be there; returns the position where they begin. */
  take(count: number): number {
    const start = this.at;
    if (count < 0 || start + count > this.bytes.length) throw this.problem("it is cut");
    this.at += count;
    return start;
  }

  /** An unsigned number of 1, 2 or 4 bytes. */
  count(width: 1 | 2 | 4): number {
    const at = this.take(width);
    return width === 1
      ? this.view.getUint8(at)
      : width === 2
        ? this.view.getUint16(at, true)
        : this.view.getUint32(at, true);
  }

  int(): number {
    return this.view.getInt32(this.take(4), true);
  }

  float(): number {
    return this.view.getFloat64(this.take(8));
  }

  slice(length: number): Uint8Array {
    const at = this.take(length);
    return this.bytes.subarray(at, at + length);
  }

  text(length: number): string {
    return new TextDecoder().decode(this.slice(length));
  }

  line(): string {
    const end = this.bytes.indexOf(10, this.at);
    if (end < 0) throw this.problem("it is cut");
    const text = this.text(end - this.at);
    this.at = end + 1;
    return text;
  }

  /** A whole number of any length in two's complement. */
  long(length: number): number {
    let value = 0n;
    const bytes = this.slice(length);
    bytes.forEach((byte, index) => {
      value |= BigInt(byte) << BigInt(8 * index);
    });
    return Number(length === 0 ? 0n : BigInt.asIntN(8 * length, value));
  }
}

/** The stack of values. */
class Stack {
  private readonly slots: Slot[] = [];
  private readonly problem: (what: string) => HeddleError;

  constructor(problem: (what: string) => HeddleError) {
    this.problem = problem;
  }

  push(value: Slot): void {
    this.slots.push(value);
  }

  pop(): Pickled {
    const value = this.slots.pop();
    if (value === mark || (value === undefined && this.slots.length === 0)) throw this.problem("a value is missing");
    return value as Pickled;
  }

  top(): Pickled {
    const value = this.pop();
    this.push(value);
    return value;
  }

  /** The values above the last mark. */
  above(): Pickled[] {
    const at = this.slots.lastIndexOf(mark);
    if (at < 0) throw this.problem("a mark is missing");
    const values = this.slots.splice(at);
    return values.slice(1) as Pickled[];
  }

  last(count: number): Pickled[] {
    return Array.from({ length: count }, () => this.pop()).reverse();
  }
}

/** The effect of an opcode. */
type Step = (reader: Reader, stack: Stack, memo: Map<number, Pickled>, problem: (what: string) => HeddleError) => void;

const pushing =
  (value: (reader: Reader) => Pickled): Step =>
  (reader, stack) =>
    stack.push(value(reader));

const remember =
  (keyOf: (reader: Reader, memo: Map<number, Pickled>) => number): Step =>
  (reader, stack, memo) => {
    memo.set(keyOf(reader, memo), stack.top());
  };
const recall =
  (width: 1 | 4): Step =>
  (reader, stack, memo, problem) => {
    const key = reader.count(width);
    if (!memo.has(key)) throw problem("a value is missing");
    stack.push(memo.get(key));
  };
const tuple =
  (count: number): Step =>
  (_reader, stack) =>
    stack.push(stack.last(count));
/** Adds pairs to the dict on top of the stack; another value is left unchanged. */
function setItems(stack: Stack, pairs: readonly Pickled[]): void {
  const target = stack.top();
  if (target instanceof Map) for (let at = 0; at + 1 < pairs.length; at += 2) target.set(pairs[at], pairs[at + 1]);
}
function append(stack: Stack, values: readonly Pickled[]): void {
  const target = stack.top();
  if (Array.isArray(target)) for (const value of values) target.push(value);
}
const call: Step = (_reader, stack) => {
  const [callee, argument] = stack.last(2);
  const isDict = callee instanceof Global && callee.name === "collections.OrderedDict";
  stack.push(isDict ? new Map() : new Call(callee, argument));
};

/** Steps by opcode, with the names of Python's `pickletools`. */
const steps: { readonly [opcode: number]: Step } = {
  128: (reader) => reader.take(1), // PROTO
  149: (reader) => reader.take(8), // FRAME
  40: (_reader, stack) => stack.push(mark), // MARK
  48: (_reader, stack) => stack.pop(), // POP
  49: (_reader, stack) => stack.above(), // POP_MARK
  78: pushing(() => null), // NONE
  136: pushing(() => true), // NEWTRUE
  137: pushing(() => false), // NEWFALSE
  75: pushing((reader) => reader.count(1)), // BININT1
  77: pushing((reader) => reader.count(2)), // BININT2
  74: pushing((reader) => reader.int()), // BININT
  138: pushing((reader) => reader.long(reader.count(1))), // LONG1
  71: pushing((reader) => reader.float()), // BINFLOAT
  140: pushing((reader) => reader.text(reader.count(1))), // SHORT_BINUNICODE
  88: pushing((reader) => reader.text(reader.count(4))), // BINUNICODE
  67: pushing((reader) => reader.slice(reader.count(1))), // SHORT_BINBYTES
  66: pushing((reader) => reader.slice(reader.count(4))), // BINBYTES
  85: pushing((reader) => reader.text(reader.count(1))), // SHORT_BINSTRING
  93: pushing(() => []), // EMPTY_LIST
  41: pushing(() => []), // EMPTY_TUPLE
  125: pushing(() => new Map()), // EMPTY_DICT
  143: pushing(() => []), // EMPTY_SET
  116: (_reader, stack) => stack.push(stack.above()), // TUPLE
  133: tuple(1), // TUPLE1
  134: tuple(2), // TUPLE2
  135: tuple(3), // TUPLE3
  97: (_reader, stack) => append(stack, stack.last(1)), // APPEND
  101: (_reader, stack) => append(stack, stack.above()), // APPENDS
  144: (_reader, stack) => append(stack, stack.above()), // ADDITEMS
  115: (_reader, stack) => setItems(stack, stack.last(2)), // SETITEM
  117: (_reader, stack) => setItems(stack, stack.above()), // SETITEMS
  99: pushing((reader) => new Global(`${reader.line()}.${reader.line()}`)), // GLOBAL
  147: (_reader, stack) => stack.push(new Global(stack.last(2).join("."))), // STACK_GLOBAL
  81: (_reader, stack) => stack.push(new Call(undefined, stack.pop())), // BINPERSID
  82: call, // REDUCE
  129: call, // NEWOBJ
  98: (_reader, stack) => stack.pop(), // BUILD: the state of an object is not needed
  113: remember((reader) => reader.count(1)), // BINPUT
  114: remember((reader) => reader.count(4)), // LONG_BINPUT
  148: remember((_reader, memo) => memo.size), // MEMOIZE
  104: recall(1), // BINGET
  106: recall(4), // LONG_BINGET
};
const stop = 46;

/** The value of a pickle. `problem` makes the error to throw. */
export function parsePickle(bytes: Uint8Array, problem: (what: string) => HeddleError): Pickled {
  const reader = new Reader(bytes, problem);
  const stack = new Stack(problem);
  const memo = new Map<number, Pickled>();
  for (;;) {
    const opcode = reader.count(1);
    if (opcode === stop) return stack.pop();
    const step = steps[opcode];
    if (step === undefined) throw problem(`it has the opcode ${opcode}, which is not read here`);
    step(reader, stack, memo, problem);
  }
}
