/**
 * A worker that joins through the store of its own and adds a long vector to that of the others: the first argument is a file in which rank 1
 * finds the port of a relay before the store.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { comm, tensor } from "heddle";

const [file = ""] = process.argv.slice(2);
if (process.env["RANK"] === "0") writeFileSync(`${file}.store`, process.env["MASTER_PORT"] as string);
else {
  while (!existsSync(file)) await sleep(20);
  process.env["MASTER_PORT"] = readFileSync(file, "utf8");
}
await comm.connect();
const length = 1 << 18;
for (let round = 1; round <= 3; round++) {
  const sum = comm.allReduce(tensor(new Float32Array(length).fill(round)));
  const wrong = (await sum.data()).filter((value) => value !== 2 * round).length;
  console.log(`RESULT sum ${round}: ${wrong} wrong`);
}
