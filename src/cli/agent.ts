/** @module `heddle agent`: what `heddle run --hosts` starts on each host. It is no command for people. */
import { Command } from "commander";
import { serveLauncher } from "../launch/agent.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

/** The `agent` command. */
export function agentCommand({ finish }: CommandContext): Command {
  return new Command("agent")
    .summary("start workers for heddle run --hosts")
    .description("Starts the workers of this host for heddle run --hosts, which starts this command.")
    .action(async () => {
      await serveLauncher();
      finish(exitStatus.ok);
      process.stdin.destroy();
    });
}
