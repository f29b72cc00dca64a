/** @module The tables of a training on servers, at a worker: a window of their rows for each batch, and where the rows come from. */
import { fromShards, meshOf, random, type Tensor, type Tensors } from "../functions/index.ts";
import { dtypes } from "../ir/dtype.ts";
import { bytesOf, isTensorType, type TensorType } from "../ir/shape.ts";
import type { Bytes } from "../parameter-server/client.ts";
import { tensorsOf } from "../parameter-server/rules.ts";
import { coalesced, type RowList, type Rows } from "../parameter-server/tables/row-lists.ts";
import { type TableShape, type TableSpec, tableFor } from "../parameter-server/tables/table-spec.ts";
import { type TableHead, TableState } from "../parameter-server/tables/table-state.ts";
import { replicated } from "../plan/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { concatenated } from "../util/bytes.ts";
import { HeddleError } from "../util/errors.ts";
import { flattenTree } from "../util/tree.ts";
import { Programs, type SizedTypes } from "./programs.ts";
import { disposeState } from "./state.ts";
import { below, type LookedBatch, Lookups, type ModelTable, picked, tablesOf } from "./tables.ts";
import type { Training } from "./updates.ts";
import { keyType, type ModelTypes, type TrainState, tablesState } from "./values.ts";

type Variables = Pick<TrainState, "params" | "state">;

/** Gives the values of rows of each table. */
export type RowSource = (lists: readonly RowList[]) => Promise<readonly Uint8Array[]>;

/** The rows of tables as {@link ServerTables.packed} has them: of each old server the heads, and the bytes of all. */
export interface PackedTables {
  readonly heads: readonly (readonly TableHead[])[];
  readonly bytes: Uint8Array;
}

/** The largest number of i32 is the id of no row: what is not used of a window has it. */
const noRow = 2 ** 31 - 1;

/** The tables of a training and its programs, which have a window for each batch; undefined for a model without tables on servers. */
export function servedTables(
  whole: Training,
  own: Pick<Training, "settings" | "types">,
  runtime: Runtime,
): { readonly served: ServerTables | undefined; readonly programs: Programs } {
  const tables = whole.settings.tables === undefined ? [] : tablesOf(whole.settings);
  if (tables.length === 0) return { served: undefined, programs: new Programs(own.settings, own.types, runtime) };
  const { trained } = own.types;
  const still = tables.find(({ path }) => trained !== undefined && !trained.has(path));
  if (still !== undefined)
    throw new HeddleError("model", `a table on servers must be trained, and '${still.path}' is not`, {
      hint: "leave 'on' away where the table is frozen, or not in 'trainable'",
    });
  const served = new ServerTables(whole, own.types, tables, runtime);
  const sized: SizedTypes = (dataset, rows) => served.lookups.sized(dataset, rows);
  return { served, programs: new Programs(own.settings, own.types, runtime, sized) };
}

/** The tables of a training. */
export class ServerTables {
  readonly lookups: Lookups;
  private readonly whole: Training;
  private readonly tables: readonly ModelTable[];
  private readonly runtime: Runtime;
  /** For each table the keys of its initial rows. */
  private keys: readonly (readonly number[])[] = [];
  /** The rows of the last batch that was trained on. */
  private lists: readonly RowList[] = [];

  constructor(whole: Training, windows: ModelTypes, tables: readonly ModelTable[], runtime: Runtime) {
    this.whole = whole;
    this.tables = tables;
    this.runtime = runtime;
    this.lookups = new Lookups(whole.settings, whole.types, windows, tables, runtime);
  }

  /** What servers keep. The keys of initial rows are states of the layers, made as any other. */
  async specs({ programs }: Pick<Training, "programs">): Promise<TableSpec[]> {
    const localKey = random.key(this.whole.settings.seed);
    const seed = this.tensor(keyType, new Uint8Array(Uint32Array.from(await localKey.data()).buffer));
    const { key, ...made } = programs.initialise().run(seed);
    const states = tensorsOf(made.state);
    const { optimizer } = this.whole.settings;
    this.keys = await Promise.all(
      this.tables.map(async ({ layer }) =>
        [...(await (states.get(below(layer, "keys")) as Tensor).data())].map(Number),
      ),
    );
    disposeState(made);
    for (const tensor of [localKey, seed, key]) tensor.dispose();
    return Promise.all(
      this.tables.map(({ layer: _layer, place: _place, ...table }, index) =>
        tableFor(optimizer, { ...table, keys: this.keys[index] as number[] } satisfies TableShape),
      ),
    );
  }

  /** The values for a step on a batch: with its rows, whose ids are remembered for the push. */
  async forStep(values: TrainState, batch: LookedBatch, rows: RowSource): Promise<TrainState> {
    const { lists, windows, types } = await this.window(values, batch, rows);
    this.lists = lists;
    const zeros = this.tables.map(({ path, size, dtype }): [string, Tensor] => {
      const type = { shape: [windows.get(path)?.shape[0] as number, size], dtype };
      return [path, this.tensor(type, new Uint8Array(bytesOf(type)))];
    });
    const before = this.windowsIn(values);
    const next = {
      params: picked(types.state.params as Tensors, values.params, windows),
      optimizer: picked(types.state.optimizer as Tensors, values.optimizer, new Map(zeros)),
      state: picked(types.state.state as Tensors, values.state, windows),
    };
    for (const tensor of before) tensor.dispose();
    return next;
  }

