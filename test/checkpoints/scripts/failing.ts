/**
 * Trains on two workers, with checkpoints in a storage of its own, in which writes of rank 1 fail from a step on. Arguments: the folder and
 * the step.
 */
import { layouts, losses, nn, optim, train } from "heddle";
import { openStorage, registerStorage } from "heddle/checkpoints";
import { bars } from "../../train/synthetic.ts";

const [, , folder = "", from = ""] = process.argv;
registerStorage({
  scheme: "failing",
  open: async (address) => {
    const storage = await openStorage(`${folder}/${address.replace(/^failing:\/\//, "")}`);
    return {
      ...storage,
      write: async (name, content, options) => {
        const [, step = "0"] = /^step-(\d+)\//.exec(name) ?? [];
        if (process.env["RANK"] === "1" && Number(step) >= Number(from)) throw new Error("the disk of rank 1 is gone");
        await storage.write(name, content, options);
      },
    };
  },
});
const training = train({
  model: nn.sequential(nn.flatten(), nn.linear(8), nn.relu(), nn.linear(3)),
  data: bars(64).batch(16),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.01 }),
  epochs: 3,
  layout: layouts.fullySharded(),
  report: "silent",
  checkpoint: { directory: "failing://run", every: 2 },
});
await training.catch((error: Error) => {
  console.log(`rank ${process.env["RANK"]}: ${error.message.split("\n")[0]}`);
  process.exitCode = 3;
});
