/**
 * Trains a linear model on a file of f32 rows that it makes, for one epoch in a new order, and prints as a line of JSON what it read before the
 * first step, the memory at the end and what it learned. Arguments: the folder, and the bytes of the file.
 */
import {
  closeSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { data, losses, nn, optim, train } from "heddle";

const [folder = "", bytes = "0"] = process.argv.slice(2);
/** The last of them is the target. */
const width = 256;
const rows = Math.floor(Number(bytes) / (4 * width));
const path = join(folder, `rows-${rows}.f32`);
const pieceRows = 16_384;

/** One for all pieces: what making the file takes is not to count. */
const made = new Float32Array(pieceRows * width);

/** Random values; the target is half of the first. */
function piece(first: number, count: number): Float32Array {
  const values = made.subarray(0, count * width);
  let state = (first + 1) >>> 0;
  for (let at = 0; at < values.length; at++) {
    // xorshift (Marsaglia, 2003)
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    values[at] = state / 2 ** 31;
  }
  for (let row = 0; row < count; row++) values[row * width + width - 1] = 0.5 * (values[row * width] as number);
  return values;
}

mkdirSync(folder, { recursive: true });
if (statSync(path, { throwIfNoEntry: false })?.size !== rows * width * 4) {
  // Each worker makes one, and all use the first: another time of a file would be another content.
  const own = `${path}-${process.pid}`;
  const file = openSync(own, "w");
  for (let first = 0; first < rows; first += pieceRows) {
    const values = piece(first, Math.min(pieceRows, rows - first));
    writeSync(file, new Uint8Array(values.buffer, 0, values.byteLength));
  }
  closeSync(file);
  try {
    linkSync(own, path);
  } catch (error) {
    if (!existsSync(path)) throw error;
  }
  rmSync(own);
}

const values = { shape: [rows, width], dtype: "f32", start: 0 } as const;
const source = data.fileRanges("large", path, values);
let read = 0;
const counted: data.RangeSource = {
  ...source,
  range: (first, count) => {
    read += count;
    return source.range(first, count);
  },
};
const row = data.columnFromRanges({ name: "row", ...values, transform: undefined }, counted);
const inputs = width - 1;
let readBefore: number | undefined;
const result = await train({
  model: nn.module({ out: nn.linear(1) }, (l, { row: x }: { row: import("heddle").Tensor }) => {
    const [count = 0] = x.shape;
    return { row: l.out(x.slice([0, 0], [count, inputs])) };
  }),
  data: data
    .fromColumns("large", [row])
    .shuffle()
    .batch(pieceRows / 8, { dropRemainder: true }),
  input: ["row"],
  target: ["row"],
  loss: { row: (y, t) => losses.mse(y, t.slice([0, inputs], [t.shape[0] as number, width])) },
  metrics: {},
  optimizer: optim.adam({ learningRate: 0.02 }),
  epochs: 1,
  seed: 1,
  report: "silent",
  callbacks: {
    onStep: () => {
      readBefore ??= read;
    },
  },
});
// Linux counts the most that the process ever had.
const peak = Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? 0) / 1024;
const { steps, history } = result;
result.print(JSON.stringify({ rows, steps, readBefore, read, peakMiB: Math.round(peak), loss: history[0]?.loss }));
