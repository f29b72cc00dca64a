/** @module Loaded into every worker before the user's script (`node --import`). */

import { register } from "node:module";
import { extname } from "node:path";
import { connectToLauncher } from "../comm/launcher.ts";
import { stripsTypes } from "./loader.ts";

if (!stripsTypes()) register(`./module-hooks${extname(new URL(import.meta.url).pathname)}`, import.meta.url);
// The launcher opens a channel to every worker: without one it has died while this process was starting.
if (process.channel === undefined || process.channel === null) process.exit(1);
connectToLauncher();
