/**
 * @module `heddle doctor --collectives`: which collectives run where. Nothing is listed by hand: each is called with two devices on each
 * executor, and two ranks are linked by each transport.
 */
import { registered } from "../comm/call.ts";
import { reductions } from "../comm/reductions.ts";
import { loadNative, type NativeBinding, type NativeWorld } from "../executors/native/binding.ts";
import { nativeError } from "../executors/native/error.ts";
import { localRuntime, type Runtime } from "../executors/runtime.ts";
import { distribute } from "../functions/index.ts";
import { type DType, dtypeNames, dtypes } from "../ir/dtype.ts";
import { shard } from "../plan/index.ts";
import { chooseExecutor, executorNames } from "../runtime/registry.ts";
import { HeddleError } from "../util/errors.ts";

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
  /** For each backend the dtypes with which it ran; null where the backend cannot be used. */
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
}

const transports = [
  { transport: "shared", reach: "processes of a host" },
  { transport: "tcp", reach: "processes of any hosts" },
] as const;

const devices = 2;

/** Tries everything; a few seconds. */
export async function tryCollectives(): Promise<CollectiveTable> {
  const columns: { readonly backend: Backend; readonly runtime: Runtime | undefined }[] = [];
  const runtimes: Runtime[] = [];
  for (const executor of executorNames()) {
    const missing = missingOf(executor);
    const runtime =
      missing === undefined
        ? localRuntime({ axes: [{ name: "data", size: devices }], executor, threads: 1 })
        : undefined;
    if (runtime !== undefined) runtimes.push(runtime);
    const common = { executor, device: "cpu" };
    const here = { ...common, transport: "memory", reach: "one process" };
    columns.push({ backend: missing === undefined ? here : { ...here, missing }, runtime });
    // The reference executor has no links to other processes.
    if (executor !== "native") continue;
    for (const { transport, reach } of transports) {
      const fault = missing ?? (await linkFault(transport));
      const backend = { ...common, transport, reach };
      columns.push({ backend: fault === undefined ? backend : { ...backend, missing: fault }, runtime });
    }
  }
  const tried = new Map<Runtime, Map<string, Outcome>>();
  for (const runtime of runtimes) tried.set(runtime, await tryAll(runtime));
  const rows = calls().map((call): CollectiveRow => {
    const outcomes = columns.map(({ backend, runtime }) =>
      backend.missing !== undefined || runtime === undefined
        ? null
        : (tried.get(runtime)?.get(nameOf(call)) as Outcome),
    );
    return {
      collective: call.collective,
      ...(call.reduction === undefined ? {} : { reduction: call.reduction }),
      runs: outcomes.map((outcome) => outcome?.runs ?? null),
      undefined: outcomes.find((outcome) => outcome !== null)?.undefined ?? [],
      failures: [...new Set(outcomes.flatMap((outcome) => outcome?.failures ?? []))],
    };
  });
  for (const runtime of runtimes) runtime.close();
  return { backends: columns.map(({ backend }) => backend), rows };
}

interface Call {
  readonly collective: string;
  readonly reduction: string | undefined;
}

interface Outcome {
  readonly runs: DType[];
  readonly undefined: DType[];
  readonly failures: string[];
}

const nameOf = ({ collective, reduction }: Call): string =>
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

async function tryAll(runtime: Runtime): Promise<Map<string, Outcome>> {
  const outcomes = new Map<string, Outcome>();
  for (const call of calls()) {
    const outcome: Outcome = { runs: [], undefined: [], failures: [] };
    for (const dtype of dtypeNames) await tryOne(runtime, call, dtype, outcome);
    outcomes.set(nameOf(call), outcome);
  }
  return outcomes;
}

async function tryOne(runtime: Runtime, call: Call, dtype: DType, outcome: Outcome): Promise<void> {
  const collective = registered().find(({ name }) => name === call.collective);
  const shape = [devices, devices];
  const options = {
    runtime,
    ...(call.reduction === undefined ? {} : { reduction: call.reduction }),
    ...(collective?.options.includes("pairs") === true ? { pairs: [[0, 1]] } : {}),
  };
  try {
    const ones = dtypes[dtype].create(new Array<number>(devices * devices).fill(1));
    const result = collective?.call(distribute(runtime, ones, { dtype, shape }, [shard(0)]), options);
    await result?.data();
    outcome.runs.push(dtype);
  } catch (error) {
    if (error instanceof HeddleError && error.code === "dtype") outcome.undefined.push(dtype);
    else outcome.failures.push(`${nameOf(call)} of ${dtype} on ${runtime.executor.name}: ${String(error)}`);
  }
}

/** Why two ranks of this machine cannot be linked by a transport; undefined if they can. */
async function linkFault(transport: "tcp" | "shared"): Promise<string | undefined> {
  const native = loadNative() as NativeBinding;
  const server = new native.StoreServer();
  const [host, secret, runId] = ["127.0.0.1", "doctor", "doctor"];
  const worlds: NativeWorld[] = [];
  try {
    const port = await server.start(host, 0, secret, runId);
    const joining = [0, 1].map((rank) =>
      native.NativeWorld.connect({
        ...{ runId, epoch: 0, name: transport, rank, size: devices, host, port, secret, timeout: 10, transport },
      }),
    );
    for (const joined of await Promise.allSettled(joining))
      if (joined.status === "fulfilled") worlds.push(joined.value);
    await Promise.all(joining);
    const groups = worlds.map((world) => world.group([0, 1], "everyone"));
    const gathered = await Promise.all(groups.map((group, rank) => group.allGather(Uint8Array.of(rank + 1))));
    const isRight = gathered.every((bytes) => bytes.join() === "1,2");
    return isRight ? undefined : "the bytes that arrived are not those that were sent";
  } catch (error) {
    return nativeError(error).plain;
  } finally {
    for (const world of worlds) world.close();
    server.stop();
  }
}

/** Whether everything that is defined ran wherever there is a backend. */
export const isWhole = ({ rows }: CollectiveTable): boolean => rows.every(({ failures }) => failures.length === 0);

/** The table for people. */
export function formatCollectives({ backends, rows }: CollectiveTable): string {
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
  const failures = rows.flatMap((row) => row.failures);
  const end = failures.length === 0 ? ["Every collective ran in every dtype for which it is defined."] : failures;
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
