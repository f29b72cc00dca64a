/**
 * @module `heddle doctor --collectives`: which collectives run where. Nothing is listed by hand: each is carried out by two devices on each
 * executor, and by two ranks of this process over each transport, and what each gets is compared with what is due.
 */
import { type Registered, registered } from "../comm/call.ts";
import { type Reduction, reductions } from "../comm/reductions.ts";
import { loadNative, type NativeBinding } from "../executors/native/binding.ts";
import { nativeError } from "../executors/native/error.ts";
import type { nativeExecutor } from "../executors/native/executor.ts";
import { distributedRuntime } from "../executors/native/join.ts";
import { localRuntime, type Runtime } from "../executors/runtime.ts";
import { switchExecutor } from "../executors/through-switch/executor.ts";
import { distribute, tensor } from "../functions/index.ts";
import { startSwitch } from "../in-network/index.ts";
import { type DType, dtypeNames, dtypes } from "../ir/dtype.ts";
import { range } from "../ir/shape.ts";
import { shard } from "../plan/index.ts";
import { chooseExecutor, executorNames } from "../runtime/registry.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";

/** Where devices are and what carries their values. */
export interface Backend {
  readonly executor: string;
  readonly transport: string;
  /** Where the devices may be. */
  readonly reach: string;
  readonly device: string;
  /** Why it cannot be used here; absent if it can. */
  readonly missing?: string;
}

/** One collective, with one reduction if it combines. */
export interface CollectiveRow {
  readonly collective: string;
  readonly reduction?: string;
  /** For each backend the dtypes in which each rank got what is due; null where the backend cannot be used. */
  readonly runs: readonly (readonly DType[] | null)[];
  /** The dtypes for which it is not defined, on any backend. */
  readonly undefined: readonly DType[];
  /** What failed, and how: empty where all is well. */
  readonly failures: readonly string[];
}

/** What runs where. */
export interface CollectiveTable {
  readonly backends: readonly Backend[];
  readonly rows: readonly CollectiveRow[];
  /** Transports by which two ranks could not be linked, and why. */
  readonly failures: readonly string[];
}

const transports = [
  { transport: "shared", reach: "processes of a host" },
  { transport: "tcp", reach: "processes of any hosts" },
  { transport: "mpi", reach: "processes of an MPI job" },
] as const;

type Link = { readonly transport: (typeof transports)[number]["transport"]; readonly make?: typeof nativeExecutor };

const devices = 2;

/** What two ranks have, so small that results are exact in every dtype. */
const rowsOf = (dtype: DType): readonly (readonly number[])[] =>
  dtype === "bool"
    ? [
        [0, 1],
        [1, 1],
      ]
    : [
        [1, 2],
        [3, 2],
      ];

const combine: { readonly [reduction in Reduction]: (left: number, right: number) => number } = {
  sum: (left, right) => left + right,
  mean: (left, right) => (left + right) / 2,
  product: (left, right) => left * right,
  min: Math.min,
  max: Math.max,
  and: (left, right) => left & right,
  or: (left, right) => left | right,
};

type Rows = readonly (readonly number[])[];

/** What each rank gets, by the meaning of the collectives: from two rows, and from the row that combines them. */
const due: { readonly [collective: string]: (rows: Rows, combined: readonly number[]) => Rows } = {
  allReduce: (_rows, combined) => [combined, combined],
  reduce: (_rows, combined) => [combined, combined.map(() => 0)],
  reduceScatter: (_rows, combined) => combined.map((value) => [value]),
  allGather: (rows) => rows.map(() => rows.flat()),
  gather: (rows) => [rows.flat(), rows.flat().map(() => 0)],
  scatter: ([first = []]) => first.map((value) => [value]),
  broadcast: ([first = []]) => [first, first],
  allToAll: (rows) => rows.map((_row, rank) => rows.map((row) => row[rank] as number)),
  permute: ([first = []]) => [first.map(() => 0), first],
};

/** Carries out a collective; gives what each of two ranks gets. */
export type Carry = (call: Registered["call"], rows: Rows, dtype: DType, options: object) => Promise<Rows>;

