/** A worker that says who it is, and joins the others once a file is there: the first argument is a folder. Rank 0 does not wait. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { comm, tensor } from "heddle";

const [folder = ""] = process.argv.slice(2);
const rank = process.env["RANK"];
writeFileSync(join(folder, `pid-${rank}`), String(process.pid));
while (rank !== "0" && !existsSync(join(folder, "go"))) await sleep(20);
await comm.connect();
console.log(`sum ${await comm.allReduce(tensor(1)).item()}`);
