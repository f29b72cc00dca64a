/**
 * A character-level transformer: GPT's blocks read 32 characters and predict the next character at each position. After a few seconds
 * it knows its text by heart (a loss of 0.15, mostly at the first positions of a window) and continues its first words.
 *
 *     npx heddle run examples/transformer.ts                 # 15 epochs: a loss of 0.15, 8 s
 *     npx heddle run examples/transformer.ts --workers 2     # two processes, the same answer
 */
import { data, losses, nn, optim, tensor, train } from "heddle";

const text =
  `a heddle is the part of a loom that says which threads go where. each thread of the warp passes through the eye of
one heddle, and the weaver lifts some of them and lets the others fall; between them the shuttle flies. what the pattern
will be is said by the order in which they rise. a graph is a warp, and a plan is a heddle. `.replaceAll("\n", " ");

const letters = [...new Set(text)].sort();
const ids = Array.from(text, (letter) => letters.indexOf(letter));
const length = 32;

/** Every window of the text, and the same window one character later. */
function stretches(): data.Dataset {
  const count = ids.length - length;
  const from = (offset: number): Int32Array =>
    Int32Array.from({ length: count * length }, (_unused, index) => {
      const row = Math.floor(index / length);
      return ids[row + (index % length) + offset]!;
    });
  return data.fromArrays({
    x: { shape: [count, length], data: from(0) },
    y: { shape: [count, length], data: from(1) },
  });
}

const block = { heads: 4, dropout: 0, rotary: true };
const model = nn.sequential(
  nn.embedding(letters.length, 48),
  nn.decoderBlock(block),
  nn.decoderBlock(block),
  nn.layerNorm(),
  nn.linear(letters.length),
);

const result = await train({
  model,
  data: stretches().shuffle().batch(32),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adamW({ learningRate: 3e-3 }),
  epochs: 15,
});

let written = text.slice(0, length);
for (let count = 0; count < 100; count++) {
  const window = Array.from(written.slice(-length), (letter) => letters.indexOf(letter));
  const { y } = model.apply(result, tensor([window], { dtype: "i32" }));
  const next = await y
    .slice([0, length - 1, 0], [1, length, letters.length])
    .argMax()
    .item();
  written += letters[next];
}
result.print(`loss ${result.history.at(-1)!.loss.toFixed(3)}: "${written}"`);
