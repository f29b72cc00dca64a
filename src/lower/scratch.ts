/**
 * @module Scratch of the workers of sorts, transforms and factorisations, behind the arena: what the native kernels ask for by
 * the shape of a call (native/core/src/kernels/{sort,fft,factor,room}.rs).
 */
import { type DType, dtypes } from "../ir/dtype.ts";
import type { LoweredStep } from "./json.ts";
import { alignment } from "./memory.ts";

const aligned = (bytes: number): number => Math.ceil(bytes / alignment) * alignment;

/** Most workers that get scratch. */
const workers = 16;

/** Of all workers, for a call of so many tasks. */
const room = (tasks: number, bytes: number): number => aligned(bytes) * Math.min(Math.max(tasks, 1), workers);

/** Elements of the rows of one task. */
const task = 4096;
const tasksOf = (rows: number, length: number): number =>
  Math.ceil(rows / Math.max(Math.floor(task / Math.max(length, 1)), 1));

/** Bytes of a key with its place. */
const pair = 16;
/** Longer rows are sorted digit by digit, into a second one. */
const radix = 1024;
const pairs = (count: number): number => (count > radix ? 2 * count : count);

interface SortFields {
  readonly rows: number;
  readonly cols: number;
}

const sortBytes = ({ rows, cols }: SortFields): number => room(tasksOf(rows, cols), pair * pairs(cols));

const topKBytes = ({ rows, cols, count }: SortFields & { readonly count: number }): number =>
  room(tasksOf(rows, cols), pair * Math.max(cols, pairs(count)));

interface FactorFields {
  readonly what: "cholesky" | "triangularSolve" | "lu" | "qr" | "svd" | "eigh";
  readonly batch: number;
  readonly m: number;
  readonly n: number;
}

function factorBytes({ what, batch, m, n }: FactorFields): number {
  const k = Math.min(m, n);
  const numbers = {
    cholesky: m * m + m,
    triangularSolve: m * m + 2 * m * n,
    lu: m * m + m,
    // The matrix; Q, R, the reflectors with their factors, and a row.
    qr: m * n + m * k + k * n + m * k + k + Math.max(n, k),
    svd: m * n,
    eigh: m * m,
  };
  return room(batch, 8 * numbers[what]);
}

interface FftFields {
  readonly kind: "forward" | "inverse" | "fromReal" | "toReal";
  readonly dtype: DType;
  readonly batch: number;
  readonly length: readonly number[];
}

/** Longer lines get their scratch when they run. */
const longest = 2 ** 22;

/** Complex numbers for a line and its transform. */
function lineNumbers(n: number): number {
  if (n > longest) return 0;
  let rest = n;
  for (const factor of [2, 3, 5, 7, 11]) while (rest % factor === 0) rest /= factor;
  return n + (rest === 1 ? 2 * n : 8 * n) + 64;
}

function fftBytes({ kind, dtype, batch, length }: FftFields): number {
  const number = 2 * dtypes[dtype].bytes;
  const total = length.reduce((size, n) => size * n, batch);
  const between = kind === "fromReal" || kind === "toReal" ? aligned(total * number) : 0;
  const tasks = Math.max(...length.map((n) => tasksOf(total / n, n)));
  return between + room(tasks, number * Math.max(...length.map(lineNumbers)));
}

const scratchOf: { readonly [kernel: string]: (step: never) => number } = {
  sort: sortBytes,
  topK: topKBytes,
  factor: factorBytes,
  fft: fftBytes,
};

/** Bytes of a call's workers; 0 of a kernel that needs none. */
export const scratchBytes = (step: LoweredStep): number => scratchOf[step.k]?.(step as never) ?? 0;
