/** @module Listens at an address of this machine. */
import type { Server } from "node:net";
import { HeddleError } from "../../util/errors.ts";

/** Listens; resolves with the port. @throws HeddleError `port` */
export function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) =>
      reject(new HeddleError("port", `cannot listen on ${host}:${port}: ${error.message}`, { cause: error })),
    );
    server.listen(port, host, () => resolve((server.address() as { port: number }).port));
  });
}
