/** Saves checkpoints one after another into the folder given, until it is killed. Each holds its step everywhere. */
import { latestCheckpoint, saveCheckpoint } from "../../src/checkpoints/index.ts";
import { stateOfStep } from "./file-state.ts";

const folder = process.argv[2] as string;
const { checkpoint } = await latestCheckpoint(folder);
process.stdout.write(`start ${checkpoint?.step ?? 0}\n`);
for (let step = (checkpoint?.step ?? 0) + 1; ; step++) {
  await saveCheckpoint(folder, stateOfStep(step, 500_000), { keep: 2, runId: "kill-test" });
  process.stdout.write(`saved ${step}\n`);
}
