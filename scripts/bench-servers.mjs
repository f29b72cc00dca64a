// npm run bench:servers: parameter servers beside PyTorch's RPC and Ray's actors (docs/parameter-server.md). Installs both on the first run.

import { at, runBeside } from "./bench-beside.mjs";

await runBeside(
  "bench/servers.ts",
  () => ({
    name: "servers",
    requirements: at("bench/peers/servers-requirements.txt"),
    say: () => console.error("installing Ray (250 MB on disk) into .heddle/servers"),
  }),
  (peers, own) => [peers, own],
);
