/** @module The views of all values of a region on storages, and the values that are generated where they are needed. */

import {
  denseOrder,
  isContiguous,
  type LowerRule,
  type OpForm,
  type ScalarInstruction,
  type View,
} from "../ir/kernel.ts";
import { parameterOp } from "../ir/leaf.ts";
import { type Attrs, type Graph, isAbsent, type Node } from "../ir/node.ts";
import { describeNode } from "../ir/print.ts";
import { formatType, type TensorType } from "../ir/shape.ts";
import { registerTarget, type Target } from "../ir/target.ts";
import { topological } from "../ir/walk.ts";
import { HeddleError } from "../util/errors.ts";
import { isWhole, type Storage, type StoragePool, storageOf } from "./storage.ts";

/** A copy for a view that no strides on the original can express. */
export interface Copy {
  readonly from: View;
  readonly to: View;
}

/** The target of native programs. Ops that are not kernels are lowered by their form. */
export const nativeTarget: Target<OpForm<Attrs> | LowerRule<Attrs>> = registerTarget({
  name: "native",
  ruleOf: ({ form, lower }) => (isAbsent(form) || form.kind === "kernel" ? lower : form),
});

const noKernel = (node: Node, reason: string): HeddleError =>
  new HeddleError("lower", `${describeNode(node)} has no native kernel: ${reason}`);

/** The form of a node's op; throws naming the op when a region cannot contain it. */
export function formOf(node: Node): OpForm<Attrs> {
  const { form } = node.op;
  if (isAbsent(form)) throw noKernel(node, form.absent);
  return form;
}

/** The native kernel of a node; throws naming the op when there is no kernel. */
export function kernelOf(node: Node): LowerRule<Attrs> {
  const { lower } = node.op;
  if (isAbsent(lower)) throw noKernel(node, lower.absent);
  return lower;
}

/** The node at the base of a chain of views. */
function baseOf(node: Node): Node {
  let base = node;
  while (!isAbsent(base.op.form) && base.op.form.kind === "view") base = base.inputs[0] as Node;
  return base;
}

/** The origin of generated counts: its element `i` is the number `i`. */
const ramp = {};

/** A constant or a count along dims, which every group that needs it generates. */
type Generated =
  | { readonly constant: ScalarInstruction }
  | { readonly dtype: ScalarInstruction["dtype"]; readonly view: View };

/** Views of all nodes of a region. */
export class RegionValues {
  readonly order: readonly Node[];
  readonly graph: Graph;
  /** Copies by the view node that needs them. */
  readonly copies = new Map<Node, Copy>();
  private readonly views = new Map<Node, readonly View[]>();
  private readonly generated = new Map<Node, Generated>();
  private readonly waits = new Map<Node, readonly Storage[]>();
  private readonly rowMajor = new Set<Node>();
  private readonly positions: ReadonlyMap<Node, number>;
  private readonly pool: StoragePool;

  /** `mustBeRowMajor` tells which results must be row-major. */
  constructor(graph: Graph, inputs: readonly View[], pool: StoragePool, mustBeRowMajor: (result: number) => boolean) {
    this.graph = graph;
    this.pool = pool;
    graph.outputs.forEach((node, index) => {
      if (mustBeRowMajor(index)) this.rowMajor.add(baseOf(node));
    });
    graph.inputs.forEach((node, index) => {
      this.views.set(node, [inputs[index] as View]);
    });
    this.order = topological(graph.outputs).filter((node) => node.op !== parameterOp);
    this.positions = new Map(this.order.map((node, index) => [node, index]));
    for (const node of this.order) this.place(node);
  }

  /** Nodes in the order of the region. */
  inOrder(nodes: Iterable<Node>): Node[] {
    return [...nodes].sort((left, right) => this.position(left) - this.position(right));
  }

  position(node: Node): number {
    return this.positions.get(node) as number;
  }

  /** The first result's view. */
  view(node: Node): View {
    return (this.views.get(node) as readonly View[])[0] as View;
  }

  results(node: Node): readonly View[] {
    return this.views.get(node) as readonly View[];
  }

