/**
 * Your own compressor of gradients: each element becomes -1, 0 or 1 times the largest magnitude of its tensor, up or down with the probability
 * of the rest (TernGrad: Wen et al., 2017), four elements in a byte.
 *
 *     npx heddle run examples/extend/compressor.ts --workers 2     # bytes a step beside those of no compression; 100 % of the points; 5 s
 */
import { arange, losses, nn, optim, pad, random, train } from "heddle";
import { registerCompressor } from "heddle/compression";
import { spirals } from "../spirals.ts";

registerCompressor({
  name: "ternary",
  doc: "-1, 0 or 1 times the largest magnitude",
  make: () => ({
    name: "ternary",
    // A row of each device comes: sums of packed bytes mean nothing.
    travels: "gather",
    // Rounding up and down by chance is right on average.
    feedback: false,
    compress: (x, { key }) => {
      const [devices, size] = [x.shape[0]!, x.size / x.shape[0]!];
      const rows = x.reshape([devices, size]);
      const scale = rows.abs().max(1, { keepDims: true });
      const kept = random.uniform(key, rows.shape).lt(rows.abs().div(scale.add(1e-30)));
      const digits = rows.sign().mul(kept.cast(x.dtype)).add(1).cast("i32");
      const full = pad(digits, [
        [0, 0],
        [0, (4 - (size % 4)) % 4],
      ]).reshape([devices, Math.ceil(size / 4), 4]);
      return { message: { bytes: full.shiftLeft(arange(4).mul(2)).sum(2).cast("u8"), scale } };
    },
    decompress: ({ bytes, scale }, { shape, dtype }) => {
      const [rows, length] = bytes!.shape as [number, number];
      const size = shape.reduce((product, dim) => product * dim, 1);
      const digits = bytes!.cast("i32").reshape([rows, length, 1]).shiftRightLogical(arange(4).mul(2)).and(3);
      const signs = digits
        .reshape([rows, length * 4])
        .slice([0, 0], [rows, size])
        .sub(1)
        .cast(dtype);
      return signs.mul(scale!).reshape([rows, ...shape]);
    },
  }),
});

const dataset = spirals(1000);
for (const compression of [undefined, "ternary"]) {
  const result = await train({
    model: nn.sequential(nn.linear(64), nn.tanh(), nn.linear(64), nn.tanh(), nn.linear(2)),
    data: dataset.shuffle().batch(50),
    evaluate: dataset,
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.adam({ learningRate: 0.01 }),
    epochs: 20,
    report: "silent",
    ...(compression === undefined ? {} : { compression }),
  });
  result.print(
    `${compression ?? "uncompressed"}: ${result.sentBytes} bytes a step, ${(100 * result.accuracy!).toFixed(1)} % of the points`,
  );
}
