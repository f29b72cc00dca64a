// A thread of the script, in TypeScript, as a data loader of the user's would be.
import { once } from "node:events";
import { Worker } from "node:worker_threads";

const worker: Worker = new Worker(new URL("./thread.ts", import.meta.url), { workerData: 20 });
const [answer]: [number] = (await once(worker, "message")) as [number];
console.log(`the thread answers ${answer}`);
await once(worker, "exit");
