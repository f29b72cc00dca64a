/** @module Topologies: the ranks, the links between them, and what ranks of one host share. */
import { range } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkInteger, checkOptions } from "../util/options.ts";
import { shown } from "../util/show.ts";
import { checkLink } from "./given.ts";
import type { Link, Topology } from "./types.ts";

export type { Link, Topology } from "./types.ts";

/** Equal links between all ranks. @throws HeddleError `option` or `argument` */
export function uniform(ranks: number, link: Link): Topology {
  checkInteger("uniform", "ranks", ranks, 1, 2 ** 20);
  checkLink("uniform", link);
  return { hosts: [range(ranks)], link: () => link };
}

/** Options of {@link hostsOf}. */
export interface HostLinks {
  /** Number of ranks of each host. */
  readonly ranks: readonly number[];
  /** Links within a host. */
  readonly within: Link;
  /** The link from one host to another, which all their ranks share. */
  readonly between: Link | ((from: number, to: number) => Link | undefined);
}

/**
 * Ranks on several hosts: links within a host are alike, and messages from one host to another share a link.
 *
 * @throws HeddleError `option` for a host without ranks
 */
export function hostsOf(links: HostLinks): Topology {
  checkOptions("hostsOf", links, ["ranks", "within", "between"]);
  const { ranks, within, between } = links;
  if (!Array.isArray(ranks))
    throw new HeddleError("option", `hostsOf: ranks are the number of each host, got ${shown(ranks)}`);
  checkLink("hostsOf", within);
  if (typeof between !== "function") checkLink("hostsOf", between);
  if (ranks.some((count) => !Number.isInteger(count) || count < 1))
    throw new HeddleError("option", `every host has a rank or more, got ${ranks.join(", ")}`);
  let first = 0;
  const hosts = ranks.map((count) => {
    first += count;
    return range(count).map((index) => first - count + index);
  });
  const hostOf = hosts.flatMap((host, index) => host.map(() => index));
  const pair = (from: number, to: number) => [hostOf[from] as number, hostOf[to] as number] as const;
  return {
    hosts,
    link: (from, to) => {
      const [left, right] = pair(from, to);
      if (left === right) return within;
      return typeof between === "function" ? between(left, right) : between;
    },
    shared: (from, to) => {
      const [left, right] = pair(from, to);
      return left === right ? undefined : `${left} ${right}`;
    },
  };
}
