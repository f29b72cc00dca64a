/** @module `heddle serve`: a parameter server of a run, which `heddle run --servers` starts. It is no command for people. */
import { Command } from "commander";
// The update rules of a run may have any op.
import "../functions/composites/index.ts";
import { serveParameters } from "../parameter-server/index.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

/** The `serve` command. */
export function serveCommand({ finish }: CommandContext): Command {
  return new Command("serve")
    .summary("a parameter server of heddle run --servers")
    .description("Keeps parameters for heddle run --servers, which starts this command.")
    .action(async () => {
      const { servers, server: index, secret, world, timeout, epoch, threads, runDirectory } = readEnvironment();
      if (servers === undefined || index === undefined || secret === undefined || process.send === undefined)
        throw new HeddleError("launcher", "heddle serve is started by heddle run --servers");
      const lost: number[] = [];
      let tell = (worker: number): void => void lost.push(worker);
      process.on("message", (message: { readonly type?: unknown; readonly worker?: unknown } | null) => {
        if (message?.type === "lost" && Number.isSafeInteger(message.worker)) tell(Number(message.worker));
      });
      // Workers save and pull after a signal to the whole group. A server ends when its launcher ends it, or is gone.
      for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", ...(process.platform === "win32" ? [] : ["SIGUSR2"])])
        process.on(signal, () => {});
      const gone = new Promise((resolve) => process.once("disconnect", resolve));
      const server = await serveParameters({
        servers,
        index,
        secret,
        workers: world,
        timeout,
        life: epoch,
        threads,
        folder: runDirectory,
      });
      process.send({ type: "listens" });
      tell = (worker) => server.lost(worker);
      for (const worker of lost) tell(worker);
      await gone;
      await server.close();
      finish(exitStatus.ok);
    });
}