/** Tries everything, and compares what each rank gets with what is due; some ten seconds. */
export async function tryCollectives(): Promise<CollectiveTable> {
  const columns: { readonly backend: Backend; readonly outcomes?: ReadonlyMap<string, Outcome> }[] = [];
  const failures: string[] = [];
  for (const executor of executorNames()) {
    const missing = missingOf(executor);
    const common = { executor, device: "cpu", ...(missing === undefined ? {} : { missing }) };
    const here = { ...common, transport: "memory", reach: "one process" };
    columns.push(missing === undefined ? { backend: here, outcomes: await inMemory(executor) } : { backend: here });
    // The reference executor has no links to other processes.
    if (executor !== "native") continue;
    for (const { transport, reach } of transports) {
      const backend = { ...common, transport, reach };
      const outcomes = missing ?? (await overLink({ transport }));
      if (typeof outcomes !== "string") columns.push({ backend, outcomes });
      else columns.push({ backend: { ...backend, missing: outcomes } });
      // A machine need not have an MPI; one that is named must work.
      const optional = transport === "mpi" && readEnvironment().mpi === undefined;
      if (typeof outcomes === "string" && missing === undefined && !optional)
        failures.push(`${transport}: ${outcomes}`);
    }
  }
  const nativeMissing = missingOf("native");
  const through = nativeMissing ?? (await throughSwitch());
  const backend = { executor: "switch", transport: "udp", reach: "processes of a host", device: "cpu" };
  if (typeof through !== "string") columns.push({ backend, outcomes: through });
  else {
    columns.push({ backend: { ...backend, missing: through } });
    if (nativeMissing === undefined) failures.push(`switch: ${through}`);
  }
  const rows = calls().map((call): CollectiveRow => {
    const outcomes = columns.map((column) => column.outcomes?.get(nameOf(call)));
    return {
      collective: call.collective,
      ...(call.reduction === undefined ? {} : { reduction: call.reduction }),
      runs: outcomes.map((outcome) => outcome?.runs ?? null),
      undefined: outcomes.find((outcome) => outcome !== undefined)?.undefined ?? [],
      failures: outcomes.flatMap((outcome) => outcome?.failures ?? []),
    };
  });
  return { backends: columns.map(({ backend }) => backend), rows, failures };
}

interface Call {
  readonly collective: string;
  readonly reduction: Reduction | undefined;
}

interface Outcome {
  readonly runs: DType[];
  readonly undefined: DType[];
  readonly failures: string[];
}

const nameOf = ({ collective, reduction }: { readonly collective: string; readonly reduction?: string | undefined }) =>
  reduction === undefined ? collective : `${collective} ${reduction}`;

/** Every collective with each of its reductions. */
const calls = (): Call[] =>
  registered().flatMap(({ name, options }) =>
    (options.includes("reduction") ? reductions : [undefined]).map((reduction) => ({ collective: name, reduction })),
  );

function missingOf(executor: string): string | undefined {
  try {
    chooseExecutor(executor);
    return undefined;
  } catch (error) {
    if (error instanceof HeddleError) return error.plain;
    throw error;
  }
}

/** Failures after which a place is given up: a link that failed fails for all that follows. */
const mostFailures = 5;

/** Every collective in every dtype. */
export async function tryAll(carry: Carry, where: string): Promise<Map<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  let failed = 0;
  for (const call of calls()) {
    const outcome: Outcome = { runs: [], undefined: [], failures: [] };
    outcomes.set(nameOf(call), outcome);
    for (const dtype of dtypeNames) {
      if (failed >= mostFailures) break;
      const fault = await faultOf(carry, call, dtype);
      if (fault === undefined) outcome.runs.push(dtype);
      else if (fault instanceof HeddleError && fault.code === "dtype") outcome.undefined.push(dtype);
      else {
        outcome.failures.push(`${nameOf(call)} of ${dtype} on ${where}: ${String(fault)}`);
        failed++;
      }
    }
  }
  return outcomes;
}

/** What is wrong with a collective of a dtype, which may be an error that was thrown; undefined if all is well. */
async function faultOf(carry: Carry, { collective, reduction }: Call, dtype: DType): Promise<unknown> {
  const { call, options } = registered().find(({ name }) => name === collective) as Registered;
  const rows = rowsOf(dtype);
  const [left, right] = rows as [readonly number[], readonly number[]];
  const combined = left.map((value, index) => combine[reduction ?? "sum"](value, right[index] as number));
  try {
    const wanted = due[collective]?.(rows, combined);
    const own = { ...(reduction && { reduction }), ...(options.includes("pairs") && { pairs: [[0, 1]] }) };
    const [got, expected] = [await carry(call, rows, dtype, own), wanted].map((all) => JSON.stringify(all));
    return got === expected ? undefined : `gives ${got}, not ${expected}`;
  } catch (error) {
    return error;
  }
}

const numbers = (data: ArrayLike<number | bigint>): number[] => Array.from(data, Number);

/** Two devices of this process. */
async function inMemory(executor: string): Promise<Map<string, Outcome>> {
  const runtime = localRuntime({ axes: [{ name: "data", size: devices }], executor, threads: 1 });
  const carry: Carry = async (call, rows, dtype, options) => {
    const data = dtypes[dtype].create(rows.flat());
    const x = distribute(runtime, data, { dtype, shape: [devices, devices] }, [shard(0)]);
    const all = numbers(await call(x, { ...options, runtime }).data());
    const size = all.length / devices;
    return range(devices).map((rank) => all.slice(rank * size, (rank + 1) * size));
  };
  try {
    return await tryAll(carry, `${executor} memory`);
  } finally {
    runtime.close();
  }
}

