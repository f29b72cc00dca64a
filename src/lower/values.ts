/** @module Where every value of a region is: views on storages, and values that cost nothing to make again. */

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

/** A copy that makes a view possible whose strides the original cannot express. */
export interface Copy {
  readonly from: View;
  readonly to: View;
}

/** Native programs. The form says how what is no kernel is done. */
export const nativeTarget: Target<OpForm<Attrs> | LowerRule<Attrs>> = registerTarget({
  name: "native",
  ruleOf: ({ form, lower }) => (isAbsent(form) || form.kind === "kernel" ? lower : form),
});

const noKernel = (node: Node, reason: string): HeddleError =>
  new HeddleError("lower", `${describeNode(node)} has no native kernel: ${reason}`);

/** What a node does; throws naming the op when it is nothing that a region can hold. */
export function formOf(node: Node): OpForm<Attrs> {
  const { form } = node.op;
  if (isAbsent(form)) throw noKernel(node, form.absent);
  return form;
}

/** The native kernel of a node; throws naming the op when there is none. */
export function kernelOf(node: Node): LowerRule<Attrs> {
  const { lower } = node.op;
  if (isAbsent(lower)) throw noKernel(node, lower.absent);
  return lower;
}

/** The node whose value a chain of views shows. */
function baseOf(node: Node): Node {
  let base = node;
  while (!isAbsent(base.op.form) && base.op.form.kind === "view") base = base.inputs[0] as Node;
  return base;
}

/** The origin of views that count: element `i` of it is the number `i`. */
const ramp = {};

/** A constant or a count along dims, which every group that needs it makes itself. */
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
  private readonly plain = new Set<Node>();
  private readonly pool: StoragePool;

  /** `plain` says which results must be row-major. */
  constructor(graph: Graph, inputs: readonly View[], pool: StoragePool, plain: (result: number) => boolean) {
    this.graph = graph;
    this.pool = pool;
    graph.outputs.forEach((node, index) => {
      if (plain(index)) this.plain.add(baseOf(node));
    });
    graph.inputs.forEach((node, index) => {
      this.views.set(node, [inputs[index] as View]);
    });
    this.order = topological(graph.outputs).filter((node) => node.op !== parameterOp);
    for (const node of this.order) this.place(node);
  }

  /** The first result's view. */
  view(node: Node): View {
    return (this.views.get(node) as readonly View[])[0] as View;
  }

  results(node: Node): readonly View[] {
    return this.views.get(node) as readonly View[];
  }

  /** What has to be there before a value is read, besides itself. */
  waitsOf(node: Node): readonly Storage[] {
    return this.waits.get(node) ?? [];
  }

  storage(node: Node): Storage {
    return this.view(node).origin as Storage;
  }

  /** The instruction that makes this value anywhere in an iteration space of its shape, if there is one. */
  generator(node: Node): ScalarInstruction | undefined {
    const made = this.generated.get(node);
    if (made === undefined) return undefined;
    if ("constant" in made) return made.constant;
    const { offset, strides, shape } = made.view;
    const moving = strides.flatMap((stride, dim) => (stride === 0 || shape[dim] === 1 ? [] : [dim]));
    if (moving.length === 0) return { name: "const", dtype: made.dtype, literal: offset };
    const dim = moving[0] as number;
    if (moving.length > 1 || offset !== 0 || strides[dim] !== 1) return undefined;
    return { name: "iota", dtype: made.dtype, literal: dim };
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
    const order = this.plain.has(node) ? undefined : this.orderOf(node, form);
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

  /** The order in which a result's dims are stored, where it is not row-major. */
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
    const [input, ...waited] = node.inputs as [Node, ...Node[]];
    const waits = waited.filter((one) => this.generator(one) === undefined).map((one) => this.storage(one));
    if (waits.length > 0 || this.waits.has(input)) this.waits.set(node, [...waits, ...this.waitsOf(input)]);
    const type = node.types[0] as TensorType;
    const made = this.generated.get(input);
    if (made !== undefined) {
      const counted = "constant" in made ? undefined : form.view(made.view, node.attrs, type);
      if ("constant" in made) this.generated.set(node, made);
      else if (counted !== undefined) this.generated.set(node, { dtype: made.dtype, view: counted });
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
