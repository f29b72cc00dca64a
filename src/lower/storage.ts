/** @module The pieces of memory of a lowered program, before and after they have an address. */
import { dtypes } from "../ir/dtype.ts";
import { Ref, type View, wholeView } from "../ir/kernel.ts";
import type { TensorType } from "../ir/shape.ts";
import { bytesOf } from "../ir/shape.ts";

/** What a {@link Storage} is for. */
export type StorageKind = "input" | "value" | "temporary" | "scratch";

/** A contiguous piece of memory. Views and addresses point into it. */
export class Storage {
  readonly id: number;
  readonly kind: StorageKind;
  readonly bytes: number;
  /** What is shown where the largest values are listed. */
  readonly label: string;
  /** Index of the input whose buffer this is. */
  readonly input: number | undefined;
  /** Index of the output that this value is. */
  output: number | undefined;

  constructor(id: number, kind: StorageKind, bytes: number, label: string, input?: number) {
    this.id = id;
    this.kind = kind;
    this.bytes = bytes;
    this.label = label;
    this.input = input;
  }

  /** Whether it lies in the arena, not in a buffer of the caller. */
  get inArena(): boolean {
    return this.input === undefined && this.output === undefined;
  }
}

/** Makes storages, numbered in order. */
export class StoragePool {
  readonly all: Storage[] = [];

  make(kind: StorageKind, bytes: number, label: string, input?: number): Storage {
    const storage = new Storage(this.all.length, kind, bytes, label, input);
    this.all.push(storage);
    return storage;
  }

  /** A view of a fresh piece of memory for a tensor. */
  tensor(kind: StorageKind, type: TensorType, label: string, input?: number): View {
    return wholeView(this.make(kind, bytesOf(type), label, input), type);
  }
}

export const storageOf = (view: View): Storage => view.origin as Storage;

/** Address of a view's first element. */
export const addressOf = (view: View): Ref => new Ref(view.origin, view.offset * dtypes[view.dtype].bytes);

/** Bytes that a view touches: the first, and one past the last, relative to its storage. */
export function extentOf(view: View): { readonly low: number; readonly high: number } {
  const width = dtypes[view.dtype].bytes;
  let low = view.offset;
  let high = view.offset;
  for (let dim = 0; dim < view.shape.length; dim++) {
    const size = view.shape[dim] as number;
    if (size === 0) return { low: view.offset * width, high: view.offset * width };
    const span = (size - 1) * (view.strides[dim] as number);
    if (span < 0) low += span;
    else high += span;
  }
  return { low: low * width, high: (high + 1) * width };
}