  /** The values for another use of a batch, and what frees its rows. */
  async forUse(
    values: Variables,
    batch: LookedBatch,
    rows: RowSource,
  ): Promise<{ values: Variables; release(): void }> {
    const { windows, types } = await this.window(values, batch, rows);
    return {
      values: {
        params: picked(types.state.params as Tensors, values.params, windows),
        state: picked(types.state.state as Tensors, values.state, windows),
      },
      release: () => {
        for (const tensor of windows.values()) tensor.dispose();
      },
    };
  }

  /** The gradients of the rows of the last batch. */
  gradients(grads: Bytes): Rows[] {
    return this.tables.map(({ path, size, dtype }, index) => {
      const ids = this.lists[index] as RowList;
      return { ids, values: (grads.get(path) as Uint8Array).subarray(0, ids.length * size * dtypes[dtype].bytes) };
    });
  }

  /** The values as a checkpoint has them: without windows, with all rows. */
  withoutWindows({ params, state }: Variables, packed: PackedTables): Variables {
    const head = new TextEncoder().encode(JSON.stringify(packed.heads));
    const bytes = concatenated([new Uint8Array(Uint32Array.of(head.length).buffer), head, packed.bytes]);
    const rows = this.tensor({ shape: [bytes.length], dtype: "u8" }, bytes);
    const { types } = this.whole;
    return {
      params: picked(types.state.params as Tensors, params),
      state: picked(types.state.state as Tensors, state, new Map([[tablesState, rows]])),
    };
  }

  /** The rows in the values of a checkpoint; undefined at the beginning of a run. */
  async packed(state: Tensors): Promise<PackedTables | undefined> {
    const { [tablesState]: rows } = state as { readonly [tablesState]?: Tensor };
    if (rows === undefined || rows.size === 0) return undefined;
    const bytes = Uint8Array.from((await rows.data()) as Uint8Array);
    const [length = 0] = new Uint32Array(bytes.slice(0, 4).buffer);
    const heads = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as PackedTables["heads"];
    return { heads, bytes: bytes.subarray(4 + length) };
  }

  /** The rows as they are, in this process: the servers end before the training's result. */
  local(specs: readonly TableSpec[], { heads, bytes }: PackedTables): RowSource {
    const states = specs.map((spec) => new TableState(spec, this.runtime));
    let offset = 0;
    for (const old of heads)
      for (const [table, head] of old.entries()) {
        const state = states[table] as TableState;
        const size = state.bytesOf(head);
        state.restore(head, bytes.subarray(offset, offset + size));
        offset += size;
      }
    return async (lists) => lists.map((list, table) => (states[table] as TableState).pull(list));
  }

  /** The rows of each table that a batch looks up. */
  async listsOf(values: Variables, batch: LookedBatch): Promise<RowList[]> {
    const ids = await this.lookups.ids(batch, values);
    return ids.map((found, table) => this.checked(coalesced(found).list, this.tables[table] as ModelTable));
  }

  private async window(values: Variables, batch: LookedBatch, rows: RowSource) {
    const lists = await this.listsOf(values, batch);
    const bodies = await rows(lists);
    const types = this.lookups.sized(batch.dataset, batch.rows);
    const { leaves, paths } = flattenTree<TensorType>(types.state.params, isTensorType);
    const windows = new Map<string, Tensor>();
    for (const [index, { path, layer }] of this.tables.entries()) {
      const type = leaves[paths.indexOf(path)] as TensorType;
      const bytes = new Uint8Array(bytesOf(type));
      bytes.set(bodies[index] as Uint8Array);
      windows.set(path, this.tensor(type, bytes));
      const names = new Int32Array(type.shape[0] as number).fill(noRow);
      names.set(lists[index] as RowList);
      const keys = Uint32Array.from(this.keys[index] as number[]);
      const add = (state: string, dtype: "i32" | "u32", data: Int32Array | Uint32Array): void =>
        void windows.set(
          below(layer, state),
          this.tensor({ shape: [data.length], dtype }, new Uint8Array(data.buffer, 0, data.byteLength)),
        );
      add("rows", "i32", names);
      add("keys", "u32", keys);
    }
    return { lists, windows, types };
  }

  /** @throws HeddleError `value` for an id that is not in the table */
  private checked(list: RowList, { path, count }: ModelTable): RowList {
    const outside = [list[0] ?? 0, list.at(-1) ?? 0].find((id) => id < 0 || id >= count);
    if (outside === undefined) return list;
    throw new HeddleError("value", `train: id ${outside} is outside of the table '${path}' of ${count} rows`);
  }

  /** The tensors of windows among values. */
  private windowsIn({ params, optimizer, state }: TrainState): Tensor[] {
    const [ofParams, ofGrads, ofState] = [params, optimizer, state].map(tensorsOf);
    return this.tables.flatMap(({ path, layer }) =>
      [
        ofParams?.get(path),
        ofGrads?.get(path),
        ...["rows", "keys"].map((name) => ofState?.get(below(layer, name))),
      ].flatMap((tensor) => tensor ?? []),
    );
  }

  private tensor({ shape, dtype }: TensorType, bytes: Uint8Array): Tensor {
    const buffer = this.runtime.executor.allocate(bytes.length);
    buffer.write(bytes);
    return fromShards(this.runtime, [buffer], { shape, dtype }, replicated(meshOf(this.runtime)));
  }
}
