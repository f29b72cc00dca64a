/** Writes checkpoints in parts as one of two ranks, one after another, until it is killed: arguments are the folder and the rank. */
import { setTimeout as sleep } from "node:timers/promises";
import { localStorage } from "../../src/checkpoints/local.ts";
import { commitParts, writePart } from "../../src/checkpoints/parts.ts";
import { cleanCheckpoints, listIn, removeOld } from "../../src/checkpoints/series.ts";
import { describe, piecesOfStep, placeOf } from "./parts-state.ts";

const [, , folder = "", name = "0", from = "0"] = process.argv;
const rank = Number(name);
const storage = localStorage(folder);
if (rank === 0) await cleanCheckpoints(folder, { alone: true });
process.stdout.write("start\n");
// The other rank begins when this rank's folder is clean.
await new Promise((resolve) => process.stdin.once("data", resolve));
for (let step = Number(from) + 1; ; step++) {
  const place = placeOf(storage, step, `run${process.ppid}`);
  await writePart(place, rank, piecesOfStep(step, 400)[rank] ?? []);
  if (rank === 0) {
    await commitParts(place, describe(step));
    await removeOld(storage, step, { newest: 2 });
    process.stdout.write(`saved ${step}\n`);
  } else {
    while (((await listIn(storage))[0]?.step ?? 0) < step) await sleep(1);
  }
}
