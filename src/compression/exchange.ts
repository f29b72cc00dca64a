/** @module Gradients on their way between devices: clipped, with momentum and what was not sent before, compressed, added up. */
import {
  concat,
  isTensor,
  minimum,
  random,
  scan,
  select,
  type Tensor,
  type Tensors,
  zeros,
  zerosLike,
} from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { range, sizeOf } from "../ir/shape.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import type { Compressed, Compressor, DecompressGiven, Parts } from "./compressor.ts";
import { contributions, wholeOnAll } from "./nodes.ts";
import { type Compression, type Stage, stageAt } from "./options.ts";
import type { ByName, CompressionState } from "./state.ts";

/** What {@link exchanged} gives. */
export interface Exchanged {
  /** The sums over the devices, whole on every device. */
  readonly grads: Tensors;
  readonly state: CompressionState;
  /** The gradients of each device, for checks: a compressed NaN may be lost. */
  readonly contributed: readonly Tensor[];
}

/** The gradient of one parameter on its way. */
interface Sent {
  readonly name: string;
  readonly shape: readonly number[];
  /** What the device would send, `[devices, …shape]`. */
  readonly wanted: Tensor;
  readonly momentum: Tensor | undefined;
  readonly compressed: Compressed;
}

/** Messages that are gathered together have at most this many bytes of each device, so that sending can begin early. */
const packBytes = 4 * 2 ** 20;

/**
 * The sums of gradients over the devices, as compressed messages between those of the axis of compression.
 *
 * @param key a random key for this step alone
 * @param stage the number of the stage of the training
 */
export function exchanged(
  compression: Compression,
  grads: Tensors,
  state: CompressionState,
  { key, stage }: { readonly key: Tensor; readonly stage: number },
): Exchanged {
  const { leaves, paths, shape } = flattenTree(grads, isTensor);
  const { axis, devices, chooses } = compression;
  const isChosen = paths.map((name, index) => chooses(name, leaves[index] as Tensor));
  // A gradient that is only added up stays as it is, unless each device clips its own.
  const own = leaves.map((grad, index) =>
    isChosen[index] || compression.clip !== undefined ? contributions(grad, devices, axis) : undefined,
  );
  const clipped = clippedLocally(compression, own);
  const by = stageAt(compression, stage);
  const next = { residual: {}, momentum: {}, whole: {}, own: {} } as {
    [Kind in keyof CompressionState]: Record<string, never>;
  };
  const totals = new Map<string, Tensor>();
  const sending: Sent[] = [];
  paths.forEach((name, index) => {
    const grad = leaves[index] as Tensor;
    const x = clipped[index];
    if (x === undefined || !isChosen[index]) {
      const sum = x === undefined ? grad : x.sum(0);
      const before = state.whole[name];
      const total = before === undefined ? sum : before.mul(compression.momentum).add(sum);
      if (before !== undefined) Object.assign(next.whole, { [name]: total });
      totals.set(name, total);
      return;
    }
    const before = state.momentum[name];
    const momentum = before === undefined ? undefined : before.mul(compression.momentum).add(x);
    const direction = momentum ?? x;
    const wanted = state.residual[name]?.add(direction) ?? direction;
    const given = { key: random.foldIn(key, index), state: state.own[name] ?? {}, sum: summed };
    sending.push({
      name,
      shape: grad.shape,
      wanted,
      momentum,
      compressed: by?.compress(wanted, given) ?? { message: {} },
    });
  });
  const received = by === undefined ? [] : arrived(by, sending, compression);
  sending.forEach((sent, index) => {
    const { total, ...kept } = finished(compression, by, sent, received[index] as Parts, state);
    totals.set(sent.name, total);
    for (const [kind, value] of Object.entries(kept)) Object.assign(next[kind as "own"], { [sent.name]: value });
  });
  return {
    grads: unflattenTree(
      shape,
      paths.map((name) => totals.get(name) as Tensor),
    ) as Tensors,
    state: inOrderOf(state, next as unknown as CompressionState),
    contributed: clipped.filter((x) => x !== undefined),
  };
}

const summed = (x: Tensor): Tensor => wholeOnAll(x.sum(0));

