/** @module Tables of a model whose rows are on servers: which there are, what a batch looks up in them, and the types of their windows. */
import type { BatchForm, Dataset } from "../data/browser.ts";
import {
  type CompiledFunction,
  compileFunction,
  concat,
  evalShape,
  isTensor,
  meshOf,
  type Tensor,
  type Tensors,
} from "../functions/index.ts";
import { isTensorType, sizeOf, type TensorType } from "../ir/shape.ts";
import { currentTrace } from "../ir/trace.ts";
import { lookingAtTables, type ServedTable } from "../nn/tables.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree, unflattenTree } from "../util/tree.ts";
import { gathered, namesIn, recordOf, seen, seenTypes } from "./columns.ts";
import { applied, batchTypes, initialised } from "./functions.ts";
import type { Settings } from "./options.ts";
import { type BatchColumns, keyType, type ModelTypes, type TrainState, tablesState } from "./values.ts";

/** A table of the model. */
export interface ModelTable extends ServedTable {
  /** The dotted name of the layer: its window is the parameter `weight` and the states `rows` and `keys` below it. */
  readonly layer: string;
  /** The name of the parameter. */
  readonly path: string;
  /** What the layer names itself by. */
  readonly place: object;
}

/** The tables of a model that may be on servers. @throws HeddleError `model` for one layer with several tables */
export function tablesOf(settings: Settings): ModelTable[] {
  const { data, input, dtype } = settings;
  const found: { readonly rows: Tensor; readonly table: ServedTable; readonly place: object }[] = [];
  let tables: ModelTable[] = [];
  const { rows, length } = data.batchForms[0] as BatchForm;
  const type = seenTypes(input, data.ofLength(length), rows, dtype) as TensorType;
  evalShape((key) => {
    const made = (rows: Tensor, table: ServedTable, place: object): void => void found.push({ rows, table, place });
    const { params, state } = initialised({ ...settings, tables: "window" }, key, type, made);
    const { leaves, paths } = flattenTree(state, isTensor);
    tables = found.flatMap(({ rows, table, place }) => {
      const at = leaves.indexOf(rows);
      const layer = (paths[at] ?? "").replace(/\.?rows$/, "");
      return at < 0 ? [] : [{ ...table, dtype: table.dtype, layer, path: below(layer, "weight"), place }];
    });
    return { params, state };
  }, keyType);
  const twice = tables.find(({ place }, index) => tables.findIndex((other) => other.place === place) !== index);
  if (twice === undefined) return tables;
  throw new HeddleError("model", `an embedding on servers stands in the model twice with two tables: '${twice.path}'`, {
    hint: "make a layer for each",
  });
}

/** The name of what is below a layer. */
export const below = (layer: string, name: string): string => (layer === "" ? name : `${layer}.${name}`);

/** The ids that a batch looks up, by the names of tables. */
type Ids = { readonly [path: string]: Tensor };

/** A batch, of a dataset or as the model gets it. */
export interface LookedBatch {
  readonly dataset: Dataset | undefined;
  readonly rows: number;
  readonly columns: BatchColumns;
}

/** What a batch looks up in tables. */
export class Lookups {
  private readonly settings: Settings;
  private readonly types: Pick<ModelTypes["state"], "params" | "state">;
  private readonly windows: ModelTypes;
  private readonly tables: readonly ModelTable[];
  private readonly runtime: Runtime;
  private readonly programs = new Map<string, CompiledFunction<ReturnType<Lookups["function"]>>>();
  private readonly sizes = new Map<string, readonly number[]>();

  /**
   * @param settings those without tables, and `types` those of their variables
   * @param windows the types with windows of any size
   */
  constructor(
    settings: Settings,
    types: ModelTypes,
    windows: ModelTypes,
    tables: readonly ModelTable[],
    runtime: Runtime,
  ) {
    const { [tablesState]: _tables, ...state } = types.state.state as Tensors;
    this.settings = settings;
    this.types = { params: types.state.params, state } as Lookups["types"];
    this.windows = windows;
    this.tables = tables;
    this.runtime = runtime;
  }

  /** The ids that a batch looks up, for each table. */
  async ids(
    { dataset, rows, columns }: LookedBatch,
    variables: Pick<TrainState, "params" | "state">,
  ): Promise<Int32Array[]> {
    const key = this.key(dataset, rows);
    let program = this.programs.get(key);
    if (program === undefined) {
      const { runtime } = this;
      const everywhere = replicated(meshOf(runtime));
      const options = { name: "lookups", layouts: () => everywhere, outputLayouts: () => everywhere };
      program = compileFunction(this.function(dataset), [this.example(dataset, rows)], runtime, options);
      this.programs.set(key, program);
    }
    const { params, state } = this.types;
    const names = new Set(namesIn(this.settings.input));
    const found = program.run({
      params: picked(params as Tensors, variables.params),
      state: picked(state as Tensors, variables.state),
      batch: Object.fromEntries(Object.entries(columns).filter(([name]) => names.has(name))),
    }) as Ids;
    return Promise.all(
      this.tables.map(async ({ path }) => {
        const ids = found[path];
        if (ids === undefined) return new Int32Array(0);
        const data = Int32Array.from((await ids.data()) as Int32Array);
        ids.dispose();
        return data;
      }),
    );
  }

