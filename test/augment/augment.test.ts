import {
  augment,
  data,
  flip,
  jit,
  losses,
  mesh,
  nn,
  optim,
  random,
  type Tensor,
  type TrainOptions,
  tensor,
  train,
} from "heddle";
import { describe, expect, test } from "vitest";

const [batch, channels, height, width] = [16, 3, 8, 12] as const;
const size = channels * height * width;
const shape = [batch, channels, height, width];
/** Images whose pixels are all different. */
const images = (): Tensor =>
  tensor(
    Array.from({ length: batch * size }, (_unused, at) => ((at * 7919) % 104_729) / 104_729 + 0.1),
    { shape },
  );
const labels = tensor(
  Array.from({ length: batch }, (_unused, at) => at % 4),
  { dtype: "i32" },
);
const values = async (x: Tensor): Promise<number[][]> => {
  const flat = [...(await x.data())] as number[];
  return Array.from({ length: batch }, (_unused, at) =>
    flat.slice((at * flat.length) / batch, ((at + 1) * flat.length) / batch),
  );
};
/** An augmentation as a compiled program, run with the key of a seed. */
const run = (augmentation: augment.Augmentation, x: Tensor, y: Tensor = labels, seed = 5) =>
  jit((key: Tensor, input: Tensor, target: Tensor) => augmentation(key, { x: input, y: target }))(
    random.key(seed),
    x,
    y,
  ) as unknown as augment.AugmentedBatch;
const close = (one: readonly number[], other: readonly number[], bound = 1e-5): boolean =>
  one.length === other.length && one.every((value, at) => Math.abs(value - (other[at] as number)) <= bound);
const at = (image: readonly number[], channel: number, row: number, column: number): number =>
  row < 0 || column < 0 || row >= height || column >= width
    ? 0
    : (image[(channel * height + row) * width + column] as number);

describe("images", () => {
  test("flip mirrors some images, by the key alone", async () => {
    const x = images();
    const [own, mirrored, made] = [await values(x), await values(flip(x, -1)), await values(run(augment.flip(), x).x)];
    const turned = made.map((image, index) => {
      const isTurned = close(image, mirrored[index] as number[], 0);
      expect(isTurned || close(image, own[index] as number[], 0)).toBe(true);
      return isTurned;
    });
    expect(new Set(turned).size).toBe(2);
    expect(await values(run(augment.flip(), x).x)).toEqual(made);
    expect(await values(run(augment.flip(), x, labels, 6).x)).not.toEqual(made);
    expect(await values(run(augment.flip({ horizontal: 1 }), x).x)).toEqual(mirrored);
    expect(await values(run(augment.flip({ horizontal: 0, vertical: 1 }), x).x)).toEqual(await values(flip(x, 2)));
    expect(await values(run(augment.flip({ horizontal: 0 }), x).x)).toEqual(own);
  });

  test("crop moves each image by whole pixels", async () => {
    const x = images();
    const own = await values(x);
    const moved = (await values(run(augment.crop({ padding: 2 }), x).x)).map((image, index) => {
      for (let rows = -2; rows <= 2; rows++)
        for (let columns = -2; columns <= 2; columns++) {
          const expected = image.map((_value, place) =>
            at(
              own[index] as number[],
              Math.floor(place / (height * width)),
              (Math.floor(place / width) % height) + rows,
              (place % width) + columns,
            ),
          );
          if (close(image, expected, 1e-6)) return `${rows} ${columns}`;
        }
      return "no such move";
    });
    expect(moved).not.toContain("no such move");
    expect(new Set(moved).size).toBeGreaterThan(5);
  });

  test("rotate turns: a slope keeps its steepness, and turns by no more than asked for", async () => {
    // Between the pixels of a plane, interpolation is exact.
    const plane = tensor(
      Array.from(
        { length: batch * size },
        (_unused, place) => 3 * (place % width) + 2 * (Math.floor(place / width) % height),
      ),
      { shape },
    );
    const angles = (await values(run(augment.rotate(20), plane).x)).map((image) => {
      const here = at(image, 1, 3, 5);
      const [right, down] = [at(image, 1, 3, 6) - here, at(image, 1, 4, 5) - here];
      expect(Math.hypot(right, down)).toBeCloseTo(Math.hypot(3, 2), 3);
      return ((Math.atan2(down, right) - Math.atan2(2, 3)) * 180) / Math.PI;
    });
    expect(Math.max(...angles.map(Math.abs))).toBeLessThanOrEqual(20.001);
    expect(Math.max(...angles) - Math.min(...angles)).toBeGreaterThan(10);
    const scaled = (await values(run(augment.affine({ scale: [2, 2] }), plane).x))[0] as number[];
    expect(at(scaled, 0, 3, 6) - at(scaled, 0, 3, 5)).toBeCloseTo(1.5, 4);
    const x = images();
    expect(close((await values(run(augment.affine(), x).x)).flat(), (await values(x)).flat())).toBe(true);
  });

  test("colour changes brightness, contrast and saturation by factors", async () => {
    const x = images();
    const own = await values(x);
    const grey = (image: readonly number[], place: number): number =>
      0.299 * (image[place] as number) +
      0.587 * (image[place + height * width] as number) +
      0.114 * (image[place + 2 * height * width] as number);
    const places = Array.from({ length: height * width }, (_unused, place) => place);
    const factors = async (options: augment.ColourOptions, base: (image: readonly number[], place: number) => number) =>
      (await values(run(augment.colour(options), x).x)).map((image, index) => {
        const before = own[index] as number[];
        const found = image.map(
          (value, place) => (value - base(before, place)) / ((before[place] as number) - base(before, place)),
        );
        expect(Math.max(...found) - Math.min(...found)).toBeLessThan(1e-2);
        return found[0] as number;
      });
    const mean = (image: readonly number[]): number =>
      places.reduce((sum, place) => sum + grey(image, place), 0) / places.length;
    for (const found of [await factors({ brightness: 0.4 }, () => 0), await factors({ contrast: 0.4 }, mean)]) {
      expect(Math.min(...found)).toBeGreaterThanOrEqual(0.6 - 1e-3);
      expect(Math.max(...found)).toBeLessThanOrEqual(1.4 + 1e-3);
      expect(Math.max(...found) - Math.min(...found)).toBeGreaterThan(0.2);
    }
    (await values(run(augment.colour({ saturation: 0.9 }), x).x)).forEach((image, index) => {
      for (const place of places) expect(grey(image, place)).toBeCloseTo(grey(own[index] as number[], place), 4);
    });
  });

  test("erase replaces one rectangle of an image, of the asked for area", async () => {
    const x = images();
    const made = await values(run(augment.erase({ probability: 1, area: [0.1, 0.4], value: -1 }), x).x);
    for (const image of made) {
      const erased = Array.from({ length: height * width }, (_unused, place) => image[place] === -1);
      const rows = erased.flatMap((is, place) => (is ? [Math.floor(place / width)] : []));
      const columns = erased.flatMap((is, place) => (is ? [place % width] : []));
      const area = (Math.max(...rows) - Math.min(...rows) + 1) * (Math.max(...columns) - Math.min(...columns) + 1);
      expect(rows.length).toBe(area);
      // Sides are whole pixels, and no longer than the image.
      expect(area / (height * width)).toBeGreaterThan(0.03);
      expect(area / (height * width)).toBeLessThan(0.55);
    }
    expect(await values(run(augment.erase({ probability: 0 }), x).x)).toEqual(await values(x));
  });

  test("noise has the asked for deviation", async () => {
    const x = images();
    const own = (await values(x)).flat();
    const apart = (await values(run(augment.noise(0.3), x).x))
      .flat()
      .map((value, index) => value - (own[index] as number));
    const deviation = Math.sqrt(apart.reduce((sum, value) => sum + value * value, 0) / apart.length);
    expect(deviation).toBeGreaterThan(0.28);
    expect(deviation).toBeLessThan(0.32);
  });
});