  /** The storages that must be written before a value is read, besides its own. */
  waitsOf(node: Node): readonly Storage[] {
    return this.waits.get(node) ?? [];
  }

  storage(node: Node): Storage {
    return this.view(node).origin as Storage;
  }

  /** The instruction that generates this value in an iteration space of its shape, if there is one. */
  generator(node: Node): ScalarInstruction | undefined {
    const generated = this.generated.get(node);
    if (generated === undefined) return undefined;
    if ("constant" in generated) return generated.constant;
    const { offset, strides, shape } = generated.view;
    const moving = strides.flatMap((stride, dim) => (stride === 0 || shape[dim] === 1 ? [] : [dim]));
    if (moving.length === 0) return { name: "const", dtype: generated.dtype, literal: offset };
    const dim = moving[0] as number;
    if (moving.length > 1 || offset !== 0 || strides[dim] !== 1) return undefined;
    return { name: "iota", dtype: generated.dtype, literal: dim };
  }

  private place(node: Node): void {
    const form = formOf(node);
    switch (form.kind) {
      case "element":
        this.views.set(node, [this.results(node.inputs[0] as Node)[form.index(node.attrs)] as View]);
        return;
      case "view":
        this.placeView(node, form);
        return;
      case "pointwise":
        if (node.inputs.length === 0)
          this.generate(node, form.instruction(node.attrs, [], node.types[0] as TensorType));
        break;
      case "kernel":
        break;
    }
    const order = this.rowMajor.has(node) ? undefined : this.orderOf(node, form);
    this.views.set(
      node,
      node.types.map((type, index) => {
        const label = `${node.op.name} ${formatType(type)}`;
        return index === 0 && order !== undefined
          ? this.pool.ordered(type, order, label)
          : this.pool.tensor("value", type, label);
      }),
    );
  }

  /** The storage order of a result's dims, where it is not row-major. */
  private orderOf(node: Node, form: OpForm<Attrs>): readonly number[] | undefined {
    const views = node.inputs.map((input) => this.view(input));
    if (form.kind === "kernel") return kernelOf(node).outputOrder?.(node.attrs, views, node.types[0] as TensorType);
    // Elementwise results keep the order that a kernel has chosen for an operand.
    const chosen = views.find((view) => {
      const { whole } = storageOf(view);
      return whole !== undefined && !isContiguous(whole) && isWhole(view);
    });
    return chosen === undefined ? undefined : denseOrder(chosen);
  }

  private generate(node: Node, instruction: ScalarInstruction): void {
    if (instruction.name !== "iota") {
      this.generated.set(node, { constant: instruction });
      return;
    }
    const strides = node.shape.map((_size, dim) => Number(dim === instruction.literal));
    this.generated.set(node, {
      dtype: node.dtype,
      view: { origin: ramp, offset: 0, dtype: node.dtype, shape: node.shape, strides },
    });
  }

  private placeView(node: Node, form: OpForm<Attrs> & { kind: "view" }): void {
    const [input, ...waitedFor] = node.inputs as [Node, ...Node[]];
    const waits = waitedFor.filter((other) => this.generator(other) === undefined).map((other) => this.storage(other));
    if (waits.length > 0 || this.waits.has(input)) this.waits.set(node, [...waits, ...this.waitsOf(input)]);
    const type = node.types[0] as TensorType;
    const generated = this.generated.get(input);
    if (generated !== undefined) {
      const generatedView = "constant" in generated ? undefined : form.view(generated.view, node.attrs, type);
      if ("constant" in generated) this.generated.set(node, generated);
      else if (generatedView !== undefined) this.generated.set(node, { dtype: generated.dtype, view: generatedView });
    }
    const direct = form.view(this.view(input), node.attrs, type);
    if (direct !== undefined) {
      this.views.set(node, [direct]);
      return;
    }
    const from = this.view(input);
    const to = this.pool.tensor("value", from, `${node.op.name} ${formatType(from)}`);
    const view = form.view(to, node.attrs, type);
    if (view === undefined)
      throw new HeddleError("lower", `${describeNode(node)} has no view even of a contiguous input`);
    this.copies.set(node, { from, to });
    this.views.set(node, [view]);
  }
}
