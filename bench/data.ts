/**
 * @module Records per second from files to batches of 128: Heddle's records, polars or pyarrow with PyTorch's DataLoader, and tf.data, in turns in
 * one run.
 *
 *     npm run bench:data              # CSV, Parquet, a folder of images; 9 rounds
 *     npm run bench:data -- 3 csv     # three rounds of what begins with csv
 *
 * The files are made first, by pyarrow and Pillow. Each pass reads a file anew, in its order, to the end, and gives a tensor of each column for each
 * batch. Before that each peer adds all values up: the sums must be the same. "DataLoader" takes rows one by one, as it does by
 * default, and "whole batches" has it pass on batches that are cut from arrays, the most that it can do.
 */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { peerFile, root } from "./commands.ts";
import { LinePeer } from "./line-peer.ts";
import { median, relativeDifference } from "./statistics.ts";

const [python = "", given = "9", only = ""] = process.argv.slice(2);
const rounds = Number(given);
const sizes = { csv: 100_000, parquet: 200_000, images: 256 };
const formats = (Object.keys(sizes) as (keyof typeof sizes)[]).filter((name) => name.startsWith(only));
const folder = join(root, ".heddle", "bench-data");
/** Sums of images differ by what the decoders round; those of tables by the order of adding. */
const within = { csv: 1e-6, parquet: 1e-6, images: 0.02 };

// What a run that was killed has left would be read, too.
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const script = peerFile("data_records.py");
const of = (peer: string): LinePeer => new LinePeer(peer, python, [script, peer, folder]);
const maker = new LinePeer("maker", python, [script, "make", folder, JSON.stringify(sizes)]);
try {
  await maker.ready();
  await maker.end();
  const heddle = new LinePeer("heddle", process.execPath, [...process.execArgv, peerFile("data-records.ts"), folder]);
  const peers = [heddle, of("DataLoader"), of("whole batches"), of("tf.data")];
  for (const peer of peers) await peer.ready();
  console.log(`records per second, medians of ${rounds} rounds in turns`);
  for (const format of formats) {
    await compareSums(peers, format);
    const seconds = peers.map((): number[] => []);
    // The first round warms up.
    for (let round = -1; round < rounds; round++)
      for (const [at, peer] of peers.entries()) {
        const [, took] = (await peer.ask(`time ${format}`)).split(" ").map(Number) as [number, number];
        if (round >= 0) seconds[at]?.push(took);
      }
    const rates = seconds.map((all) => sizes[format] / median(all));
    const [own = 0, ...others] = rates;
    const each = peers.map(({ name }, at) => `${name} ${Math.round(rates[at] as number).toLocaleString("en")}`);
    console.log(`${format}: ${each.join(", ")}; ${(own / Math.max(...others)).toFixed(2)} times the best peer`);
  }
  await Promise.all(peers.map((peer) => peer.end()));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Each peer adds up all values of a format: whoever reads something else is no peer. */
async function compareSums(peers: readonly LinePeer[], format: keyof typeof sizes): Promise<void> {
  let own: number | undefined;
  for (const peer of peers) {
    const [count, sum] = (await peer.ask(`sum ${format}`)).split(" ").map(Number) as [number, number];
    if (count !== sizes[format]) throw new Error(`${peer.name} has read ${count} of ${sizes[format]} of ${format}`);
    own ??= sum;
    if (relativeDifference(own, sum) > within[format])
      throw new Error(`${format}: the values of ${peer.name} add up to ${sum}, those of ${peers[0]?.name} to ${own}`);
  }
}
