/**
 * @module Pushes and pulls per second of parameter servers: Heddle's, PyTorch's RPC and Ray's actors, in turns in one run, and what a loopback
 * socket carries.
 *
 *     npm run bench:servers             # 64 MiB, and 10,000 rows of 64 floats from a table of 10^7; 15 rounds
 *     npm run bench:servers -- 5 rows   # five rounds of those whose names begin so
 *
 * The server is one process, the client another, both on this machine. A push is done when the server has taken it; Heddle's is then in its
 * log, counted once. Calls are made several at a time, so that what a
 * server does after its answer holds up the next call.
 */
import { peerFile } from "./commands.ts";
import { LinePeer } from "./line-peer.ts";
import { median } from "./statistics.ts";

const [torchPython = "", rayPython = "", given = "15", only = ""] = process.argv.slice(2);
const rounds = Number(given);
const [dense, count, width, asked] = [2 ** 24, 10_000_000, 64, 10_000];
const sizes = [dense, count, width, asked].map(String);
/** Calls, and how many are made at a time. */
const calls = [
  { call: "dense push", times: 3 },
  { call: "dense pull", times: 3 },
  { call: "rows push", times: 10 },
  { call: "rows pull", times: 10 },
].filter(({ call }) => call.startsWith(only));

const script = peerFile("servers.py");
const peers = [
  new LinePeer("heddle", process.execPath, [...process.execArgv, peerFile("heddle-servers.ts"), ...sizes]),
  new LinePeer("torch rpc", torchPython, [script, "torch", ...sizes]),
  ...(rayPython === "" ? [] : [new LinePeer("ray", rayPython, [script, "ray", ...sizes])]),
  new LinePeer("loopback", torchPython, [script, "loopback", ...sizes]),
];
for (const peer of peers) await peer.ready();
const times = new Map<string, number[]>();
for (let round = -2; round < rounds; round++)
  for (const { call, times: many } of calls)
    for (const peer of peers) {
      if (peer.name === "loopback" && call !== "dense push") continue;
      const milliseconds = Number(await peer.ask(`${many} ${call}`));
      const key = `${peer.name} ${call}`;
      // The first two rounds warm up.
      if (round >= 0) times.set(key, [...(times.get(key) ?? []), milliseconds]);
    }
const perSecond = (name: string, call: string): number => 1000 / median(times.get(`${name} ${call}`) as number[]);
console.log(`per second, medians of ${rounds} rounds in turns`);
for (const { call } of calls) {
  const own = perSecond("heddle", call);
  const others = peers.map(({ name }) => name).filter((name) => name !== "heddle" && name !== "loopback");
  const each = others.map((name) => `${name} ${perSecond(name, call).toFixed(1)}`).join(", ");
  const ratio = own / Math.max(...others.map((name) => perSecond(name, call)));
  const share = (): string => ((100 * own) / perSecond("loopback", "dense push")).toFixed(0);
  const ofLoopback = call.startsWith("dense") ? `; ${share()} % of loopback` : "";
  console.log(`${call}: heddle ${own.toFixed(1)}, ${each}; ${ratio.toFixed(2)} times the better peer${ofLoopback}`);
}
if (times.has("loopback dense push")) {
  const carried = (4 * dense * perSecond("loopback", "dense push")) / 1e9;
  console.log(`a loopback socket carries ${carried.toFixed(2)} GB/s`);
}
await Promise.all(peers.map((peer) => peer.end()));
