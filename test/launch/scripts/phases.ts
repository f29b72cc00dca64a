/** Stays where the first argument says, and prints its process: in the script, while joining, or in the middle of a training. */
import { connect, data, losses, nn, optim, train } from "heddle";

const [where = "script"] = process.argv.slice(2);
const rank = Number(process.env["RANK"]);
const say = (): void => console.log(`rank ${rank} is ${process.pid}.`);
const forever = (): Promise<never> => new Promise(() => setInterval(() => {}, 1000));
if (where === "script") {
  say();
  await forever();
}
if (where === "joining") {
  if (rank === 0) await forever();
  setTimeout(say, 500);
  await connect();
}
await train({
  model: nn.linear(3),
  data: data
    .fromArrays({ x: { shape: [64, 4], data: new Float32Array(256) }, y: { shape: [64], data: new Int32Array(64) } })
    .batch(8),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.sgd({ learningRate: 0.1 }),
  epochs: 100_000,
  report: "silent",
  callbacks: {
    onStep: async ({ step }) => {
      if (step === 30) say();
      await new Promise((resolve) => setTimeout(resolve, 5));
    },
  },
});
