/**
 * @module The central structures: a node of a graph, the definition of an op, a graph.
 *
 * A node is immutable and interned within one trace: equal op, inputs and attributes give the same object. Its types
 * are derived by the op once, when it is made.
 */
import type { Fault } from "../util/faults.ts";
import type { Plain } from "../util/text.ts";
import type { Absent } from "./absent.ts";
import type { Communication } from "./communication.ts";
import type { TypedArray } from "./dtype.ts";
import type { Equation } from "./equation.ts";
import type { LowerRule, OpForm } from "./kernel.ts";
import type { HostTensor, Shape, TensorType } from "./shape.ts";

export { type Absent, absent, isAbsent } from "./absent.ts";
export type { HostTensor } from "./shape.ts";

/** Attributes of a node: plain data, and the graphs that an op with a body owns. */
export type Attrs = { readonly [key: string]: Plain | Graph };

/** One operation applied to values. Most ops have one result; of several, `element` nodes pick one. */
export interface Node<A extends Attrs = Attrs> {
  /** Counts up in order of creation within a trace; inputs always have smaller ids. */
  readonly id: number;
  readonly op: AnyOpDef;
  readonly inputs: readonly Node[];
  readonly attrs: A;
  readonly types: readonly TensorType[];
  /** The first result's. */
  readonly shape: Shape;
  readonly dtype: TensorType["dtype"];
}

/** A traced function. `inputs` are `parameter` nodes in order; `outputs` may repeat and may be inputs. */
export interface Graph {
  readonly kind: "graph";
  readonly name: string;
  readonly inputs: readonly Node[];
  readonly outputs: readonly Node[];
}

/** What a reference implementation may ask of its surroundings. */
export interface ReferenceContext {
  evaluate(graph: Graph, inputs: readonly HostTensor[]): HostTensor[];
  /** This device's coordinate on a mesh axis. */
  coordinate(axis: string): number;
}

/** The op whose gradient is asked for, and the cotangents of its results (undefined: zero). */
export interface GradientContext<A extends Attrs> {
  readonly node: Node<A>;
  readonly cotangents: readonly (Node | undefined)[];
  /** Cotangents of `wrt` in the trace in progress: how an op that owns graphs differentiates them. */
  readonly pullback: Pullback;
}

/** Cotangents of `wrt` given those of `outputs`; undefined where nothing flows. */
export type Pullback = (
  outputs: readonly Node[],
  cotangents: readonly (Node | undefined)[],
  wrt: readonly Node[],
) => (Node | undefined)[];

/** A value in a batched graph. */
export interface Batched {
  /** With the batch as dim 0 where `batched`, else as it was: alike for all of the batch. */
  readonly node: Node;
  readonly batched: boolean;
}

/** Asks an op for its form on a batch of inputs. At least one input is batched. */
export interface BatchContext<A extends Attrs> {
  /** The op on inputs without the batch; of another trace, so only its types and attributes are of use. */
  readonly node: Node<A>;
  readonly inputs: readonly Batched[];
  /** Size of the batch. */
  readonly size: number;
  /** Batches a graph in the trace in progress: how an op that owns graphs batches them. */
  readonly batch: (graph: Graph, inputs: readonly Batched[]) => Batched[];
}

/** One batched value per result of the op. */
export type BatchRule<A extends Attrs> = (context: BatchContext<A>) => readonly Batched[];

/** A value and its derivative along the direction in which a graph is differentiated; undefined: zero. */
export interface Dual {
  readonly node: Node;
  readonly tangent: Node | undefined;
}

/** Asks an op that owns graphs for its values and tangents. At least one input has a tangent. */
export interface ForwardContext<A extends Attrs> {
  /** The op; of another trace, so only its types and attributes are of use. */
  readonly node: Node<A>;
  readonly inputs: readonly Dual[];
  /** Differentiates a graph in the trace in progress. */
  readonly forward: (graph: Graph, inputs: readonly Dual[]) => Dual[];
}

/** A mesh axis that splits dims of an op: which dim of each input and output (undefined: none). */
export interface Split {
  readonly axis: string;
  /** Number of devices on the axis. */
  readonly parts: number;
  readonly inputs: readonly (number | undefined)[];
  readonly outputs: readonly (number | undefined)[];
  /** Where the parts are not equal: the size of each, and that of this device. */
  readonly uneven?: { readonly sizes: readonly number[]; readonly own: number };
  /** Inputs that came as windows with their neighbours' rows, and what to pad them by. */
  readonly windows?: readonly WindowPart[];
}

/** A dim of an input (or of the first output) of which a device works on a window. */
export interface WindowPart {
  readonly side: "input" | "output";
  readonly operand: number;
  readonly dim: number;
  /** Padding that takes the place of the op's own on this device. */
  readonly low: number;
  readonly high: number;
}

