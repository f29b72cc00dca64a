/**
 * A folder of images, a folder for each class, to a classifier: decoded, augmented within the step, and trained until the validation stops
 * getting better. It needs the package sharp and, to draw the images, fast-png.
 *
 *     npx heddle run examples/data/images.ts          20 s
 */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encode } from "fast-png";
import { augment, callbacks, data, losses, nn, optim, train } from "heddle";

// Discs and frames of some size, colour and place.
const folder = mkdtempSync(join(tmpdir(), "shapes-"));
const side = 24;
for (const [kind, name] of ["disc", "frame"].entries()) {
  mkdirSync(join(folder, name));
  for (let image = 0; image < 160; image++) {
    const [row, column, radius] = [9 + (image % 6), 9 + ((image * 5) % 6), 4 + (image % 4)];
    const pixels = Uint8Array.from({ length: side * side * 3 }, (_, at) => {
      const [y, x] = [Math.floor(at / 3 / side) - row, (Math.floor(at / 3) % side) - column];
      const far = Math.max(Math.abs(y), Math.abs(x));
      const isInside = kind === 0 ? Math.hypot(y, x) <= radius : far <= radius && far >= radius - 1;
      return isInside ? 120 + ((image * 31 + (at % 3) * 47) % 136) : (image * 13 + at * 7) % 60;
    });
    writeFileSync(join(folder, name, `${image}.png`), encode({ width: side, height: side, channels: 3, data: pixels }));
  }
}

const images = data.images(folder, { size: [side, side] });
const parts = await data.split(images, { train: 0.75, test: 0.25 }, { stratify: ({ label }) => label });
const dataset = (records: typeof images): Promise<data.Dataset> =>
  data.toDataset(records.select("x", "y"), { transforms: { x: { dtype: "f32", scale: 1 / 255 } } });

const result = await train({
  model: nn.sequential(
    nn.conv2d({ out: 8, kernel: 3 }),
    nn.relu(),
    nn.maxPool2d(2),
    nn.conv2d({ out: 16, kernel: 3 }),
    nn.relu(),
    nn.maxPool2d(2),
    nn.flatten(),
    nn.linear(2),
  ),
  data: (await dataset(parts.train)).shuffle().batch(24),
  evaluate: (await dataset(parts.test)).batch(40),
  augment: augment.chain(
    augment.flip({ vertical: 0.5 }),
    augment.affine({ degrees: 15, translate: 0.1, scale: [0.9, 1.2] }),
    augment.colour({ brightness: 0.3, contrast: 0.3 }),
    augment.mixup({ classes: 2 }),
  ),
  loss: losses.softmaxCrossEntropy,
  optimizer: optim.adam({ learningRate: 3e-3 }),
  callbacks: [callbacks.earlyStopping({ patience: 3 })],
  epochs: 30,
});
result.print(`${(100 * (result.accuracy ?? 0)).toFixed(1)} % of the other images after ${result.epochs} epochs`);