/** The sum of one gradient over the devices, and what is kept of it. */
function finished(
  { feedback, masking }: Compression,
  by: Stage,
  { name, shape, wanted, momentum, compressed }: Sent,
  received: Parts,
  state: CompressionState,
): { total: Tensor; residual?: Tensor; momentum?: Tensor; own?: Parts } {
  const before = state.own[name];
  const keptOwn = before === undefined ? {} : { own: before };
  if (by === undefined) {
    const rest = feedback ? { residual: zerosLike(wanted) } : {};
    return { total: summed(wanted), ...rest, ...(momentum === undefined ? {} : { momentum }), ...keptOwn };
  }
  const { message, shared = {} } = compressed;
  const given: DecompressGiven = { shape, dtype: wanted.dtype, shared };
  const total = by.total?.(received, given) ?? totalByRows(by, received, given);
  const masks = masking && momentum !== undefined;
  const sent = feedback || masks ? by.decompress(message, given) : undefined;
  return {
    total,
    ...(feedback && sent !== undefined ? { residual: wanted.sub(sent) } : {}),
    ...(momentum === undefined
      ? {}
      : { momentum: masks && sent !== undefined ? select(sent.ne(0), 0, momentum) : momentum }),
    ...(before === undefined ? {} : { own: by.next?.(received, shared) ?? before }),
  };
}

/**
 * The sum of what all rows of a message decompress to, row by row: so there is memory for one gradient, not for one of each device, and no
 * constant of it is split as those of the devices' own rows are.
 */
function totalByRows(by: Compressor, received: Parts, given: DecompressGiven): Tensor {
  const rows = Object.values(received)[0]?.shape[0] as number;
  if (rows === 1) return by.decompress(received, given).sum(0);
  const inRows = Object.fromEntries(Object.entries(received).map(([name, x]) => [name, x.expandDims(1)]));
  const [total] = scan(
    (sum: Tensor, row: Parts): [Tensor, Tensors] => [sum.add(by.decompress(row, given).sum(0)), {}],
    zeros(given.shape, { dtype: given.dtype }),
    inRows,
  );
  return total;
}

/** Each device's gradients, bounded by their norm on that device. */
function clippedLocally({ clip, devices }: Compression, own: readonly (Tensor | undefined)[]): (Tensor | undefined)[] {
  if (clip === undefined) return [...own];
  const squares = own.flatMap((x) =>
    x === undefined ? [] : [x.square().sum(range(x.shape.length - 1).map((dim) => dim + 1))],
  );
  const norm = squares.reduce((sum, square) => sum.add(square)).sqrt();
  const factor = minimum(
    norm
      .add(1e-6)
      .reciprocal()
      .mul(clip / Math.sqrt(devices)),
    1,
  );
  return own.map((x) => x?.mul(factor.reshape([devices, ...x.shape.slice(1).map(() => 1)]).cast(x.dtype)));
}

/** The messages that every device receives: one row, or a row of each device. */
function arrived({ travels }: Compressor, sending: readonly Sent[], { stageOf }: Compression): Parts[] {
  const entries = sending.map(({ compressed }) => Object.entries(compressed.message));
  if (travels === "sum")
    return entries.map((parts) =>
      Object.fromEntries(parts.map(([part, x]) => [part, wholeOnAll(x.sum(0, { keepDims: true }))])),
    );
  const gathered = gatheredTogether(
    entries.flatMap((parts, index) => {
      const stage = stageOf((sending[index] as Sent).name);
      return parts.map(([, x]) => ({ x, together: `${x.dtype} ${stage}` }));
    }),
  );
  let next = 0;
  return entries.map((parts) => Object.fromEntries(parts.map(([part]) => [part, gathered[next++] as Tensor])));
}

/** All rows of tensors `[devices, …]` on every device; tensors of one dtype and one stage travel together. */
function gatheredTogether(tensors: readonly { readonly x: Tensor; readonly together: string }[]): Tensor[] {
  const results = new Map<Tensor, Tensor>();
  for (const key of new Set(tensors.map(({ together }) => together))) {
    let pack: Tensor[] = [];
    let bytes = 0;
    const send = (): void => {
      if (pack.length === 0) return;
      const flat = pack.map((x) => x.reshape([x.shape[0] as number, sizeOf(x.shape.slice(1))]));
      const whole = wholeOnAll(concat(flat, 1));
      let from = 0;
      pack.forEach((x, index) => {
        const [rows, length] = (flat[index] as Tensor).shape as [number, number];
        results.set(x, whole.slice([0, from], [rows, from + length]).reshape(x.shape));
        from += length;
      });
      [pack, bytes] = [[], 0];
    };
    for (const { x } of tensors.filter(({ together }) => together === key)) {
      pack.push(x);
      bytes += sizeOf(x.shape.slice(1)) * dtypes[x.dtype].bytes;
      if (bytes >= packBytes) send();
    }
    send();
  }
  return tensors.map(({ x }) => results.get(x) as Tensor);
}

/** The state after a step with its records in the order of the one before it. */
function inOrderOf(before: CompressionState, after: CompressionState): CompressionState {
  const ordered = (kind: keyof CompressionState): ByName =>
    Object.fromEntries(Object.keys(before[kind]).map((name) => [name, after[kind][name] as Tensor]));
  return {
    residual: ordered("residual"),
    momentum: ordered("momentum"),
    whole: ordered("whole"),
    own: ordered("own") as unknown as CompressionState["own"],
  };
}
