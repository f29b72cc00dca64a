/**
 * @module Transforms files with "use heddle" by synchronous hooks, which run in the importing thread. Deno has no other hooks, and Node
 * from 26 on warns about hooks in a thread of their own.
 */
import nodeModule from "node:module";
import { loadSync } from "./autograph-hooks.ts";

/** A function of newer Nodes, which the types of the oldest supported Node lack. */
type RegisterHooks = (hooks: { readonly load: typeof loadSync }) => void;

(nodeModule as unknown as { registerHooks: RegisterHooks }).registerHooks({ load: loadSync });
