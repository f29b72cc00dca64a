/** @module Collections of young objects, which V8 does not start for memory outside its heap. */

type Collect = (options: { readonly type: "minor" }) => void;

let collect: Collect | undefined;
let looked = false;

/** Collects objects that were made lately, where the engine lets a program ask for it. */
export function collectYoung(): void {
  if (!looked) {
    looked = true;
    collect = collector();
  }
  collect?.({ type: "minor" });
}

/** V8's function for it. Contexts have the function while the flag is set; so one is made, and the flag is reset. */
function collector(): Collect | undefined {
  const { gc } = globalThis as { gc?: Collect };
  if (gc !== undefined) return gc;
  try {
    const { setFlagsFromString } = process.getBuiltinModule("node:v8");
    const { runInNewContext } = process.getBuiltinModule("node:vm");
    setFlagsFromString("--expose-gc");
    try {
      return runInNewContext("gc") as Collect;
    } finally {
      setFlagsFromString("--no-expose-gc");
    }
  } catch {
    // Another engine: it collects when it is told of the memory.
    return undefined;
  }
}
