/** @module Which server has a row: consistent hashing with virtual nodes (Karger et al., 1997; DeCandia et al., 2007). */
import { mixed } from "../../data/mix.ts";

/** Points of each server on the ring: more make parts more equal. */
const virtualNodes = 256;
/** The ring is cut into so many arcs, each of one server. */
const arcs = 2 ** 16;

const rings = new Map<number, Uint16Array>();

/** For each arc its server: the one with the next point. */
function ring(servers: number): Uint16Array {
  const known = rings.get(servers);
  if (known !== undefined) return known;
  const points: [place: number, server: number][] = [];
  for (let server = 0; server < servers; server++)
    for (let node = 0; node < virtualNodes; node++)
      points.push([mixed(mixed(server + 1) ^ Math.imul(node + 1, 0x9e3779b9)) >>> 16, server]);
  points.sort(([a, first], [b, second]) => a - b || first - second);
  const owners = new Uint16Array(arcs);
  let next = 0;
  for (let arc = 0; arc < arcs; arc++) {
    while (next < points.length && (points[next] as [number, number])[0] < arc) next++;
    owners[arc] = (points[next % points.length] as [number, number])[1];
  }
  rings.set(servers, owners);
  return owners;
}

/** Gives the server of a row among so many servers. With one more server, only rows that go to it change theirs. */
export function ownerOf(servers: number): (id: number) => number {
  const owners = ring(servers);
  // The index of rows uses the low bits of the same hash.
  return (id) => owners[mixed(id ^ 0x5bd1e995) >>> 16] as number;
}
