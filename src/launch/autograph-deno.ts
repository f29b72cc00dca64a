/** @module The transform of files that say "use heddle" in Deno, whose hooks are called in the thread that imports. */
import nodeModule from "node:module";
import { loadSync } from "./autograph-hooks.ts";

/** As newer Nodes have it, whose types are not those of the oldest one. */
type RegisterHooks = (hooks: { readonly load: typeof loadSync }) => void;

(nodeModule as unknown as { registerHooks: RegisterHooks }).registerHooks({ load: loadSync });
