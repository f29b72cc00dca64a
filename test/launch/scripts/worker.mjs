// A worker without any learning in it: does what its arguments say, one after the other.
//   print:TEXT  error:TEXT  env:NAME,NAME  step:N  join  temporary:PATH  sleep:MS  spin  ignore  late:MS  throw:TEXT  peer:TEXT
//   fork  exit:N  kill  hang  — prefixed "R/" for one rank only: 1/kill

import { fork } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const rank = process.env.RANK;

const actions = {
  print: (text) => console.log(text),
  raw: (text) => process.stdout.write(text),
  error: (text) => console.error(text),
  env: (names) => {
    for (const name of names.split(",")) console.log(`${name}=${process.env[name]}`);
  },
  pid: (folder) => writeFileSync(`${folder}/pid-${rank}`, String(process.pid)),
  step: (step) => process.send({ type: "progress", step: Number(step) }),
  join: () => process.send({ type: "join" }),
  temporary: (path) => {
    const file = `${path}-${rank}`;
    writeFileSync(file, "half");
    process.send({ type: "temporary", path: file, done: false });
  },
  sleep: (milliseconds) => sleep(Number(milliseconds)),
  ignore: () => {
    for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
  },
  late: (milliseconds) => {
    process.on("SIGTERM", () =>
      setTimeout(() => process.stdout.write("cleaned\n", () => process.exit(0)), Number(milliseconds)),
    );
  },
  spin: () => {
    for (;;);
  },
  throw: (text) => {
    throw new TypeError(text);
  },
  // What the communication layer throws when another rank is gone.
  peer: (text) => {
    throw Object.assign(new Error(text), {
      name: "HeddleError",
      code: "peerClosed",
      during: "allReduce sum f32 x 10 'g'",
    });
  },
  // A process of the script's own, which outlives the time that a worker has without its launcher.
  fork: async () => {
    const child = fork(new URL("./forked.mjs", import.meta.url), { stdio: ["ignore", "inherit", "pipe", "ipc"] });
    child.on("message", (message) => console.log("told", JSON.stringify(message)));
    let errors = "";
    child.stderr.on("data", (text) => (errors += text));
    const [status, signal] = await once(child, "close");
    console.log(`child ended: ${status} ${signal}, ${/Error: .*/.exec(errors)?.[0]}`);
  },
  reject: (text) => void Promise.reject(new Error(text)),
  exit: (status) => process.exit(Number(status)),
  kill: () => process.kill(process.pid, "SIGKILL"),
  hang: () => sleep(60_000),
};

for (const argument of process.argv.slice(2)) {
  const [, only, name, value] = /^(?:(\d)\/)?(\w+):?(.*)$/s.exec(argument);
  if (only === undefined || only === rank) await actions[name](value);
}
