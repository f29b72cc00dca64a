/**
 * @module The environment variables that Heddle reads; no other module reads them. Every value is checked, so that a misspelt
 * value is an error and never a silent default.
 */
import { HeddleError } from "./errors.ts";
import { nearest } from "./options.ts";

const planForms = ["summary", "layouts", "graph", "program", "passes", "json", "stablehlo"] as const;

/** The printed form of a plan; `after:simplify` is the graph after that pass. */
export type PlanForm = (typeof planForms)[number] | `after:${string}`;

/** The values of the environment variables, with the meanings in {@link meanings}; undefined if unset or empty. */
export interface Environment {
  readonly executor: string | undefined;
  readonly native: "on" | "off" | undefined;
  readonly isa: (typeof instructionSets)[number] | undefined;
  readonly jit: "on" | "off" | undefined;
  readonly finalize: "at-once" | "late" | undefined;
  readonly threads: number | undefined;
  readonly memory: number | undefined;
  readonly resume: boolean;
  readonly quiet: boolean;
  readonly timeout: number | undefined;
  readonly transport: "auto" | "tcp" | "shared" | "mpi" | undefined;
  readonly mpi: string | undefined;
  readonly overlap: "on" | "off" | "all" | undefined;
  readonly mesh: string | undefined;
  readonly compression: string | undefined;
  readonly machine: string | undefined;
  readonly throughSwitch: string | undefined;
  readonly cache: string | undefined;
  readonly cacheHome: string | undefined;
  readonly workers: readonly string[] | undefined;
  readonly workersSecret: string | undefined;
  readonly plan: string | undefined;
  readonly planAs: PlanForm | undefined;
  readonly planFile: string | undefined;
  readonly profile: string | undefined;
  readonly data: string | undefined;
  readonly runId: string | undefined;
  readonly launcher: number | undefined;
  readonly worker: number | undefined;
  readonly alone: boolean;
  readonly epoch: number;
  readonly secret: string | undefined;
  readonly secretFile: string | undefined;
  readonly networkInterface: string | undefined;
  readonly ports: readonly [first: number, last: number] | undefined;
  readonly runDirectory: string | undefined;
  readonly world: number;
  readonly rank: number | undefined;
  readonly localWorld: number | undefined;
  readonly host: string | undefined;
  readonly port: number | undefined;
}

/** Variables by name, as in `process.env`. */
export type Variables = { readonly [name: string]: string | undefined };

/** Reads a value; gives undefined for an illegal one. */
interface Reader<Value> {
  readonly legal: string;
  readonly read: (text: string) => Value | undefined;
}

function oneOf<const Names extends readonly string[]>(...names: Names): Reader<Names[number]> {
  const legal = names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
  return { legal, read: (text) => (names.includes(text) ? text : undefined) };
}

function wholeNumber(lowest: number, highest: number): Reader<number> {
  return {
    legal: `a whole number from ${lowest} to ${highest}`,
    read: (text) =>
      /^\d+$/.test(text) && Number(text) >= lowest && Number(text) <= highest ? Number(text) : undefined,
  };
}

// A name, and a size or the shares of its devices.
const axis = "[a-z]\\w*=[1-9]\\d{0,5}(:[1-9]\\d{0,5})*";

const meshText: Reader<string> = {
  legal: "a mesh such as data=2, data=2:1 or data=8,model=4",
  read: (value) => (new RegExp(`^${axis}(,${axis})*$`, "i").test(value) ? value : undefined),
};

const meshTexts: Reader<string> = {
  legal: "a mesh such as data=2, or several with ; between them",
  read: (value) => (value.split(";").every((mesh) => meshText.read(mesh) !== undefined) ? value : undefined),
};

const units = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

const byteCount: Reader<number> = {
  legal: "a number of bytes such as 500MB or 8GB",
  read: (text) => {
    const [, count, unit] = /^(\d{1,6}(?:\.\d{1,3})?) ?([KMGT]?B)$/i.exec(text) ?? [];
    const bytes = Number(count) * units[(unit ?? "B").toUpperCase() as keyof typeof units];
    return bytes > 0 ? bytes : undefined;
  },
};

const portRange: Reader<readonly [first: number, last: number]> = {
  legal: "a port or a range of ports, such as 4100-4199",
  read: (value) => {
    const [, first, last = first] = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(value) ?? [];
    const [low, high] = [Number(first), Number(last)];
    return low >= 1 && low <= high && high <= 65_535 ? [low, high] : undefined;
  },
};

