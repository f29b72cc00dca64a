/** @module Addresses of workers, as text. */

/** The address of a waiting worker. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Reads `127.0.0.1:4101` or `[::1]:4101`; undefined for anything else. */
export function parseAddress(text: string): Address | undefined {
  const match = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  return match === null || port > 65_535 ? undefined : { host: match[1] as string, port };
}
