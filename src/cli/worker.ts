/** @module `heddle worker`: a device that waits for a driver. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";
// The programs of a driver may have any op.
import "../functions/composites/index.ts";
import { type Address, parseAddress } from "../executors/remote/address.ts";
import { serveDrivers } from "../executors/remote/worker.ts";
import { chooseExecutor, executorNames } from "../runtime/registry.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { wholeNumber } from "./arguments.ts";
import { useCertificates } from "./certificates.ts";
import type { CommandContext } from "./context.ts";
import { exitStatus } from "./status.ts";

const notes = `
A driver is any program that Heddle runs with the addresses of its workers:

  heddle worker --listen 127.0.0.1:4101 &
  heddle worker --listen 127.0.0.1:4102 &
  heddle run train.ts --on 127.0.0.1:4101,127.0.0.1:4102

The driver traces and plans; workers run the programs that it sends, and nothing else. Both sides prove that they know
HEDDLE_WORKERS_SECRET before anything is read, and all that they send is encrypted. Without that variable a worker makes a secret and
prints it.
`;

interface WorkerFlags {
  readonly listen: Address;
  readonly secretFile?: string;
  readonly tls?: string;
  readonly threads?: number;
  readonly executor?: string;
}

const anywhere = "127.0.0.1:0";

/** The `worker` command. */
export function workerCommand({ finish, signal }: CommandContext): Command {
  return new Command("worker")
    .summary("wait for a driver and run its programs")
    .description("Waits for a driver (heddle run --on), one at a time, and is a device of its mesh.")
    .addOption(
      new Option("-l, --listen <host:port>", "where to wait (port 0: any free one)")
        .argParser(address)
        .default(address(anywhere), anywhere),
    )
    .option("--secret-file <file>", "file with the secret (default: HEDDLE_WORKERS_SECRET)")
    .option(
      "--tls <folder>",
      "certificates for mutual TLS with drivers, as heddle keys makes them (default: HEDDLE_TLS)",
    )
    .option("-t, --threads <number>", "threads (default: the cores of this process)", wholeNumber(1, 1024))
    .addOption(new Option("--executor <name>", "what computes (default: native)").choices([...executorNames()]))
    .addHelpText("after", notes)
    .action(async ({ listen, secretFile, tls, threads, executor = readEnvironment().executor }: WorkerFlags) => {
      // An executor that cannot be used is an error here, not at the first driver.
      chooseExecutor(executor);
      const { secret, isNew } = secretOf(secretFile);
      useCertificates(tls);
      const worker = await serveDrivers({ ...listen, secret, threads, executor, log: (text) => console.log(text) });
      console.log(`waiting for drivers at ${listen.host}:${worker.port}`);
      if (isNew) console.log(`they need HEDDLE_WORKERS_SECRET=${secret}`);
      const ended = await stopOf(signal);
      await worker.close(ended === "unread" ? "nobody reads the worker's output" : `the worker was ended by ${ended}`);
      // What still waits natively, as for a partner that never comes, does not keep the process.
      setTimeout(() => process.exit(), 100).unref();
      finish(ended === "SIGINT" ? 130 : ended === "SIGTERM" ? 143 : exitStatus.ok);
    });
}

function address(text: string): Address {
  const found = parseAddress(text);
  if (found === undefined) throw new InvalidArgumentError("It must be a host and a port, such as 127.0.0.1:4101.");
  return found;
}

function secretOf(file: string | undefined): { secret: string; isNew: boolean } {
  const { workersSecret } = readEnvironment();
  if (file === undefined) {
    return workersSecret === undefined
      ? { secret: randomBytes(32).toString("hex"), isNew: true }
      : { secret: workersSecret, isNew: false };
  }
  try {
    const secret = readFileSync(file, "utf8").trim();
    if (secret !== "") return { secret, isNew: false };
  } catch (error) {
    throw new HeddleError("file", `the secret cannot be read: ${(error as Error).message}`, { cause: error });
  }
  throw new HeddleError("file", `the secret in ${file} is empty`);
}

/** Waits for a signal to end, or for the end of the output's reader. */
function stopOf(unread: AbortSignal): Promise<"SIGINT" | "SIGTERM" | "unread"> {
  return new Promise((resolve) => {
    process.once("SIGINT", () => resolve("SIGINT"));
    process.once("SIGTERM", () => resolve("SIGTERM"));
    unread.addEventListener("abort", () => resolve("unread"), { once: true });
  });
}
