/** @module Compressed gradients of a hand-written loop: what compression keeps from step to step beside the state of the loop. */
import { exchanged } from "../compression/exchange.ts";
import { type Compression, compressionOf, onMesh } from "../compression/options.ts";
import {
  type CompressionState,
  compressionLayout,
  fitsDevices,
  forDevices,
  initialCompression,
  parameterOfOwn,
} from "../compression/state.ts";
import { distribute, isTensor, meshOf, random, type Tensor, type Tensors } from "../functions/index.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { scopeKey } from "../nn/index.ts";
import { type Layout, replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { flattenTree, treeKey, unflattenTree } from "../util/tree.ts";
import { wholeData } from "./state.ts";

/** The options of a loop that compression depends on. */
interface Given {
  readonly compression?: Parameters<typeof compressionOf>[0];
  readonly state: { readonly params?: unknown } | Tensors;
  readonly seed?: number;
}

/** The compression of a loop, with what it keeps. */
export class OwnCompression {
  private readonly compression: Compression;
  private readonly params: Tensors;
  private readonly runtime: Runtime;
  private readonly used: (name: string) => Layout;
  /** What is kept, after the last step. */
  kept: Tensors;

  /**
   * The compression that the options of a loop ask for; undefined if they do not.
   *
   * @param used the layout in which a step uses a parameter, by its path below the parameters
   * @throws HeddleError `option` for malformed options, a warm-up, and a state without `params`
   */
  static of(options: Given, runtime: Runtime, used: (name: string) => Layout): OwnCompression | undefined {
    return options.compression === undefined ? undefined : new OwnCompression(options, runtime, used);
  }

  private constructor({ compression: wish, state, seed = 0 }: Given, runtime: Runtime, used: (name: string) => Layout) {
    const what = "distributedStep: compression";
    const compression = onMesh(compressionOf(wish as NonNullable<Given["compression"]>, what), meshOf(runtime));
    if (compression.warmup > 0)
      throw new HeddleError("option", `${what}: a warm-up counts epochs, which a loop of your own has not`, {
        hint: "leave out warmup",
      });
    const { params } = state as { readonly params?: Tensors };
    if (params === undefined || flattenTree(params, isTensor).leaves.length === 0)
      throw new HeddleError("option", `${what}: the state has no 'params', got ${shown(params)}`, {
        hint: "keep the parameters as params of the state: their gradients are compressed",
      });
    this.runtime = runtime;
    this.used = used;
    this.compression = compression;
    this.params = params;
    const key = scopeKey(random.key(seed), "compression");
    this.kept = initialCompression(compression, params, key) as unknown as Tensors;
  }

  /** Distributes what is kept, or what a file has of it, to the devices. */
  async put(found?: ReadonlyMap<string, HostTensor>): Promise<void> {
    const { leaves, paths, shape } = flattenTree(this.kept, isTensor);
    const placed: Tensor[] = [];
    for (const [index, path] of paths.entries()) {
      const leaf = leaves[index] as Tensor;
      const stored = found?.get(fileKey(path));
      const fitted = stored === undefined || sameType(stored, leaf) ? stored : forDevices(stored, leaf);
      placed.push(distribute(this.runtime, fitted?.data ?? (await wholeData(leaf)), typeOf(leaf), this.layout(path)));
      if (found !== undefined) leaf.dispose();
    }
    this.kept = unflattenTree(shape, placed) as Tensors;
  }

  /** What is kept, as files have it. Every worker must call it. */
  async values(): Promise<Map<string, HostTensor>> {
    const { leaves, paths } = flattenTree(this.kept, isTensor);
    const values = new Map<string, HostTensor>();
    for (const [index, leaf] of leaves.entries())
      values.set(fileKey(paths[index] as string), { ...typeOf(leaf), data: await wholeData(leaf) });
    return values;
  }

  /** Whether a file's value of this name is one that is kept. */
  has(name: string): boolean {
    return flattenTree(this.kept, isTensor).paths.some((path) => fileKey(path) === name);
  }

  /** The names of what a file lacks, or has for other parameters; other numbers of devices are no difference. */
  wrongIn(file: ReadonlyMap<string, HostTensor>): string[] {
    const { leaves, paths } = flattenTree(this.kept, isTensor);
    return paths
      .filter((path, index) => {
        const [found, leaf] = [file.get(fileKey(path)), leaves[index] as Tensor];
        return found === undefined || !(sameType(found, leaf) || fitsDevices(path, found, leaf));
      })
      .map(fileKey);
  }

  /** The layout of a value at a path below what is kept. */
  layout(path: string): Layout {
    const mesh = meshOf(this.runtime);
    const everywhere = replicated(mesh);
    if (parameterOfOwn(path) !== undefined) return everywhere;
    const name = path.split(".").slice(1).join(".");
    return compressionLayout(this.compression, path, { parameter: this.used(name), everywhere, mesh });
  }

  /**
   * A function of gradients for one trace of a step, and what is kept after it.
   *
   * @param key a random key for the step alone
   */
  tracing(kept: Tensors, key: Tensor) {
    let after: Tensors | undefined;
    const exchange = (grads: Tensors): Tensors => {
      if (after !== undefined) throw wrong("a step calls exchange twice");
      this.check(grads);
      const scoped = scopeKey(key, "compression");
      const result = exchanged(this.compression, grads, kept as unknown as CompressionState, { key: scoped, stage: 0 });
      after = result.state as unknown as Tensors;
      return result.grads;
    };
    return {
      exchange,
      /** The results of the step with what is kept after it. */
      finished: <Results extends object>(results: Results): Results => {
        if (after === undefined) throw wrong("the step does not call exchange");
        if ("compression" in results) throw wrong("the step gives a result 'compression', which is taken");
        return { ...results, compression: after };
      },
    };
  }

  private check(grads: unknown): void {
    const [ours, theirs] = [flattenTree(this.params, isTensor), flattenTree(grads, isTensor)];
    const differs = ours.leaves.findIndex((leaf: Tensor, index) => {
      const grad = theirs.leaves[index];
      return grad === undefined || !sameType(leaf, grad);
    });
    if (treeKey(ours.shape) === treeKey(theirs.shape) && differs < 0) return;
    const gotten =
      differs < 0 ? `[${listed(theirs.paths)}]` : formatType(theirs.leaves[differs] ?? { shape: [], dtype: "f32" });
    throw wrong(`exchange takes gradients of state.params, [${listed(ours.paths)}], got ${gotten}`);
  }
}

/** The name in files of a value that is kept. */
const fileKey = (path: string): string => `compression.${path}`;

const typeOf = ({ shape, dtype }: TensorType): TensorType => ({ shape, dtype });

const wrong = (problem: string): HeddleError =>
  new HeddleError("option", `distributedStep: compression: ${problem}`, {
    hint: "call given.exchange(grads) once, with the gradients of state.params, and update by what it returns",
  });
