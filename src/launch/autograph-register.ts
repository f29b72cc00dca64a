/** @module Registers the transform of the user's files; imported before the loader that strips types. */
import { register } from "node:module";
import { extname } from "node:path";

const moduleUrl = new URL(import.meta.url);
register(new URL(`./autograph-hooks${extname(moduleUrl.pathname)}`, moduleUrl), { parentURL: import.meta.url });