/** Asks an op for its form on one device. A dim that several axes split is cut by the first one first. */
export interface LocalContext<A extends Attrs> {
  readonly attrs: A;
  /** Local inputs. */
  readonly inputs: readonly Node[];
  readonly splits: readonly Split[];
}

/**
 * A loop. The body takes an i32 scalar that counts the iterations, then what the node takes: carries, slices (index i of
 * dim 0 of an input), and the rest whole, alike in every iteration. It gives the next carries, then what is stacked along
 * a new dim 0 as the node's further results.
 */
export interface LoopControl {
  readonly kind: "loop";
  readonly body: Graph;
  /** Runs before each iteration, on what the body takes; the loop ends when its bool is false. */
  readonly condition: Graph | undefined;
  /** Number of iterations; undefined where the condition decides. */
  readonly length: number | undefined;
  /** Whether the count goes down from `length - 1`. */
  readonly reverse: boolean;
  readonly carries: number;
  readonly slices: number;
  /** The op's attributes with another body, which may take more slices and stack more values; absent where nothing is stacked. */
  readonly withBody?: (body: Graph, slices: number) => Attrs;
}

/** One of two graphs: the first where the node's first input, a bool scalar, is true. Both take the further inputs. */
export interface BranchControl {
  readonly kind: "branch";
  readonly branches: readonly [onTrue: Graph, onFalse: Graph];
}

/** The graphs that an op owns, and when they run. */
export type Control = LoopControl | BranchControl;

// The attribute type of an op is known where the op is defined; graphs hold ops of all kinds.
// biome-ignore lint/suspicious/noExplicitAny: an existential type, which TypeScript cannot spell
export type AnyOpDef = OpDef<any>;

/** Positions of inputs, set by set. */
type LinearSets = readonly (readonly number[])[];

/** Everything about one op, in one object. Every field is required; one that does not apply says why. */
export interface OpDef<A extends Attrs = Attrs> {
  readonly name: string;
  /** What it does, in a sentence or two. */
  readonly doc: string;
  /** A worked example that the tests run on every executor. */
  readonly example: OpExample<A> | Absent;
  /** Result types from input types; throws a HeddleError naming shapes and dtypes when they do not fit. */
  readonly infer: (inputs: readonly TensorType[], attrs: A) => TensorType | readonly TensorType[];
  /** The index equation: which dims correspond, which are contracted. Shardings are derived from it. */
  readonly equation: ((inputs: readonly TensorType[], attrs: A) => Equation) | Absent;
  /** Sets of inputs in which the op is jointly linear: `Partial(sum)` passes through each set. */
  readonly linear: LinearSets | ((attrs: A, inputs: readonly TensorType[]) => LinearSets);
  /** Cotangents of the inputs (undefined: zero). */
  readonly gradient: ((context: GradientContext<A>) => readonly (Node | undefined)[]) | Absent;
  /**
   * The op on a batch. Absent where a batch makes no sense; a composite without a rule is batched by its body.
   */
  readonly batch: BatchRule<A> | Absent;
  /** The op on one device. Absent where attributes hold no sizes: then it is the same op on local inputs. */
  readonly localize: ((context: LocalContext<A>) => Node) | Absent;
  /** Whether it sums products over dims: loops keep such results for their gradients, however few operations they take. */
  readonly contracts?: true;
  /** Arithmetic operations. */
  readonly cost: (inputs: readonly TensorType[], outputs: readonly TensorType[], attrs: A) => number;
  /** The meaning, in TypeScript: the oracle of every executor. */
  readonly reference:
    | ((
        inputs: readonly HostTensor[],
        attrs: A,
        outputs: readonly TensorType[],
        context: ReferenceContext,
      ) => readonly TypedArray[])
    | Absent;
  /** What it does with its operands, whichever executor runs it. Absent: it is only ever what it is made of. */
  readonly form: OpForm<A> | Absent;
  /** What a fault of its kernel means, where it is not what the kernel says: kernels know nothing of loops. */
  readonly says?: (fault: Fault, inputs: readonly TensorType[], attrs: A) => Fault;
  /** How native kernels compute it, where its form is `kernel`; for executors alone to ask. */
  readonly lower: LowerRule<A> | Absent;
  /**
   * For a composite, its meaning as other ops: its fallback wherever a rule above is absent, and its oracle. Absent for
   * a primitive.
   */
  readonly body: ((inputs: readonly Node[], attrs: A) => readonly Node[]) | Absent;
  /** Values and tangents of an op that owns graphs. Absent: tangents follow from the gradient, or from the body. */
  readonly forward: ((context: ForwardContext<A>) => readonly Dual[]) | Absent;
  /** For loops and branches, the graphs that the op owns and when they run. */
  readonly control: ((attrs: A) => Control) | Absent;
  /** For collectives, what the rest of the system needs to know of them. */
  readonly communication: Communication<A> | Absent;
}

export interface OpExample<A extends Attrs = Attrs> {
  readonly inputs: readonly HostTensor[];
  readonly attrs: A;
  readonly outputs: readonly HostTensor[];
}
