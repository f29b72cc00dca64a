/** @module `heddle checkpoint`: looks at the checkpoints of a training, verifies and compares them, and takes weights out of them. */

import { existsSync } from "node:fs";
import { Command } from "commander";
import { isLocal } from "../checkpoints/drivers.ts";
import { checkpointContent } from "../checkpoints/file.ts";
import { loadCheckpoint, PartsCheckpoint } from "../checkpoints/open.ts";
import {
  averaged,
  checkpointsAt,
  type Difference,
  differences,
  exported,
  type Summary,
  summaries,
  verified,
  withCheckpoint,
} from "../checkpoints/tools.ts";
import { savedBy } from "../io/safetensors.ts";
import { writeWhole } from "../io/write.ts";
import { bytesOf, formatType } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { formatBytes, formatCount, formatTable } from "../util/text.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

const notes = `
A run is its folder, or an address such as s3://bucket/run; a checkpoint is a file in it, or a folder of parts. Where one checkpoint is
meant, the folder of a run means its newest; verify takes all of a run.

Examples:
  heddle checkpoint ls run
  heddle checkpoint verify run
  heddle checkpoint diff run/step-00000100 run/step-00000200
  heddle checkpoint export run --output weights.safetensors
  heddle checkpoint average run/step-00000100 run/step-00000200 --output mean.safetensors
`;

const json = (value: unknown): void => console.log(JSON.stringify(value, null, 2));
const rest = "(default: the values of the parameters and of layer state)";
const weights = ["params", "state"];

interface JsonFlag {
  readonly json?: boolean;
}
interface OutputFlags {
  readonly output: string;
  readonly only?: readonly string[];
}

/** The `checkpoint` command. */
export function checkpointCommand(context: CommandContext): Command {
  const command = new Command("checkpoint")
    .summary("list, verify, compare and export checkpoints")
    .description("Looks at the checkpoints of a training, verifies and compares them, and takes weights out of them.")
    .addHelpText("after", notes);
  for (const add of [addLs, addShow, addVerify, addDiff, addExport, addAverage]) add(command, context);
  return command;
}

function addLs(command: Command): void {
  command
    .command("ls")
    .description("Lists the checkpoints of a run, newest first.")
    .argument("<run>", "the folder or address of a run")
    .option("--json", "print JSON")
    .action(async (place: string, flags: JsonFlag) => {
      if (isLocal(place) && !existsSync(place)) throw new HeddleError("file", `there is nothing at ${place}`);
      const all = await summaries(place);
      if (flags.json === true) return json(all);
      if (all.length === 0) return console.log(`no checkpoints in ${place}`);
      const head = ["step", "next batch", "tensors", "bytes", "files", "heddle", "path"];
      for (const line of formatTable([head, ...all.map(rowOf)], [0, 2, 3, 4])) console.log(line);
    });
}

const rowOf = ({ step, position, tensors, bytes, files, library, path, problem }: Summary): string[] =>
  problem === undefined
    ? [
        formatCount(step),
        `epoch ${(position?.epoch ?? 0) + 1}, batch ${(position?.step ?? 0) + 1}`,
        formatCount(tensors ?? 0),
        formatBytes(bytes ?? 0),
        String(files),
        library ?? "",
        path,
      ]
    : [formatCount(step), "cannot be read", "", "", "", "", problem];

function addShow(command: Command): void {
  command
    .command("show")
    .description("Shows what a checkpoint holds: position, seed, data, and the type and size of each value.")
    .argument("<checkpoint>", "a checkpoint, or the folder of a run for its newest")
    .option("--json", "print JSON")
    .action(async (place: string, flags: JsonFlag) => {
      await withCheckpoint(place, async (checkpoint) => {
        const { path, description, entries } = checkpoint;
        const pieces = (name: string): number =>
          checkpoint instanceof PartsCheckpoint ? (checkpoint.manifest.tensors.get(name)?.pieces.length ?? 0) : 1;
        const tensors = [...entries].map(([name, type]) => ({
          name,
          ...type,
          bytes: bytesOf(type),
          pieces: pieces(name),
        }));
        if (flags.json === true) return json({ path, ...description, tensors });
        const { step, position, seed, library, extra } = description;
        console.log(
          `${path}: step ${formatCount(step)}, next is epoch ${position.epoch + 1}, batch ${position.step + 1}`,
        );
        console.log(`seed ${seed}, optimizer ${String(extra["optimizer"] ?? "unknown")}, written by Heddle ${library}`);
        const rows = tensors.map(({ name, bytes, pieces, ...type }) => [
          name,
          formatType(type),
          formatBytes(bytes),
          String(pieces),
        ]);
        for (const line of formatTable([["value", "type", "bytes", "pieces"], ...rows], [2, 3])) console.log(line);
      });
    });
}

