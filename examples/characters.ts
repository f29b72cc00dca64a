/**
 * A character-level language model of mails: an LSTM or a transformer reads text and predicts the next character at each position; then
 * it writes text.
 *
 *     npx heddle run examples/characters.ts                             # LSTM: 2.69 bits a character (perplexity 6.4), 200 s
 *     npx heddle run examples/characters.ts -- --transformer            # transformer: 2.48 bits (5.6), 250 s
 *     npx heddle run examples/characters.ts -- --small                  # 60,000 characters, a small network
 *     npx heddle run examples/characters.ts --workers 2                 # two processes, the same answer
 */
import { data, losses, metrics, nn, optim, tensor, train } from "heddle";
import { mails } from "./mail.ts";

const small = process.argv.includes("--small");
const [length, size, characters, epochs] = small ? [64, 32, 60_000, 2] : [128, 128, 1_000_000, 3];

// Printable ASCII, and 0 for the end of a line; lines quoted from other mails and runs of blanks are removed.
const text = mails()
  .filter(({ spam }) => !spam)
  .map(({ text }) =>
    text
      .replace(/^[>|].*$/gm, "")
      .replace(/[^\n -~]/g, "")
      .replace(/([ \n-])\1+/g, "$1"),
  )
  .join("\n");
const numberOf = (character: string): number => (character === "\n" ? 0 : character.charCodeAt(0) - 31);
const characterOf = (number: number): string => (number === 0 ? "\n" : String.fromCharCode(number + 31));
const alphabet = 96;

/** Windows of `length` characters, one after another, and the character that comes after each. */
function windows(from: number, to: number): data.Dataset {
  const numbers = Uint8Array.from(text.slice(from, to + 1), numberOf);
  const count = Math.floor((numbers.length - 1) / length);
  const column = (start: number): data.ArrayColumn => ({
    shape: [count, length],
    data: numbers.slice(start, start + count * length),
    transform: { dtype: "i32" },
  });
  return data.fromArrays({ x: column(0), y: column(1) });
}

const lstm = nn.sequential(nn.embedding(alphabet, size), nn.lstm({ hidden: 2 * size }), nn.linear(alphabet));
const block = (): nn.Layer => nn.decoderBlock({ heads: 4, dropout: 0, rotary: true });
const transformer = nn.sequential(
  nn.embedding(alphabet, size),
  ...Array.from({ length: small ? 1 : 2 }, block),
  nn.layerNorm(),
  nn.linear(alphabet),
);

const heldOut = Math.floor(characters / 10);
const test = windows(characters, characters + heldOut);
const training = windows(0, characters).shuffle().batch(32);
const steps = epochs * training.batchesPerEpoch;
const { cosine, warmUp } = optim.schedules;

const result = await train({
  model: process.argv.includes("--transformer") ? transformer : lstm,
  data: training,
  evaluate: test,
  loss: losses.softmaxCrossEntropy,
  metrics: { perplexity: metrics.perplexity() },
  optimizer: optim.adamW({
    learningRate: warmUp(cosine({ learningRate: 3e-3, totalSteps: steps }), { steps: 50 }),
    weightDecay: 0.01,
  }),
  clip: { norm: 1 },
  epochs,
});

/** An index drawn by its probability, from a number in [0, 1). */
function drawn(chances: ArrayLike<number>, threshold: number): number {
  let [number, sum] = [0, chances[0]!];
  while (sum <= threshold && number < chances.length - 1) sum += chances[++number]!;
  return number;
}

/** Continues a text, each character from the last `length` ones. */
async function write(count: number): Promise<string> {
  let state = 1;
  let written = text.slice(characters, characters + length);
  for (let index = 0; index < count; index++) {
    const window = Array.from(written.slice(-length), numberOf);
    const logits = await result.predict(tensor([window], { dtype: "i32" }));
    const chances = logits
      .slice([0, length - 1, 0], [1, length, alphabet])
      .div(0.7)
      .softmax();
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    written += characterOf(drawn(await chances.data(), state / 2 ** 32));
  }
  return written.slice(length);
}

const { loss, metrics: measured } = await result.evaluate(test);
result.print(`
${await write(small ? 80 : 600)}

of ${heldOut.toLocaleString("en")} characters it has not seen: ${(loss / Math.log(2)).toFixed(3)} bits each, perplexity ${measured["perplexity"]!.toFixed(2)}`);