describe("mixtures", () => {
  const previous = (index: number): number => (index + batch - 1) % batch;

  test("mixup mixes inputs and targets in the same shares", async () => {
    const x = images();
    const own = await values(x);
    const made = run(augment.mixup({ classes: 4, alpha: 1 }), x);
    const targets = await values(made.y);
    const shares = (await values(made.x)).map((image, index) => {
      const [mine, other] = [own[index] as number[], own[previous(index)] as number[]];
      const share = targets[index]?.[index % 4] as number;
      expect(targets[index]?.[previous(index) % 4]).toBeCloseTo(1 - share, 5);
      expect(
        close(
          image,
          mine.map((value, place) => share * value + (1 - share) * (other[place] as number)),
          1e-4,
        ),
      ).toBe(true);
      return share;
    });
    expect(Math.max(...shares) - Math.min(...shares)).toBeGreaterThan(0.2);
  });

  test("cutmix takes a rectangle, and targets in the shares of the areas", async () => {
    const x = images();
    const own = await values(x);
    const made = run(augment.cutmix({ classes: 4 }), x);
    const targets = await values(made.y);
    (await values(made.x)).forEach((image, index) => {
      const [mine, other] = [own[index] as number[], own[previous(index)] as number[]];
      const isMine = image.map((value, place) => Math.abs(value - (mine[place] as number)) < 1e-5);
      expect(
        image.every((value, place) => isMine[place] === true || Math.abs(value - (other[place] as number)) < 1e-5),
      ).toBe(true);
      expect(targets[index]?.[index % 4]).toBeCloseTo(isMine.filter(Boolean).length / size, 4);
    });
  });
});

