/** @module `heddle agent`: what `heddle run --hosts` starts on each host, and an engine for each worker. It is no command for people. */
import { Command } from "commander";
import { serveLauncher } from "../launch/agent.ts";
import { dialLauncher, seatOf } from "../launch/dial.ts";
import { readEnvironment } from "../util/settings.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

/** The `agent` command. */
export function agentCommand({ finish }: CommandContext): Command {
  return new Command("agent")
    .summary("start workers for heddle run --hosts")
    .description("Starts workers for heddle run --hosts or --with, which starts this command.")
    .option(
      "--dial <addresses>",
      "open the link to the launcher at one of these addresses (HEDDLE_SECRET is its secret)",
    )
    .option("--rank-of <variables>", "the variables of which one has the rank", "RANK")
    .action(async ({ dial, rankOf }: { dial?: string; rankOf: string }) => {
      if (dial === undefined) await serveLauncher();
      else {
        const seat = seatOf(rankOf.split(","));
        await serveLauncher(await dialLauncher(dial, readEnvironment().secret ?? ""), seat);
      }
      finish(exitStatus.ok);
      process.stdin.destroy();
    });
}
