/**
 * @module The environment variables that Heddle reads; no other module reads them. Every value is checked, so that a misspelt
 * value is an error and never a silent default.
 */
import { HeddleError } from "./errors.ts";
import { nearest } from "./options.ts";

const planForms = ["summary", "layouts", "graph", "program", "passes", "json", "stablehlo"] as const;

/** The printed form of a plan; `after:simplify` is the graph after that pass. */
export type PlanForm = (typeof planForms)[number] | `after:${string}`;

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

const flag: Reader<boolean> = { legal: "0 or 1", read: (text) => (/^[01]$/.test(text) ? text === "1" : undefined) };

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

const addresses: Reader<readonly string[]> = {
  legal: "addresses such as 127.0.0.1:4101,127.0.0.1:4102",
  read: (text) => (/^[^,\s]+:\d{1,5}(,[^,\s]+:\d{1,5})*$/.test(text) ? text.split(",") : undefined),
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

/** A variable: its name, its legal values, what it means, and who sets it: `run` for Heddle's commands. */
interface Variable<Value> extends Reader<Value> {
  readonly name: string;
  readonly says: string;
  readonly by?: "run";
}

const variable = <Value>(name: string, reader: Reader<Value>, says: string, by?: "run"): Variable<Value> => ({
  name,
  ...reader,
  says,
  ...(by === undefined ? {} : { by }),
});

/** Each variable by the field of {@link Environment} that it gives. */
const table = {
  executor: variable<string>(
    "HEDDLE_EXECUTOR",
    {
      legal: "native, reference, auto, or the name of an executor that the program registers",
      read: (value) => (/^[a-z][\w-]*$/i.test(value) ? value : undefined),
    },
    "the executor that runs programs; `auto`, the default, chooses it; `reference` is slow",
  ),
  native: variable("HEDDLE_NATIVE", oneOf("on", "off"), "`off`: do not load the native core"),
  isa: variable(
    "HEDDLE_ISA",
    oneOf(...instructionSets),
    "the instruction set of native kernels; default the best of the processor",
  ),
  jit: variable("HEDDLE_JIT", oneOf("on", "off"), "`off`: do not generate kernels"),
  cache: variable<string>(
    "HEDDLE_CACHE",
    { legal: "on, off, or a folder", read: (value) => value },
    "where lowered programs and compiled files are kept; default `on`: in `.heddle/cache` of the project",
  ),
  finalize: variable(
    "HEDDLE_FINALIZE",
    oneOf("at-once", "late"),
    "when memory of collected tensors is freed: `late` when the event loop turns, `at-once` within the collection; default what the runtime supports",
  ),
  threads: variable("HEDDLE_THREADS", wholeNumber(1, 1024), "threads of this process; default its share of the cores"),
  memory: variable(
    "HEDDLE_MEMORY",
    byteCount,
    "bytes that this process may use; a program that needs more is refused before it runs",
  ),
  dmlLibrary: variable("HEDDLE_DML_LIBRARY", text, "folders of DML functions for `heddle script`, like `--library`"),
  resume: variable("HEDDLE_RESUME", flag, "`1`: resume from the newest checkpoint, like `--resume`"),
  quiet: variable("HEDDLE_QUIET", flag, "`1`: trainings report nothing, whatever their options say, like `--quiet`"),
  timeout: variable("HEDDLE_TIMEOUT", wholeNumber(1, 86_400), "seconds that a worker waits for another"),
  transport: variable(
    "HEDDLE_TRANSPORT",
    oneOf("auto", "tcp", "shared", "mpi", "checked"),
    "the transport between workers: `auto` (the default) is shared memory between workers of one host if possible, otherwise TCP; `tcp` is TCP; with `shared` a worker without shared memory is an error; `mpi` is MPI, between workers that its launcher has started; `checked` is TCP with a CRC32C over all that it carries, so that a changed bit is an error which names rank and collective",
  ),
  mpi: variable(
    "HEDDLE_MPI",
    text,
    "the path of an MPI library with the standard ABI; default that beside `mpiexec`, or the loader's",
  ),
  overlap: variable(
    "HEDDLE_OVERLAP",
    oneOf("on", "off", "all"),
    "which collectives overlap with computation: `on` (the default) those where it pays, `all` every one that can, `off` none",
  ),
  mesh: variable("HEDDLE_MESH", meshText, "the mesh, if a program names none, like `--mesh`"),
  compression: variable("HEDDLE_COMPRESSION", text, "the compressor of gradients, like `--compression`"),
  machine: variable(
    "HEDDLE_MACHINE",
    text,
    "the description of devices and links for plans, as JSON; `--machine` reads it from a file",
    "run",
  ),
  servers: variable("HEDDLE_SERVERS", addresses, "addresses of the parameter servers of the run", "run"),
  server: variable("HEDDLE_SERVER", wholeNumber(0, 65_535), "the number of this parameter server", "run"),
  serve: variable("HEDDLE_SERVE", flag, "`1`: each worker is the parameter server of its number, too", "run"),
  policy: variable("HEDDLE_POLICY", text, "who waits for whom on parameter servers, such as `ssp:3`, like `--policy`"),
  throughSwitch: variable(
    "HEDDLE_SWITCH",
    text,
    "the address of a switch that adds up what workers send, such as `127.0.0.1:4711`: `heddle switch` starts one",
  ),
  workers: variable(
    "HEDDLE_WORKERS",
    addresses,
    "addresses of the waiting workers that this process drives, like `--on`",
  ),
  tls: variable("HEDDLE_TLS", text, "the folder of certificates for mutual TLS (`heddle keys`), like `--tls`"),
  workersSecret: variable("HEDDLE_WORKERS_SECRET", text, "the secret that a driver and its waiting workers share"),
  plan: variable(
    "HEDDLE_PLAN",
    meshTexts,
    "the mesh of a plan to print instead of training; several with `;` between them are ranked",
    "run",
  ),
  planAs: variable<PlanForm>(
    "HEDDLE_PLAN_AS",
    {
      legal: `${planForms.join(", ")}, or after: and the name of a pass`,
      read: (value) =>
        planForms.some((form) => form === value) || /^after:\w+$/.test(value) ? (value as PlanForm) : undefined,
    },
    "the printed form of the plan",
    "run",
  ),
  planFile: variable("HEDDLE_PLAN_FILE", text, "the file with the plan that a training uses, like `--plan`"),
  profile: variable("HEDDLE_PROFILE", text, "the request of `heddle profile` to a worker, as JSON", "run"),
  data: variable("HEDDLE_DATA", text, "the folder of datasets, such as MNIST's four files"),
  runId: variable("HEDDLE_RUN_ID", text, "identifies the run", "run"),
  launcher: variable("HEDDLE_LAUNCHER", wholeNumber(1, 2 ** 31 - 1), "the process that started this one", "run"),
  worker: variable(
    "HEDDLE_WORKER",
    wholeNumber(1, 2 ** 31 - 1),
    "the worker from which this process descends; only that worker sends messages to the launcher",
    "run",
  ),
  alone: variable(
    "HEDDLE_ALONE",
    flag,
    "`1`: every process is a run of its own, whatever rank and size another launcher sets",
  ),
  epoch: variable("HEDDLE_EPOCH", wholeNumber(0, 2 ** 31 - 1), "the membership epoch", "run"),
  elastic: variable(
    "HEDDLE_ELASTIC",
    oneOf("member", "new"),
    "the run goes on without lost workers; `new`: this worker replaces one",
    "run",
  ),
  secret: variable("HEDDLE_SECRET", text, "the secret with which workers authenticate", "run"),
  secretFile: variable("HEDDLE_SECRET_FILE", text, "a file with that secret, for processes of another launcher"),
  networkInterface: variable(
    "HEDDLE_INTERFACE",
    text,
    "where a worker listens for workers of other hosts: names of network interfaces, addresses, or networks such as 10.0.0.0/8, with commas; default the address by which it reaches rank 0's host",
  ),
  ports: variable("HEDDLE_PORTS", portRange, "the ports on which a worker may listen; default any free one"),
  runDirectory: variable("HEDDLE_RUN_DIR", text, "the folder of the run's flight records", "run"),
  world: variable("WORLD_SIZE", wholeNumber(1, 1_000_000), "the number of processes", "run"),
  rank: variable("RANK", wholeNumber(0, 999_999), "the number of this process", "run"),
  localWorld: variable("LOCAL_WORLD_SIZE", wholeNumber(1, 1_000_000), "the number of processes on this host", "run"),
  host: variable("MASTER_ADDR", text, "the address of the run's store", "run"),
  port: variable("MASTER_PORT", wholeNumber(0, 65_535), "the port of the run's store", "run"),
  cacheHome: variable(
    "XDG_CACHE_HOME",
    text,
    "the folder in which `heddle machine` keeps its figures, in `heddle`; default `~/.cache`",
  ),
} as const;

/** The values as they are set. */
type Given = {
  readonly [Field in keyof typeof table]: (typeof table)[Field] extends Variable<infer Value>
    ? Value | undefined
    : never;
};

type Defaulted = "resume" | "quiet" | "alone" | "epoch" | "world";

/** The values of the environment variables, with the meanings in {@link allVariables}; undefined if unset or empty, or a default. */
export interface Environment
  extends Omit<Given, Defaulted>,
    Readonly<{ [Field in Defaulted]: NonNullable<Given[Field]> }> {}

/** All variables. */
export const allVariables: readonly Variable<unknown>[] = Object.values(table);

/** Variables that scripts and tests of a clone read, not the library, without `HEDDLE_`. */
const cloneVariables = "PYTHON XLA_PYTHON FUZZ_ROUNDS TEST_SEED ONNX_CASES ONNX_PYTHON ONNX_UPDATE".split(" ");

/** The variables of this process; none in a browser. */
export const ownVariables = (): Variables => (typeof process === "undefined" ? {} : (process.env as Variables));

/**
 * Reads the environment.
 *
 * @throws HeddleError `environment` naming the variable, its value and the legal values.
 */
export function readEnvironment(own: Variables = ownVariables()): Environment {
  const value = ({ name, legal, read }: Variable<unknown>): unknown => {
    const raw = own[name];
    if (raw === undefined || raw === "") return undefined;
    const given = read(raw);
    if (given !== undefined) return given;
    throw new HeddleError("environment", `the environment variable ${name} is '${raw}'`, {
      hint: `it can be ${legal}, or unset`,
    });
  };
  const given = Object.fromEntries(Object.entries(table).map(([field, entry]) => [field, value(entry)])) as Given;
  const { resume = false, quiet = false, alone = false, epoch = 0, world = 1, executor } = given;
  const all = { ...given, resume, quiet, alone, epoch, world, executor: executor === "auto" ? undefined : executor };
  return alone ? { ...all, world: 1, rank: undefined, localWorld: undefined } : all;
}

/** Sets variables of this process and of those that it starts. In a thread the native core does not see them: threads have a copy. */
export function setVariables(variables: Variables): void {
  Object.assign(process.env, variables);
}

/** A sentence for each `HEDDLE_…` variable that is set, but unknown. */
export function unknownVariables(own: Variables = ownVariables()): string[] {
  const knownNames = [...allVariables.map(({ name }) => name), ...cloneVariables.map((name) => `HEDDLE_${name}`)];
  const unknown = Object.keys(own).filter((name) => name.startsWith("HEDDLE_") && !knownNames.includes(name));
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
