/** @module Node's module hook that transforms a user's files before their types are stripped. */
import type { LoadFnOutput, LoadHook, LoadHookContext } from "node:module";
import { fileURLToPath } from "node:url";
import { transformSource } from "../adapters/autograph/transform.ts";

const transformed = /^file:.*\.[cm]?[jt]sx?(?:\?|$)/;
// In a clone the package is not below node_modules.
const packageUrl = new URL("..", import.meta.url).href;
/** Whether a file is transformed: not those of packages, nor the library's own. */
export const isUserFile = (url: string): boolean =>
  transformed.test(url) && !url.includes("/node_modules/") && !url.startsWith(packageUrl);

/** The hook: loads a file, transformed if it has the directive. */
export const load: LoadHook = async (url, context, nextLoad) => transformedLoad(url, await nextLoad(url, context));

/** The hook {@link load} for runtimes that call hooks in the importing thread. */
export function loadSync(
  url: string,
  context: LoadHookContext,
  nextLoad: (url: string, context?: Partial<LoadHookContext>) => LoadFnOutput,
): LoadFnOutput {
  return transformedLoad(url, nextLoad(url, context));
}

function transformedLoad(url: string, loaded: LoadFnOutput): LoadFnOutput {
  const { source } = loaded;
  if (source == null || !isUserFile(url)) return loaded;
  const text = typeof source === "string" ? source : new TextDecoder().decode(source as Uint8Array);
  const code = transformedText(text, fileURLToPath(url.replace(/\?.*$/, "")));
  return code === undefined ? loaded : { ...loaded, source: code };
}

/** A file's transformed text with its source map; undefined if there is nothing to transform. */
export function transformedText(text: string, file: string): string | undefined {
  const output = transformSource(text, file);
  if (output === undefined) return undefined;
  const map = Buffer.from(output.map).toString("base64");
  return `${output.code}//# sourceMappingURL=data:application/json;base64,${map}\n`;
}