const text: Reader<string> = { legal: "text", read: (value) => value };

/** From the least to the most: each has the kernels of those before it. Those above avx512 differ in products of narrow numbers alone. */
export const instructionSets = ["scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"] as const;

/** Each variable and its legal values. */
const readers = {
  HEDDLE_EXECUTOR: {
    legal: "native, reference, auto, or the name of an executor that the program registers",
    read: (value) => (/^[a-z][\w-]*$/i.test(value) ? value : undefined),
  } satisfies Reader<string>,
  HEDDLE_NATIVE: oneOf("on", "off"),
  HEDDLE_ISA: oneOf(...instructionSets),
  HEDDLE_JIT: oneOf("on", "off"),
  HEDDLE_CACHE: { legal: "on, off, or a folder", read: (value) => value } satisfies Reader<string>,
  HEDDLE_FINALIZE: oneOf("at-once", "late"),
  HEDDLE_THREADS: wholeNumber(1, 1024),
  HEDDLE_MEMORY: byteCount,
  HEDDLE_RESUME: oneOf("0", "1"),
  HEDDLE_QUIET: oneOf("0", "1"),
  HEDDLE_TIMEOUT: wholeNumber(1, 86_400),
  HEDDLE_TRANSPORT: oneOf("auto", "tcp", "shared", "mpi"),
  HEDDLE_MPI: text,
  HEDDLE_OVERLAP: oneOf("on", "off", "all"),
  HEDDLE_MESH: meshText,
  HEDDLE_COMPRESSION: text,
  HEDDLE_MACHINE: text,
  HEDDLE_SWITCH: text,
  HEDDLE_WORKERS: {
    legal: "addresses such as 127.0.0.1:4101,127.0.0.1:4102",
    read: (value) => (/^[^,\s]+:\d{1,5}(,[^,\s]+:\d{1,5})*$/.test(value) ? value : undefined),
  } satisfies Reader<string>,
  HEDDLE_WORKERS_SECRET: text,
  HEDDLE_PLAN: meshTexts,
  HEDDLE_PLAN_AS: {
    legal: `${planForms.join(", ")}, or after: and the name of a pass`,
    read: (value) =>
      planForms.some((form) => form === value) || /^after:\w+$/.test(value) ? (value as PlanForm) : undefined,
  } satisfies Reader<PlanForm>,
  HEDDLE_PLAN_FILE: text,
  HEDDLE_PROFILE: text,
  HEDDLE_DATA: text,
  HEDDLE_RUN_ID: text,
  HEDDLE_LAUNCHER: wholeNumber(1, 2 ** 31 - 1),
  HEDDLE_WORKER: wholeNumber(1, 2 ** 31 - 1),
  HEDDLE_ALONE: oneOf("0", "1"),
  HEDDLE_EPOCH: wholeNumber(0, 2 ** 31 - 1),
  HEDDLE_SECRET: text,
  HEDDLE_SECRET_FILE: text,
  HEDDLE_INTERFACE: text,
  HEDDLE_PORTS: portRange,
  HEDDLE_RUN_DIR: text,
  WORLD_SIZE: wholeNumber(1, 1_000_000),
  RANK: wholeNumber(0, 999_999),
  LOCAL_WORLD_SIZE: wholeNumber(1, 1_000_000),
  MASTER_ADDR: text,
  MASTER_PORT: wholeNumber(0, 65_535),
  XDG_CACHE_HOME: text,
} as const;

type Name = keyof typeof readers;

