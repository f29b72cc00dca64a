/**
 * Training on a stream: an async generator gives readings of a sensor, windows of them become examples, two sources are mixed, and
 * nothing is kept. The position is one number: a training that resumes goes on in the middle.
 *
 *     npx heddle run examples/data/stream.ts          4 s
 */
import { setImmediate as arrives } from "node:timers/promises";
import { data, losses, nn, optim, train } from "heddle";

type Reading = { readonly value: number };

/** Readings as they arrive: a wave of some period, with a jump now and then that a filter leaves out. */
const sensor = (period: number): data.Records<Reading> =>
  data.fromGenerator(async function* ({ epoch }): AsyncGenerator<Reading> {
    for (let time = 0; time < 5000; time++) {
      if (time % 100 === 0) await arrives();
      yield { value: time % 97 === 0 ? 100 : Math.sin((2 * Math.PI * (time + epoch)) / period) };
    }
  });

/** Windows of eight readings, and the reading that follows. */
function windows(readings: data.Records<Reading>): data.Records<{ x: number[]; y: number[] }> {
  let last: number[] = [];
  return readings
    .filter(({ value }) => Math.abs(value) <= 1)
    .flatMap(({ value }, { index }) => {
      if (index === 0) last = [];
      const window = last;
      last = [...last, value].slice(-8);
      return window.length < 8 ? [] : [{ x: window, y: [value] }];
    });
}

const mixed = data.mix([windows(sensor(20)), windows(sensor(33))], { weights: [3, 1], length: 6000 });
const result = await train({
  model: nn.linear(1),
  data: (await data.streamed(mixed.shuffle({ window: 512 }))).batch(50),
  loss: losses.mse,
  optimizer: optim.adam({ learningRate: 0.02 }),
  epochs: 3,
});
result.print(
  `after ${result.steps} steps the next reading is off by ${Math.sqrt(result.history.at(-1)!.loss).toFixed(3)} on average`,
);
