import { parentPort, workerData } from "node:worker_threads";
import { type Greeting, greeting } from "./greeting.ts";

const typed: Greeting = greeting;
parentPort?.postMessage((workerData as number) + typed.text.length);
