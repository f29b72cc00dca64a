/** @module Two trainings that take turns, for `bench/sharding.ts`. Run by `heddle run`; the argument is the file that says which. */
import { readFileSync, writeFileSync } from "node:fs";
import { connect } from "heddle";
import type { Alternation, Turns } from "../sharding.ts";
import { training } from "./heddle-training.ts";

const { trainings, turns, steps, out } = JSON.parse(readFileSync(process.argv[2] as string, "utf8")) as Alternation;
const runtime = await connect();
const started = trainings.map((spec) => training(spec, runtime));
for (const one of started) await one.steps(3);
const times: Turns[number][] = [];
for (let turn = 0; turn < turns; turn++) {
  const ofTurn: number[][] = [];
  for (const one of started) {
    // The first step of a turn finds the caches with the values of the other training.
    const { milliseconds } = await one.steps(steps + 1);
    ofTurn.push(milliseconds.slice(1));
  }
  times.push(ofTurn);
}
if (runtime.rank === 0) writeFileSync(out, JSON.stringify(times));
process.exit(0);
