/**
 * @module The transform of files that say "use heddle" by hooks that are called in the thread that imports: all that Deno has, and
 * in Node from 26 on, which warns of those in a thread of their own.
 */
import nodeModule from "node:module";
import { loadSync } from "./autograph-hooks.ts";

/** As newer Nodes have it, whose types are not those of the oldest one. */
type RegisterHooks = (hooks: { readonly load: typeof loadSync }) => void;

(nodeModule as unknown as { registerHooks: RegisterHooks }).registerHooks({ load: loadSync });
