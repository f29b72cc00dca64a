/** A loop of one's own under `heddle run`: prints its losses and bits of the state on rank 0. Arguments: virtual devices, and a file to save to. */
import { mesh, random, replicate } from "heddle";
import { isTensor } from "../../../src/functions/index.ts";
import { flattenTree } from "../../../src/util/tree.ts";
import { lossesIn, model, ownLoop } from "./own-model.ts";

const [devices = "", path = ""] = process.argv.slice(2);
const first = model.init(random.key(3), { shape: [12, 1, 8, 8], dtype: "f32" });
const loop = await ownLoop(first, devices === "" ? {} : { mesh: mesh({ data: Number(devices) }) });
const losses = await lossesIn(loop, 0);
if (path !== "") await loop.save(path);
losses.push(...(await lossesIn(loop, 1)));
const state: number[] = [];
for (const leaf of flattenTree(loop.state, isTensor).leaves) state.push(...(await replicate(leaf).data()));
// Values of this process's own device, still being computed, beside those of all workers.
const outputs = new Set<string>();
for (let round = 0; round < 30; round++) {
  const x = random.normal(random.key(9), [64, 1, 8, 8]);
  const { y } = model.apply({ params: loop.state.params, state: loop.state.layers }, x);
  outputs.add((await y.data()).join());
}
loop.print(JSON.stringify({ losses, state, outputs: outputs.size }));