  /** The types of the model with windows that have room for what a batch looks up. */
  sized(dataset: Dataset | undefined, rows: number): ModelTypes {
    const key = this.key(dataset, rows);
    const sizes = this.sizes.get(key) ?? this.sizesOf(dataset, rows);
    this.sizes.set(key, sizes);
    const { params, optimizer, state } = this.windows.state;
    const ofWeights = new Map<string, TensorType>();
    const ofRows = new Map<string, TensorType>();
    for (const [index, { path, layer, size, dtype }] of this.tables.entries()) {
      const window = sizes[index] as number;
      ofWeights.set(path, { shape: [window, size], dtype });
      ofRows.set(below(layer, "rows"), { shape: [window], dtype: "i32" });
    }
    return {
      ...this.windows,
      state: {
        params: withTypes(params as Tensors, ofWeights),
        optimizer: withTypes(optimizer as Tensors, ofWeights),
        state: withTypes(state as Tensors, ofRows),
      } as ModelTypes["state"],
    };
  }

  private key(dataset: Dataset | undefined, rows: number): string {
    const types = dataset === undefined ? undefined : batchTypes(dataset, namesIn(this.settings.input), rows);
    return JSON.stringify([rows, types ?? null]);
  }

  private sizesOf(dataset: Dataset | undefined, rows: number): number[] {
    const example = flattenTree<TensorType>(this.example(dataset, rows), isTensorType);
    const look = this.function(dataset);
    const found = evalShape(
      (...leaves: Tensor[]) => look(unflattenTree(example.shape, leaves) as never),
      ...example.leaves,
    ) as unknown as { readonly [path: string]: TensorType };
    return this.tables.map(({ path, count }) => {
      const type = found[path];
      return type === undefined ? 1 : Math.min(count, Math.max(1, sizeOf(type.shape)));
    });
  }

  private example(dataset: Dataset | undefined, rows: number) {
    const { settings, types } = this;
    const { input, data, dtype } = settings;
    const { params, state } = types;
    const batch =
      dataset === undefined
        ? recordOf(input, seenTypes(input, data, rows, dtype))
        : batchTypes(dataset, namesIn(input), rows);
    return { params, state, batch };
  }

  /** The ids that the model looks up: what does not lead to them is pruned. */
  private function(dataset: Dataset | undefined) {
    const { settings, tables } = this;
    const { input, dtype } = settings;
    return ({ params, state, batch }: Pick<TrainState, "params" | "state"> & { readonly batch: BatchColumns }): Ids => {
      const found = new Map<string, Tensor[]>();
      const trace = currentTrace();
      const looked = (ids: Tensor, place: object): void => {
        const path = tables.find((table) => table.place === place)?.path;
        // The ids of a trace within this one are not known outside of it.
        if (currentTrace() !== trace)
          throw new HeddleError("model", `an embedding on servers cannot stand in remat or a loop: '${path}'`, {
            hint: "put it before the part of the model that is computed again or repeated",
          });
        if (path !== undefined) found.set(path, [...(found.get(path) ?? []), ids.reshape([-1])]);
      };
      const x =
        dataset === undefined ? gathered(input, (name) => batch[name] as Tensor) : seen(input, batch, dataset, dtype);
      lookingAtTables({ kind: "lookups", looked }, () => applied(settings, { params, state }, x, { train: false }));
      return Object.fromEntries([...found].map(([path, lists]) => [path, concat(lists)]));
    };
  }
}

/** A tree of types with other types at some paths. */
function withTypes(tree: Tensors, others: ReadonlyMap<string, TensorType>): Tensors {
  const { leaves, paths, shape } = flattenTree<TensorType>(tree, isTensorType);
  return unflattenTree(
    shape,
    leaves.map((type, index) => others.get(paths[index] as string) ?? type),
  ) as Tensors;
}

/** The tensors of a tree at the paths of types. */
export function picked(types: Tensors, tree: Tensors, others: ReadonlyMap<string, Tensor> = new Map()): Tensors {
  const flat = flattenTree(tree, isTensor);
  const known = new Map(flat.paths.map((path, index) => [path, flat.leaves[index] as Tensor]));
  const { paths, shape } = flattenTree<TensorType>(types, isTensorType);
  return unflattenTree(
    shape,
    paths.map((path) => others.get(path) ?? (known.get(path) as Tensor)),
  ) as Tensors;
}
