/** @module How the environment lets this process meet the other ranks of its run. */
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { runSecret } from "./secret.ts";
import { openRunStore, type Server } from "./store.ts";

/** What a rank needs to meet the others. */
export interface Meeting {
  readonly rank: number;
  readonly size: number;
  /** Rank 0's host, as all ranks name it, and the port of the store there. */
  readonly host: string;
  readonly port: number;
  readonly runId: string;
  /** Membership epoch: a re-formed world takes a new one. */
  readonly epoch: number;
  readonly secret: string;
  /** Deadline of every wait, in seconds. */
  readonly timeout: number;
  /** File of the flight recorder. */
  readonly flight: string | undefined;
}

/** The store of this process, if it is rank 0 and no launcher of Heddle's has opened one. */
let ownStore: Promise<unknown> | undefined;

/**
 * Reads the place of this process among several; rank 0 opens the store if no launcher of Heddle's has.
 *
 * @throws HeddleError `world` naming a missing variable, `port` if the store cannot be opened.
 */
export async function meetingOfEnvironment(makeServer: () => Server): Promise<Meeting> {
  const environment = readEnvironment();
  const needed = <Value>(name: string, value: Value | undefined): Value => {
    if (value !== undefined) return value;
    throw new HeddleError("world", `WORLD_SIZE is ${environment.world}, but ${name} is not set`, {
      hint: "start the workers with heddle run",
    });
  };
  const { world: size, runId = "default", epoch, timeout = 60, launcher, networkInterface: choice } = environment;
  const rank = needed("RANK", environment.rank);
  const flight = environment.runDirectory && `${environment.runDirectory}/rank-${rank}.flight`;
  const [host, port] = [needed("MASTER_ADDR", environment.host), needed("MASTER_PORT", environment.port)];
  const secret = needed("HEDDLE_SECRET", runSecret(host, environment));
  if (rank === 0 && launcher === undefined) {
    ownStore ??= openRunStore(makeServer, { host, port, secret, runId, choice }).then((store) => {
      // The other ranks may still read what rank 0 has told them.
      process.once("beforeExit", () => void store.close(timeout));
    });
    await ownStore;
  }
  return { rank, size, host, port, runId, epoch, secret, timeout, flight };
}