/** Two ranks whose sums a switch makes: the one of HEDDLE_SWITCH, else one that is started for them. */
async function throughSwitch(): Promise<Map<string, Outcome> | string> {
  const own = readEnvironment().throughSwitch;
  try {
    const started = own === undefined ? await startSwitch({ workers: devices }) : undefined;
    const address = started?.address ?? (own as string);
    try {
      return await overLink({
        transport: "shared",
        make: ({ world, ...options }) =>
          switchExecutor({ ...options, world: world as NonNullable<typeof world>, address, timeout: 10 }),
      });
    } finally {
      started?.close();
    }
  } catch (error) {
    return nativeError(error).plain;
  }
}

/** Two ranks of this machine, linked by a transport; a text where they cannot be. */
async function overLink({ transport, make }: Link): Promise<Map<string, Outcome> | string> {
  const native = loadNative() as NativeBinding;
  const server = new native.StoreServer();
  const meeting = { host: "127.0.0.1", secret: "doctor", runId: "doctor", epoch: 0, timeout: 10, flight: undefined };
  const runtimes: Runtime[] = [];
  try {
    const port = await server.start(meeting.host, 0, meeting.secret, meeting.runId);
    const joining = range(devices).map((rank) => {
      const name = make === undefined ? transport : "switch";
      const options = { ...meeting, name, rank, size: devices, port, transport, threads: 1, ...(make && { make }) };
      return distributedRuntime([{ name: "data", size: devices }], options);
    });
    for (const joined of await Promise.allSettled(joining))
      if (joined.status === "fulfilled") runtimes.push(joined.value);
    await Promise.all(joining);
    const carry: Carry = async (call, rows, dtype, options) => {
      const results = runtimes.map((runtime, rank) =>
        call(tensor(rows[rank] as number[], { dtype }), { ...options, runtime }),
      );
      return (await Promise.all(results.map((result) => result.data()))).map(numbers);
    };
    return await tryAll(carry, make === undefined ? `native ${transport}` : "the switch");
  } catch (error) {
    return nativeError(error).plain;
  } finally {
    for (const runtime of runtimes) runtime.close();
    server.stop();
  }
}

/** Whether everything that is defined ran wherever there is a backend. */
export const isWhole = ({ rows, failures }: CollectiveTable): boolean =>
  failures.length === 0 && rows.every((row) => row.failures.length === 0);

/** The table for people. */
export function formatCollectives({ backends, rows, failures: unlinked }: CollectiveTable): string {
  const head = (["executor", "transport", "device"] as const).map((field) => [
    "",
    ...backends.map((one) => one[field]),
  ]);
  const lines = rows.map((row) => [
    nameOf({ collective: row.collective, reduction: row.reduction }),
    ...row.runs.map((runs) => (runs === null ? "-" : named(runs))),
  ]);
  const widths = (head[0] as string[]).map((_cell, column) =>
    Math.max(...[...head, ...lines].map((line) => (line[column] as string).length)),
  );
  const print = (line: readonly string[]): string =>
    line
      .map((cell, column) => cell.padEnd(widths[column] as number))
      .join("  ")
      .trimEnd();
  const places = backends.map(({ executor, transport, reach, missing }) => {
    const state = missing === undefined ? reach : `cannot be used: ${missing}`;
    return `${executor} ${transport}: ${state}`;
  });
  const failures = [...unlinked, ...rows.flatMap((row) => row.failures)];
  const end =
    failures.length === 0
      ? ["Every collective gave two ranks what is due, in every dtype for which it is defined."]
      : failures;
  return [...[...head, ...lines].map(print), "", ...places, "", ...end].join("\n");
}

const kindOf = (dtype: DType): "float" | "integer" | "bool" =>
  dtype === "bool" ? "bool" : dtypes[dtype].kind === "float" ? "float" : "integer";

/** A set of dtypes in words. */
function named(runs: readonly DType[]): string {
  const kinds = (["float", "integer", "bool"] as const).filter((kind) =>
    dtypeNames.filter((dtype) => kindOf(dtype) === kind).every((dtype) => runs.includes(dtype)),
  );
  const rest = runs.filter((dtype) => !kinds.includes(kindOf(dtype)));
  if (rest.length > 0 || runs.length === 0) return runs.join(" ") || "nothing";
  if (kinds.length === 3) return "all dtypes";
  return kinds.map((kind) => ({ float: "floats", integer: "integers", bool: "bool" })[kind]).join(", ");
}
