/** @module The pieces of memory of a lowered program, before and after they have an address. */
import { dtypes } from "../ir/dtype.ts";
import { orderedView, Ref, type View, wholeView } from "../ir/kernel.ts";
import type { TensorType } from "../ir/shape.ts";
import { bytesOf } from "../ir/shape.ts";

/** The purpose of a {@link Storage}. */
export type StorageKind = "input" | "value" | "temporary" | "scratch";

/** A contiguous piece of memory. Views and addresses point into it. */
export class Storage {
  readonly id: number;
  readonly kind: StorageKind;
  readonly bytes: number;
  /** The name of the memory in lists of the largest values. */
  readonly label: string;
  /** Index of the input whose buffer this storage is. */
  readonly input: number | undefined;
  /** Index of the output whose value this storage holds. */
  output: number | undefined;
  /** The view of the whole value. */
  whole: View | undefined;

  constructor(id: number, kind: StorageKind, bytes: number, label: string, input?: number) {
    this.id = id;
    this.kind = kind;
    this.bytes = bytes;
    this.label = label;
    this.input = input;
  }

  /** Whether the storage is in the arena, not in a buffer of the caller. */
  get inArena(): boolean {
    return this.input === undefined && this.output === undefined;
  }
}

/** Creates storages, numbered in order. */
export class StoragePool {
  readonly all: Storage[] = [];

  make(kind: StorageKind, bytes: number, label: string, input?: number): Storage {
    const storage = new Storage(this.all.length, kind, bytes, label, input);
    this.all.push(storage);
    return storage;
  }

  /** A view of a fresh piece of memory for a tensor, row-major. */
  tensor(kind: StorageKind, type: TensorType, label: string, input?: number): View {
    const storage = this.make(kind, bytesOf(type), label, input);
    storage.whole = wholeView(storage, type);
    return storage.whole;
  }

  /** A view of a fresh value whose dims are stored in the given order, outermost first. */
  ordered(type: TensorType, order: readonly number[], label: string): View {
    const storage = this.make("value", bytesOf(type), label);
    storage.whole = orderedView(storage, type, order);
    return storage.whole;
  }
}

export const storageOf = (view: View): Storage => view.origin as Storage;

/** Address of a view's first element. */
export const addressOf = (view: View): Ref => new Ref(view.origin, view.offset * dtypes[view.dtype].bytes);

/** Whether both views have equal offsets, shapes and strides, in whatever storage. */
export function sameLayout(left: View, right: View): boolean {
  return (
    left.offset === right.offset &&
    left.shape.length === right.shape.length &&
    left.shape.every(
      (size, dim) => size === right.shape[dim] && (size === 1 || left.strides[dim] === right.strides[dim]),
    )
  );
}

/** Whether a view is the whole value as it was written. */
export function isWhole(view: View): boolean {
  const { whole } = storageOf(view);
  return whole !== undefined && sameLayout(view, whole);
}
