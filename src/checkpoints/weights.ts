/** @module Checkpoints in parts as files of weights, so that `io.loadVariables` reads them as it reads one in a file. */
import { stat } from "node:fs/promises";
import { registerFolder } from "../io/weights.ts";
import { openCheckpoint } from "./open.ts";

registerFolder(async (path) => {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) return undefined;
  const checkpoint = await openCheckpoint(path);
  const { extra } = checkpoint.description;
  return Object.assign(checkpoint, { metadata: new Map([["heddle.checkpoint", JSON.stringify({ extra })]]) });
});
