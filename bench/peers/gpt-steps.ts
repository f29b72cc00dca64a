/** @module Times of gpt's steps, for `bench/checkpoints.ts`. Run by `heddle run`; the argument is the file of the measurement. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "heddle";
import type { Measurement } from "../checkpoints.ts";
import { training } from "./heddle-training.ts";

const { folder, gpt } = JSON.parse(readFileSync(process.argv[2] as string, "utf8")) as Measurement;
const runtime = await connect();
const { milliseconds } = await training(gpt, runtime).steps(10);
if (runtime.rank === 0) writeFileSync(join(folder, "times.json"), JSON.stringify({ step: milliseconds.slice(3) }));
process.exit(0);
