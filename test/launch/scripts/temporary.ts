// Leaves a file half written, tells of it as the checkpoint writer does, and waits.

import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { reportToLauncher } from "heddle/launcher-messages";

const folder = process.argv[2] ?? "";
const path = `${folder}/file.tmp-${process.env["RANK"]}`;
writeFileSync(path, "half");
reportToLauncher({ type: "temporary", path, done: false });
writeFileSync(`${folder}/pid-${process.env["RANK"]}`, String(process.pid));
await sleep(60_000);
