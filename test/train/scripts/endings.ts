/**
 * Trains on several ranks and ends early as the first argument says: `WHO:WHAT` at step 3 of rank WHO; the second is
 * a folder for checkpoints. With `WHO:WHAT:stages` the layers are on two stages. Prints on every
 * rank how it ended.
 */
import { losses, nn, optim, train } from "heddle";
import { bars, linear } from "../synthetic.ts";

const [who, what, form] = (process.argv[2] ?? "").split(":");
const directory = process.argv[3];
const rank = process.env["RANK"] ?? "0";
const mine = who === "all" || who === rank;
const tell = (text: string): void => console.log(`@${rank} ${text}`);
const controller = new AbortController();

const run = (rate: number): Promise<unknown> =>
  train({
    ...(form === "stages"
      ? {
          model: nn.sequential(nn.flatten(), nn.linear(8), nn.relu(), nn.linear(3)),
          pipeline: { stages: { 1: 0, 3: 1 }, microBatches: 2 },
        }
      : { model: linear() }),
    data: bars(64).batch(8),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.sgd({ learningRate: rate }),
    epochs: 4,
    report: "silent",
    signal: controller.signal,
    ...(directory === undefined ? {} : { checkpoint: { directory } }),
    callbacks: {
      onStep: ({ step }, control) => {
        if (!mine || step !== 4) return;
        if (what === "throw") throw new TypeError("an error of the user's");
        if (what === "exit") process.exit(0);
        if (what === "stop") control.stop();
        if (what === "abort") controller.abort(new Error("enough of it"));
      },
      onEpoch: ({ epoch }, control) => {
        if (mine && what === "stopEpoch" && epoch === 2) control.stop();
      },
    },
  }).then(({ steps, history }) => tell(`trained ${steps} steps, ${history.length} epochs`));

if (what === "again") {
  await run(3e38).catch((error: Error & { code?: string }) => tell(`caught ${error.code}`));
  await run(0.1);
} else if (what === "abort") {
  await run(0.1).catch((error: Error) => tell(`caught ${error.message}`));
  await run(0.1).catch((error: Error) => tell(`again ${error.message}`));
} else if (directory !== undefined) {
  await run(0.1).catch(({ code, message }: Error & { code?: string }) => tell(`no folder: ${code}: ${message}`));
} else {
  await run(0.1);
}
