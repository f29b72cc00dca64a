/** @module `heddle switch`: a simulated switch that adds up what workers send. */
import { Command, InvalidArgumentError } from "commander";
import { startSwitch } from "../in-network/index.ts";
import { wholeNumber } from "./arguments.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

const notes = `
The workers of a run on this machine send their sums through it:

  heddle switch --workers 2 --port 4711 &
  HEDDLE_SWITCH=127.0.0.1:4711 heddle run train.ts --workers 2

With --drop and the like the network between them loses packets, by a seed; what is lost is sent again.
`;

interface SwitchFlags {
  readonly workers: number;
  readonly slots: number;
  readonly port: number;
  readonly drop: number;
  readonly duplicate: number;
  readonly reorder: number;
  readonly seed: number;
}

function share(text: string): number {
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 0.99) return value;
  throw new InvalidArgumentError("It is a share from 0 to 0.99.");
}

/** The `switch` command. */
export function switchCommand({ finish, signal }: CommandContext): Command {
  return new Command("switch")
    .summary("add up in the network what workers send")
    .description(
      "Starts a simulated switch: slots behind a UDP port of 127.0.0.1, which add up the packets of all workers of a run.",
    )
    .requiredOption("-w, --workers <number>", "the number of workers", wholeNumber(1, 1024))
    .option("--slots <number>", "the number of slots", wholeNumber(1, 65535), 64)
    .option("-p, --port <number>", "the UDP port (default: one that is free)", wholeNumber(0, 65535), 0)
    .option("--drop <share>", "the share of packets that are lost, in each direction", share, 0)
    .option("--duplicate <share>", "the share that arrives twice", share, 0)
    .option("--reorder <share>", "the share that later packets overtake", share, 0)
    .option("--seed <number>", "which packets these are", wholeNumber(0, 2 ** 31), 0)
    .addHelpText("after", notes)
    .action(async ({ workers, slots, port, ...losses }: SwitchFlags) => {
      const started = await startSwitch({ workers, slots, port, losses });
      console.log(`heddle switch: ${started.address}, ${slots} slots for ${workers} workers`);
      await ended(signal);
      const { received, lost } = started.packets;
      console.log(`heddle switch: ${received} packets came, ${lost} were lost`);
      started.close();
      finish(exitStatus.ok);
    });
}

/** Resolves when the process is to end. */
const ended = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => resolve());
    signal.addEventListener("abort", () => resolve());
  });
