/**
 * @module The environment variables that Heddle reads: the only place that reads them. Every variable is checked by name,
 * so that a misspelt value is an error and never a silent default.
 */
import { HeddleError } from "./errors.ts";
import { nearest } from "./options.ts";

/** What the environment says; undefined where it says nothing (an empty variable counts as none). */
export interface Environment {
  /** `HEDDLE_EXECUTOR`: what computes. */
  readonly executor: "native" | "reference" | undefined;
  /** `HEDDLE_NATIVE`: `off` leaves the native core out. */
  readonly native: "on" | "off" | undefined;
  /** `HEDDLE_ISA`: the instruction set that native kernels use. */
  readonly isa: "scalar" | "avx2" | "avx512" | undefined;
  /** `HEDDLE_JIT`: `off` leaves generated kernels out. The native core reads it; here it is only checked. */
  readonly jit: "on" | "off" | undefined;
  /**
   * `HEDDLE_FINALIZE`: `late` gives memory back when the event loop turns, `at-once` within the collection; by default as the
   * runtime can do. The native core reads it.
   */
  readonly finalize: "at-once" | "late" | undefined;
  /** `HEDDLE_THREADS`: threads of this process. */
  readonly threads: number | undefined;
  /** `HEDDLE_MEMORY`: bytes that this process may use. */
  readonly memory: number | undefined;
  /** `HEDDLE_RESUME`: `1` goes on from the newest checkpoint. */
  readonly resume: boolean;
  /** `HEDDLE_TIMEOUT`: seconds that a worker waits for another. */
  readonly timeout: number | undefined;
  /**
   * `HEDDLE_TRANSPORT`: what carries data between workers. `auto` (the default) is memory between workers of one host, if
   * it can be had, and TCP else; `tcp` is TCP; with `shared` a worker without such memory is an error.
   */
  readonly transport: "auto" | "tcp" | "shared" | undefined;
  /**
   * `HEDDLE_OVERLAP`: which collectives are under way beside the computation: with `on` (the default) those where it pays,
   * with `all` those that can be, with `off` none.
   */
  readonly overlap: "on" | "off" | "all" | undefined;
  /** `HEDDLE_MESH`: the mesh where a program names none, such as `data=2,model=2`. */
  readonly mesh: string | undefined;
  /** `HEDDLE_WORKERS`: addresses of waiting workers, which this process then drives. */
  readonly workers: readonly string[] | undefined;
  /** `HEDDLE_WORKERS_SECRET`: what a driver and waiting workers know of each other. */
  readonly workersSecret: string | undefined;
  /** `HEDDLE_PLAN`: the mesh of a plan to print instead of training. */
  readonly plan: string | undefined;
  /** `HEDDLE_PLAN_AS`: what of the plan is printed. */
  readonly planAs: "summary" | "graph" | "program" | "json" | "stablehlo" | undefined;
  /** `HEDDLE_PROFILE`: what `heddle profile` asks of a worker, as JSON. */
  readonly profile: string | undefined;
  /** `HEDDLE_DATA`: the folder of datasets. */
  readonly data: string | undefined;
  /** `HEDDLE_RUN_ID`, which tells runs apart. */
  readonly runId: string | undefined;
  /** `HEDDLE_LAUNCHER`: the process that started this one. */
  readonly launcher: number | undefined;
  /** `HEDDLE_EPOCH`: the membership epoch. */
  readonly epoch: number;
  /** `HEDDLE_SECRET`, with which workers authenticate. */
  readonly secret: string | undefined;
  /** `HEDDLE_RUN_DIR`: the folder of the run's flight records. */
  readonly runDirectory: string | undefined;
  /** `WORLD_SIZE`: number of processes. */
  readonly world: number;
  /** `RANK`: number of this process. */
  readonly rank: number | undefined;
  /** `MASTER_ADDR`: where the store listens. */
  readonly host: string | undefined;
  /** `MASTER_PORT`. */
  readonly port: number | undefined;
}

/** Variables by name, as in `process.env`. */
export type Variables = { readonly [name: string]: string | undefined };

/** How a value is read; undefined when it is not a legal one. */
interface Reader<Value> {
  readonly legal: string;
  readonly read: (text: string) => Value | undefined;
}

function oneOf<const Names extends readonly string[]>(...names: Names): Reader<Names[number]> {
  const legal = names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
  return { legal, read: (text) => (names.includes(text) ? text : undefined) };
}

function whole(lowest: number, highest: number): Reader<number> {
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

const units = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };

const byteCount: Reader<number> = {
  legal: "a number of bytes such as 500MB or 8GB",
  read: (text) => {
    const [, count, unit] = /^(\d{1,6}(?:\.\d{1,3})?) ?([KMGT]?B)$/i.exec(text) ?? [];
    const bytes = Number(count) * units[(unit ?? "B").toUpperCase() as keyof typeof units];
    return bytes > 0 ? bytes : undefined;
  },
};

const text: Reader<string> = { legal: "text", read: (value) => value };

