/** @module Registers the transform of the user's files; imported before what takes the types out. */
import { register } from "node:module";
import { extname } from "node:path";

const own = new URL(import.meta.url);
register(new URL(`./autograph-hooks${extname(own.pathname)}`, own), { parentURL: import.meta.url });