describe("words", () => {
  const length = 10;
  const ids = tensor(
    Array.from({ length: batch * length }, (_unused, place) =>
      place % length < 3 + (Math.floor(place / length) % 7) ? 10 + (place % length) : 0,
    ),
    { shape: [batch, length], dtype: "i32" },
  );

  test("dropWords replaces words, and never what fills up", async () => {
    const own = await values(ids);
    const made = await values(run(augment.dropWords({ probability: 0.5 }), ids).x);
    made.forEach((text, index) => {
      text.forEach((id, place) => {
        const was = own[index]?.[place];
        expect(was === 0 ? [0] : [was, 1]).toContain(id);
      });
    });
    expect(made.flat().filter((id) => id === 1).length).toBeGreaterThan(20);
  });

  test("swapWords moves words by one place, and loses none", async () => {
    const own = await values(ids);
    const made = await values(run(augment.swapWords({ probability: 0.8 }), ids).x);
    const sorted = (text: readonly number[] | undefined): number[] => [...(text ?? [])].sort((a, b) => a - b);
    made.forEach((text, index) => {
      expect(sorted(text)).toEqual(sorted(own[index]));
      text.forEach((id, place) => {
        if (id !== 0) expect(Math.abs(id - 10 - place)).toBeLessThanOrEqual(1);
      });
    });
    expect(made).not.toEqual(own);
  });
});

describe("in training", () => {
  const rows = 64;
  const options = (more: Partial<TrainOptions> = {}): TrainOptions => ({
    model: nn.sequential(nn.flatten(), nn.linear(4)),
    data: data
      .fromArrays({
        x: {
          shape: [rows, 1, 6, 6],
          data: Float32Array.from({ length: rows * 36 }, (_unused, place) => Math.sin(place)),
        },
        y: { shape: [rows], data: Int32Array.from({ length: rows }, (_unused, row) => row % 4) },
      })
      .shuffle()
      .batch(16),
    loss: losses.softmaxCrossEntropy,
    optimizer: optim.sgd({ learningRate: 0.05 }),
    epochs: 2,
    report: "silent",
    augment: augment.chain(
      augment.flip(),
      augment.crop({ padding: 1 }),
      augment.erase(),
      augment.noise(0.05),
      augment.mixup({ classes: 4 }),
    ),
    ...more,
  });
  const lossesOf = async (more: Partial<TrainOptions> = {}): Promise<number[]> =>
    (await train(options(more))).history.map(({ loss }) => loss);

  test("the same numbers on one device and on several; others without augmentation, and by another seed", async () => {
    const alone = await lossesOf();
    const several = await lossesOf({ mesh: mesh({ data: 4 }) });
    several.forEach((loss, epoch) => {
      expect(loss).toBeCloseTo(alone[epoch] as number, 4);
    });
    expect(await lossesOf()).toEqual(alone);
    const { augment: _augment, ...plain } = options();
    expect((await train(plain)).history[0]?.loss).not.toBe(alone[0]);
    expect(await lossesOf({ seed: 9 })).not.toEqual(alone);
  });

  test("evaluation and prediction see data as they are", async () => {
    const evaluate = options().data;
    const augmented = await train(options({ evaluate, optimizer: optim.sgd({ learningRate: 0 }) }));
    const { augment: _augment, ...plain } = options({ evaluate, optimizer: optim.sgd({ learningRate: 0 }) });
    const as = await train(plain);
    expect(augmented.history[0]?.validation).toEqual(as.history[0]?.validation);
    expect(augmented.history[0]?.loss).not.toBe(as.history[0]?.loss);
  });

  test.each<[string, () => unknown, RegExp]>([
    [
      "what is no augmentation",
      () => train(options({ augment: "flip" as never })),
      /augment must be an augmentation, got "flip"/,
    ],
    [
      "rows that are lost",
      () => train(options({ augment: (_key, { x, y }) => ({ x: x.slice([0, 0, 0, 0], [1, 1, 6, 6]), y }) })),
      /must give \{ x, y \} of 16 rows/,
    ],
    [
      "integer targets without classes",
      () => train(options({ augment: augment.mixup() })),
      /targets are i32; pass classes/,
    ],
    [
      "a label that is no class",
      async () => run(augment.mixup({ classes: 3 }), images()).y.data(),
      /mixup: label 3 at row 3 is outside \[0, 3\)/,
    ],
    [
      "a label below 0",
      async () => run(augment.cutmix({ classes: 4 }), images(), labels.sub(1)).y.data(),
      /cutmix: label -1 at row 0 is outside \[0, 4\)/,
    ],
    [
      "more classes than the model has",
      () => train(options({ augment: augment.cutmix({ classes: 10 }) })),
      /shares of 10 classes do not fit 4 logits[\s\S]*cutmix/,
    ],
    ["ids as images", () => train(options({ augment: augment.dropWords() })), /dropWords: takes ids of words/],
  ])("%s is an error", async (_what, make, message) => {
    await expect(make()).rejects.toThrow(message);
  });

  test.each<[string, () => unknown, RegExp]>([
    ["an unknown option", () => augment.flip({ horizontl: 1 } as never), /unknown option 'horizontl'/],
    ["a probability above 1", () => augment.erase({ probability: 2 }), /probability must be/],
    ["bounds that fall", () => augment.erase({ area: [0.5, 0.1] }), /area must be \[lowest, highest\]/],
    ["what is no augmentation in a chain", () => augment.chain(1 as never), /takes augmentations, got 1/],
    [
      "images of bytes",
      () => augment.flip()(random.key(1), { x: tensor([[[[1]]]], { dtype: "u8" }), y: labels }),
      /takes images, floats/,
    ],
  ])("%s is an error", (_what, make, message) => {
    expect(make).toThrow(message);
  });
});