/** Each variable and its legal values. */
const readers = {
  HEDDLE_EXECUTOR: oneOf("native", "reference", "auto"),
  HEDDLE_NATIVE: oneOf("on", "off"),
  HEDDLE_ISA: oneOf("scalar", "avx2", "avx512"),
  HEDDLE_JIT: oneOf("on", "off"),
  HEDDLE_FINALIZE: oneOf("at-once", "late"),
  HEDDLE_THREADS: whole(1, 1024),
  HEDDLE_MEMORY: byteCount,
  HEDDLE_RESUME: oneOf("0", "1"),
  HEDDLE_TIMEOUT: whole(1, 86_400),
  HEDDLE_TRANSPORT: oneOf("auto", "tcp", "shared"),
  HEDDLE_OVERLAP: oneOf("on", "off", "all"),
  HEDDLE_MESH: meshText,
  HEDDLE_WORKERS: {
    legal: "addresses such as 127.0.0.1:4101,127.0.0.1:4102",
    read: (value) => (/^[^,\s]+:\d{1,5}(,[^,\s]+:\d{1,5})*$/.test(value) ? value : undefined),
  } satisfies Reader<string>,
  HEDDLE_WORKERS_SECRET: text,
  HEDDLE_PLAN: meshText,
  HEDDLE_PLAN_AS: oneOf("summary", "graph", "program", "json", "stablehlo"),
  HEDDLE_PROFILE: text,
  HEDDLE_DATA: text,
  HEDDLE_RUN_ID: text,
  HEDDLE_LAUNCHER: whole(1, 2 ** 31 - 1),
  HEDDLE_EPOCH: whole(0, 2 ** 31 - 1),
  HEDDLE_SECRET: text,
  HEDDLE_RUN_DIR: text,
  WORLD_SIZE: whole(1, 1_000_000),
  RANK: whole(0, 999_999),
  MASTER_ADDR: text,
  MASTER_PORT: whole(0, 65_535),
} as const;

type Name = keyof typeof readers;
type ValueOf<N extends Name> = NonNullable<ReturnType<(typeof readers)[N]["read"]>>;

/** Read by scripts and tests of a clone, not by the library. */
const ofClones = ["HEDDLE_PYTHON", "HEDDLE_XLA_PYTHON", "HEDDLE_FUZZ_ROUNDS", "HEDDLE_TEST_SEED"];

/** The variables of this process; none in a browser. */
const ownVariables = (): Variables => (typeof process === "undefined" ? {} : (process.env as Variables));

/**
 * Reads the environment.
 *
 * @throws HeddleError `environment` naming the variable, its value and the legal values.
 */
export function readEnvironment(variables: Variables = ownVariables()): Environment {
  const value = <N extends Name>(name: N): ValueOf<N> | undefined => {
    const given = variables[name];
    if (given === undefined || given === "") return undefined;
    const read = readers[name].read(given);
    if (read !== undefined) return read as ValueOf<N>;
    throw new HeddleError("environment", `the environment variable ${name} is '${given}'`, {
      hint: `it can be ${readers[name].legal}, or unset`,
    });
  };
  const executor = value("HEDDLE_EXECUTOR");
  return {
    executor: executor === "auto" ? undefined : executor,
    native: value("HEDDLE_NATIVE"),
    isa: value("HEDDLE_ISA"),
    jit: value("HEDDLE_JIT"),
    finalize: value("HEDDLE_FINALIZE"),
    threads: value("HEDDLE_THREADS"),
    memory: value("HEDDLE_MEMORY"),
    resume: value("HEDDLE_RESUME") === "1",
    timeout: value("HEDDLE_TIMEOUT"),
    transport: value("HEDDLE_TRANSPORT"),
    overlap: value("HEDDLE_OVERLAP"),
    mesh: value("HEDDLE_MESH"),
    workers: value("HEDDLE_WORKERS")?.split(","),
    workersSecret: value("HEDDLE_WORKERS_SECRET"),
    plan: value("HEDDLE_PLAN"),
    planAs: value("HEDDLE_PLAN_AS"),
    profile: value("HEDDLE_PROFILE"),
    data: value("HEDDLE_DATA"),
    runId: value("HEDDLE_RUN_ID"),
    launcher: value("HEDDLE_LAUNCHER"),
    epoch: value("HEDDLE_EPOCH") ?? 0,
    secret: value("HEDDLE_SECRET"),
    runDirectory: value("HEDDLE_RUN_DIR"),
    world: value("WORLD_SIZE") ?? 1,
    rank: value("RANK"),
    host: value("MASTER_ADDR"),
    port: value("MASTER_PORT"),
  };
}

/** Sets what the native core then reads. Of a thread it sees nothing: threads have a copy of the variables. */
export function setFinalize(when: NonNullable<Environment["finalize"]>): void {
  process.env.HEDDLE_FINALIZE = when;
}

/** A sentence for each `HEDDLE_…` variable that is set and that nothing reads. */
export function unknownVariables(variables: Variables = ownVariables()): string[] {
  const known = [...Object.keys(readers), ...ofClones];
  const unknown = Object.keys(variables).filter((name) => name.startsWith("HEDDLE_") && !known.includes(name));
  return unknown.sort().map((name) => {
    const near = nearest(name, known);
    return `the environment variable ${name} means nothing${near === undefined ? "" : `; did you mean ${near}?`}`;
  });
}

/** The `HEDDLE_…` variables that are set, as `NAME=value`; a secret is not shown. */
export function namedVariables(variables: Variables = ownVariables()): string[] {
  return Object.entries(variables)
    .filter(([name, value]) => Object.hasOwn(readers, name) && name.startsWith("HEDDLE_") && value !== "")
    .map(([name, value]) => `${name}=${name.endsWith("_SECRET") ? "…" : value}`)
    .sort();
}