/** The meaning of each variable. Heddle's commands set those with `run` for the processes that they start. */
export const meanings: { readonly [N in Name]: { readonly says: string; readonly by?: "run" } } = {
  HEDDLE_EXECUTOR: { says: "the executor that runs programs; `auto`, the default, chooses it; `reference` is slow" },
  HEDDLE_NATIVE: { says: "`off`: do not load the native core" },
  HEDDLE_ISA: { says: "the instruction set of native kernels; default the best of the processor" },
  HEDDLE_JIT: { says: "`off`: do not generate kernels" },
  HEDDLE_CACHE: { says: "where lowered programs are kept; default `on`: in `.heddle/cache` of the project" },
  HEDDLE_FINALIZE: {
    says: "when memory of collected tensors is freed: `late` when the event loop turns, `at-once` within the collection; default what the runtime supports",
  },
  HEDDLE_THREADS: { says: "threads of this process; default its share of the cores" },
  HEDDLE_MEMORY: { says: "bytes that this process may use; a program that needs more is refused before it runs" },
  HEDDLE_RESUME: { says: "`1`: resume from the newest checkpoint, like `--resume`" },
  HEDDLE_QUIET: { says: "`1`: trainings report nothing, whatever their options say, like `--quiet`" },
  HEDDLE_TIMEOUT: { says: "seconds that a worker waits for another" },
  HEDDLE_TRANSPORT: {
    says: "the transport between workers: `auto` (the default) is shared memory between workers of one host if possible, otherwise TCP; `tcp` is TCP; with `shared` a worker without shared memory is an error; `mpi` is MPI, between workers that its launcher has started",
  },
  HEDDLE_MPI: {
    says: "the path of an MPI library with the standard ABI; default that beside `mpiexec`, or the loader's",
  },
  HEDDLE_OVERLAP: {
    says: "which collectives overlap with computation: `on` (the default) those where it pays, `all` every one that can, `off` none",
  },
  HEDDLE_MESH: { says: "the mesh, if a program names none, like `--mesh`" },
  HEDDLE_COMPRESSION: { says: "the compressor of gradients, if a program names none, like `--compression`" },
  HEDDLE_MACHINE: {
    says: "the description of devices and links for plans, as JSON; `--machine` reads it from a file",
    by: "run",
  },
  HEDDLE_SWITCH: {
    says: "the address of a switch that adds up what workers send, such as `127.0.0.1:4711`: `heddle switch` starts one",
  },
  HEDDLE_WORKERS: { says: "addresses of the waiting workers that this process drives, like `--on`" },
  HEDDLE_WORKERS_SECRET: { says: "the secret that a driver and its waiting workers share" },
  HEDDLE_PLAN: {
    says: "the mesh of a plan to print instead of training; several with `;` between them are ranked",
    by: "run",
  },
  HEDDLE_PLAN_AS: { says: "the printed form of the plan", by: "run" },
  HEDDLE_PLAN_FILE: { says: "the file with the plan that a training uses, like `--plan`" },
  HEDDLE_PROFILE: { says: "the request of `heddle profile` to a worker, as JSON", by: "run" },
  HEDDLE_DATA: { says: "the folder of datasets, such as MNIST's four files" },
  HEDDLE_RUN_ID: { says: "identifies the run", by: "run" },
  HEDDLE_LAUNCHER: { says: "the process that started this one", by: "run" },
  HEDDLE_WORKER: {
    says: "the worker from which this process descends; only that worker sends messages to the launcher",
    by: "run",
  },
  HEDDLE_ALONE: { says: "`1`: every process is a run of its own, whatever rank and size another launcher sets" },
  HEDDLE_EPOCH: { says: "the membership epoch", by: "run" },
  HEDDLE_SECRET: { says: "the secret with which workers authenticate", by: "run" },
  HEDDLE_SECRET_FILE: { says: "a file with that secret, for processes that another launcher starts" },
  HEDDLE_INTERFACE: {
    says: "where a worker listens for workers of other hosts: names of network interfaces, addresses, or networks such as 10.0.0.0/8, with commas; default the address by which it reaches rank 0's host",
  },
  HEDDLE_PORTS: { says: "the ports on which a worker may listen; default any free one" },
  HEDDLE_RUN_DIR: { says: "the folder of the run's flight records", by: "run" },
  WORLD_SIZE: { says: "the number of processes", by: "run" },
  RANK: { says: "the number of this process", by: "run" },
  LOCAL_WORLD_SIZE: { says: "the number of processes on this host", by: "run" },
  MASTER_ADDR: { says: "the address of the run's store", by: "run" },
  MASTER_PORT: { says: "the port of the run's store", by: "run" },
  XDG_CACHE_HOME: { says: "the folder in which `heddle machine` keeps its figures, in `heddle`; default `~/.cache`" },
};

/** The legal values of a variable, in words. */
export const legalOf = (name: Name): string => readers[name].legal;

type ValueOf<N extends Name> = NonNullable<ReturnType<(typeof readers)[N]["read"]>>;

/** Variables that scripts and tests of a clone read, not the library, without `HEDDLE_`. */
const cloneVariables = "PYTHON XLA_PYTHON FUZZ_ROUNDS TEST_SEED ONNX_CASES ONNX_PYTHON ONNX_UPDATE".split(" ");

