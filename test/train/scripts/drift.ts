/** Trains a small network of which the last rank does something otherwise, as the JSON of the first argument says. */
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { type Callbacks, isTensor, layouts, losses, mesh, optim, type Tensor, type TrainControl, train } from "heddle";
import { flattenTree } from "../../../src/util/tree.ts";
import { bars, convnet } from "../synthetic.ts";

interface Settings {
  /** What the last rank does otherwise at step 5, or, for `schedule`, before it; `flip`: from step 5 on. */
  readonly odd?: "scale" | "schedule" | "restore" | "flip";
  readonly axes?: { readonly [axis: string]: number };
  readonly layout?: "dense";
  readonly pipeline?: boolean;
  readonly every?: number | false;
}

const { odd, axes, layout, pipeline = false, every = 4 } = JSON.parse(process.argv[2] ?? "{}") as Settings;
const isOdd = (what: Settings["odd"]): boolean =>
  odd === what && Number(process.env["RANK"]) === Number(process.env["WORLD_SIZE"]) - 1;

/** The bytes of a part of a parameter, each inverted, so that they are not found in memory. */
let inverted: Uint8Array | undefined;

/** Flips a bit of the parameter in the memory of this process, as a cosmic ray would, unless it is flipped already. */
async function flip(control: TrainControl): Promise<void> {
  if (inverted === undefined) {
    const snapshot = control.snapshot();
    const { leaves, paths } = flattenTree(snapshot.params, isTensor);
    const [part] = (leaves[paths.indexOf("4.weight")] as Tensor).value.shards;
    inverted = Uint8Array.from(((await part?.read()) ?? new Uint8Array()).subarray(0, 256), (byte) => byte ^ 255);
  }
  const memory = openSync("/proc/self/mem", "r+");
  for (const line of readFileSync("/proc/self/maps", "latin1").split("\n")) {
    const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw.p /.exec(line) ?? [];
    const [start, end] = [Number(`0x${from}`), Number(`0x${to}`)];
    if (!(end - start < 2 ** 28)) continue;
    const bytes = Buffer.alloc(end - start);
    try {
      readSync(memory, bytes, 0, bytes.length, start);
    } catch {
      continue;
    }
    const pattern = inverted.map((byte) => byte ^ 255);
    const places: number[] = [];
    for (let at = bytes.indexOf(pattern); at >= 0; at = bytes.indexOf(pattern, at + 1)) places.push(at + 40);
    // The pattern itself may be among what is flipped.
    for (const at of places) {
      // Memory may have been given to something else meanwhile.
      const now = Buffer.alloc(pattern.length);
      readSync(memory, now, 0, now.length, start + at - 40);
      if (now.equals(pattern)) writeSync(memory, Buffer.from([(now[40] as number) ^ 1]), 0, 1, start + at);
    }
  }
  closeSync(memory);
}

let before: ReturnType<TrainControl["snapshot"]> | undefined;
const callbacks: Callbacks = {
  onStep: async ({ step }, control) => {
    if (isOdd("scale") && step === 5) control.scaleLearningRate(2);
    if (isOdd("restore") && step === 3) before = control.snapshot();
    if (isOdd("restore") && step === 5 && before !== undefined) control.restore(before);
    // A step that is under way may write the parameter after the flip.
    if (isOdd("flip") && (every === false ? step === 5 : step >= 5)) await flip(control);
  },
};
const result = await train({
  model: convnet(),
  data: bars(96).shuffle().batch(12),
  loss: losses.softmaxCrossEntropy,
  // Values that do not change can be found in memory; momentum is no part of a layer.
  optimizer: optim.sgd({
    learningRate: (step) => (odd === "flip" ? 0 : isOdd("schedule") && step === 5 ? 0.07 : 0.05),
  }),
  epochs: 2,
  report: "silent",
  checkReplicas: every,
  ...(axes === undefined ? {} : { mesh: mesh(axes) }),
  ...(layout === undefined
    ? {}
    : { layout: layouts.named({ "4.weight": { model: 0 }, "4.bias": { model: 0 }, "7.weight": { model: 1 } }) }),
  ...(pipeline ? { pipeline: { stages: { 0: 0, 4: 1, 7: 1 }, microBatches: 4 } } : {}),
  callbacks,
});
result.print(`trained ${result.steps} steps`);
