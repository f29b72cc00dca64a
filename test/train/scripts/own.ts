/** A loop of one's own under `heddle run`: prints its losses and bits of the state on rank 0. Arguments: virtual devices, and a file to save to. */
import { mesh, random, replicate } from "heddle";
import { isTensor } from "../../../src/tensor/index.ts";
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
loop.print(JSON.stringify({ losses, state }));