/** The variables of this process; none in a browser. */
export const ownVariables = (): Variables => (typeof process === "undefined" ? {} : (process.env as Variables));

/**
 * Reads the environment.
 *
 * @throws HeddleError `environment` naming the variable, its value and the legal values.
 */
export function readEnvironment(variables: Variables = ownVariables()): Environment {
  const value = <N extends Name>(name: N): ValueOf<N> | undefined => {
    const raw = variables[name];
    if (raw === undefined || raw === "") return undefined;
    const read = readers[name].read(raw);
    if (read !== undefined) return read as ValueOf<N>;
    throw new HeddleError("environment", `the environment variable ${name} is '${raw}'`, {
      hint: `it can be ${readers[name].legal}, or unset`,
    });
  };
  const [executor, alone] = [value("HEDDLE_EXECUTOR"), value("HEDDLE_ALONE") === "1"];
  const [world, rank] = [value("WORLD_SIZE") ?? 1, value("RANK")];
  return {
    executor: executor === "auto" ? undefined : executor,
    native: value("HEDDLE_NATIVE"),
    isa: value("HEDDLE_ISA"),
    jit: value("HEDDLE_JIT"),
    finalize: value("HEDDLE_FINALIZE"),
    threads: value("HEDDLE_THREADS"),
    memory: value("HEDDLE_MEMORY"),
    resume: value("HEDDLE_RESUME") === "1",
    quiet: value("HEDDLE_QUIET") === "1",
    timeout: value("HEDDLE_TIMEOUT"),
    transport: value("HEDDLE_TRANSPORT"),
    mpi: value("HEDDLE_MPI"),
    overlap: value("HEDDLE_OVERLAP"),
    mesh: value("HEDDLE_MESH"),
    compression: value("HEDDLE_COMPRESSION"),
    machine: value("HEDDLE_MACHINE"),
    throughSwitch: value("HEDDLE_SWITCH"),
    cache: value("HEDDLE_CACHE"),
    cacheHome: value("XDG_CACHE_HOME"),
    workers: value("HEDDLE_WORKERS")?.split(","),
    workersSecret: value("HEDDLE_WORKERS_SECRET"),
    plan: value("HEDDLE_PLAN"),
    planAs: value("HEDDLE_PLAN_AS"),
    planFile: value("HEDDLE_PLAN_FILE"),
    profile: value("HEDDLE_PROFILE"),
    data: value("HEDDLE_DATA"),
    runId: value("HEDDLE_RUN_ID"),
    launcher: value("HEDDLE_LAUNCHER"),
    worker: value("HEDDLE_WORKER"),
    alone,
    epoch: value("HEDDLE_EPOCH") ?? 0,
    secret: value("HEDDLE_SECRET"),
    secretFile: value("HEDDLE_SECRET_FILE"),
    networkInterface: value("HEDDLE_INTERFACE"),
    ports: value("HEDDLE_PORTS"),
    runDirectory: value("HEDDLE_RUN_DIR"),
    world: alone ? 1 : world,
    rank: alone ? undefined : rank,
    localWorld: alone ? undefined : value("LOCAL_WORLD_SIZE"),
    host: value("MASTER_ADDR"),
    port: value("MASTER_PORT"),
  };
}

/** Sets variables of this process and of those that it starts. In a thread the native core does not see them: threads have a copy. */
export function setVariables(variables: Variables): void {
  Object.assign(process.env, variables);
}

/** A sentence for each `HEDDLE_…` variable that is set, but unknown. */
export function unknownVariables(variables: Variables = ownVariables()): string[] {
  const knownNames = [...Object.keys(readers), ...cloneVariables.map((name) => `HEDDLE_${name}`)];
  const unknown = Object.keys(variables).filter((name) => name.startsWith("HEDDLE_") && !knownNames.includes(name));
  return unknown.sort().map((name) => {
    const suggestion = nearest(name, knownNames);
    return `the environment variable ${name} means nothing${suggestion === undefined ? "" : `; did you mean ${suggestion}?`}`;
  });
}

let warned = false;

/** Warns once of {@link unknownVariables}. The launcher has done so for the processes that it starts. */
export function warnOfUnknown(): void {
  for (const text of warned || ownVariables()["HEDDLE_LAUNCHER"] ? [] : unknownVariables())
    process.emitWarning(text, { type: "HeddleWarning", code: "HEDDLE_ENVIRONMENT" });
  warned = true;
}