function addVerify(command: Command, { finish }: CommandContext): void {
  command
    .command("verify")
    .description(
      "Reads a checkpoint, or all of a run, and compares every byte with its SHA-256. Exit status 1 if one is damaged.",
    )
    .argument("<place>", "a checkpoint, or the folder of a run")
    .action(async (place: string) => {
      const found = await verified(place);
      for (const [path, problem] of found) console.log(`${path}: ${problem ?? "whole"}`);
      if ([...found.values()].some((problem) => problem !== undefined)) finish(exitStatus.failure);
    });
}

function addDiff(command: Command, { finish }: CommandContext): void {
  command
    .command("diff")
    .description("Compares the values of two checkpoints. Exit status 1 if they differ.")
    .argument("<checkpoint>", "a checkpoint, or the folder of a run for its newest")
    .argument("<other>", "another one")
    .option("--json", "print JSON")
    .action(async (left: string, right: string, flags: JsonFlag) => {
      const found = await withCheckpoint(left, (a) => withCheckpoint(right, (b) => differences(a, b)));
      if (flags.json === true) json(found);
      else if (found.length === 0) console.log("the values are the same");
      else {
        const head = ["value", "a", "b", "elements that differ", "largest difference"];
        for (const line of formatTable([head, ...found.map(differenceRow)], [3, 4])) console.log(line);
      }
      if (found.length > 0) finish(exitStatus.failure);
    });
}

const differenceRow = ({ name, left, right, elements, largest }: Difference): string[] => [
  name,
  left ?? "missing",
  right ?? "missing",
  elements === undefined ? "" : formatCount(elements),
  largest === undefined ? "" : largest.toPrecision(3),
];

function addExport(command: Command): void {
  command
    .command("export")
    .description(
      "Writes the weights of a checkpoint as one safetensors file, or a whole checkpoint of parts as one file.",
    )
    .argument("<checkpoint>", "a checkpoint, or the folder of a run for its newest")
    .requiredOption("-o, --output <path>", "the file to write")
    .option("--only <patterns...>", `patterns of values, such as params.head ${rest}`)
    .option("--whole", "write a checkpoint in one file, from which a training resumes")
    .action(async (place: string, { output, only, whole }: OutputFlags & { readonly whole?: boolean }) => {
      if (whole === true) {
        const [path = place] = await checkpointsAt(place);
        return writeWhole("export", output, checkpointContent(await loadCheckpoint(path)));
      }
      const tensors = await withCheckpoint(place, (checkpoint) => exported(checkpoint, patternsOf(checkpoint, only)));
      await savedBy("export", output, tensors);
    });
}

function addAverage(command: Command): void {
  command
    .command("average")
    .description("Writes the means of the weights of several checkpoints of one model as one safetensors file.")
    .argument("<checkpoints...>", "two checkpoints or more")
    .requiredOption("-o, --output <path>", "the file to write")
    .option("--only <patterns...>", `patterns of values, such as params.head ${rest}`)
    .action(async (places: string[], { output, only }: OutputFlags) => {
      const patterns = await withCheckpoint(places[0] as string, async (first) => patternsOf(first, only));
      await savedBy("average", output, await averaged(places, patterns));
    });
}

/** The patterns of `--only`; by default those of weights that a checkpoint has. */
const patternsOf = (
  { entries }: { readonly entries: ReadonlyMap<string, unknown> },
  only: readonly string[] | undefined,
): readonly string[] =>
  only ?? weights.filter((group) => [...entries.keys()].some((name) => name.startsWith(`${group}/`)));
