/** @module Node's module hook that transforms a user's files, before TypeScript is taken out of them. */
import type { LoadFnOutput, LoadHook, LoadHookContext } from "node:module";
import { fileURLToPath } from "node:url";
import { transformSource } from "../adapters/autograph/transform.ts";

const transformed = /^file:.*\.[cm]?[jt]sx?(?:\?|$)/;
// In a clone the package is not below node_modules.
const own = new URL("..", import.meta.url).href;
const isUsers = (url: string): boolean =>
  transformed.test(url) && !url.includes("/node_modules/") && !url.startsWith(own);

/** The hook: what comes from the file, transformed where it asks for it. */
export const load: LoadHook = async (url, context, nextLoad) => asAsked(url, await nextLoad(url, context));

/** The same for runtimes whose hooks are called in the thread that imports. */
export function loadSync(
  url: string,
  context: LoadHookContext,
  nextLoad: (url: string, context?: Partial<LoadHookContext>) => LoadFnOutput,
): LoadFnOutput {
  return asAsked(url, nextLoad(url, context));
}

function asAsked(url: string, loaded: LoadFnOutput): LoadFnOutput {
  const { source } = loaded;
  if (source == null || !isUsers(url)) return loaded;
  const text = typeof source === "string" ? source : new TextDecoder().decode(source as Uint8Array);
  const made = transformedText(text, fileURLToPath(url.replace(/\?.*$/, "")));
  return made === undefined ? loaded : { ...loaded, source: made };
}

/** A file's text as it is to be run, with its source map; undefined where nothing in it is to be changed. */
export function transformedText(text: string, file: string): string | undefined {
  const made = transformSource(text, file);
  if (made === undefined) return undefined;
  const map = Buffer.from(made.map).toString("base64");
  return `${made.code}//# sourceMappingURL=data:application/json;base64,${map}\n`;
}
