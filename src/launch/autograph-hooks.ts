/** @module Node's module hook that transforms a user's files, before TypeScript is taken out of them. */
import type { LoadHook } from "node:module";
import { fileURLToPath } from "node:url";
import { transformSource } from "../autograph/transform.ts";

const transformed = /^file:.*\.[cm]?[jt]sx?(?:\?|$)/;
// In a clone the package is not below node_modules.
const own = new URL("..", import.meta.url).href;
const isUsers = (url: string): boolean =>
  transformed.test(url) && !url.includes("/node_modules/") && !url.startsWith(own);

/** The hook: what comes from the file, transformed where it asks for it. */
export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context);
  const { source } = loaded;
  if (source == null || !isUsers(url)) return loaded;
  const text = typeof source === "string" ? source : new TextDecoder().decode(source as Uint8Array);
  const made = transformSource(text, fileURLToPath(url.replace(/\?.*$/, "")));
  if (made === undefined) return loaded;
  const map = Buffer.from(made.map).toString("base64");
  return { ...loaded, source: `${made.code}//# sourceMappingURL=data:application/json;base64,${map}\n` };
};
