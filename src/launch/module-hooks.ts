/**
 * @module Node's module hooks around the loader of TypeScript: they let a user's TypeScript be an ES module without a
 * package.json that says so, and keep Heddle's own files from the loader, which is slower than Node.
 *
 * Newer Nodes detect the module kind from the text if package.json has no `type`; the loader for older Nodes takes such a file for
 * CommonJS, in which a top-level `await` is an error.
 */

import { existsSync, readFileSync } from "node:fs";
import type { LoadHook, ResolveHook } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

// The build, which is JavaScript with full names; the sources need the loader.
const build = extname(new URL(import.meta.url).pathname) === ".js" ? new URL("..", import.meta.url).href : undefined;
const isBuilt = (url: string | undefined): boolean =>
  build !== undefined && url?.startsWith(build) === true && url.endsWith(".js");

/** The hook: a file that was resolved as CommonJS only because package.json has no `type` becomes a module if it is written as one. */
export const resolve: ResolveHook = async (specifier, context, nextResolve) => {
  if (specifier.startsWith(".") && isBuilt(context.parentURL)) {
    const { href } = new URL(specifier, context.parentURL);
    if (isBuilt(href)) return { url: href, format: "module", shortCircuit: true };
  }
  const resolution = await nextResolve(specifier, context);
  // tsx marks files that it takes for CommonJS in their URL; a module has the plain URL.
  const resolved = { ...resolution, url: resolution.url.replace(/(?:%3F|\?)tsx-commonjs-.*$/, "") };
  const candidate = resolved.format === "commonjs" && /^file:.*\.tsx?(?:\?|$)/.test(resolved.url);
  if (!candidate || resolved.url.includes("/node_modules/")) return resolution;
  const file = fileURLToPath(resolved.url);
  return declaresType(dirname(file)) || !isModule(file) ? resolution : { ...resolved, format: "module" };
};

/** The hook: loads files of the build directly. */
export const load: LoadHook = async (url, context, nextLoad) =>
  isBuilt(url)
    ? { format: "module", source: readFileSync(fileURLToPath(url)), shortCircuit: true }
    : nextLoad(url, context);

/** Whether the nearest package.json has a `type`. */
function declaresType(folder: string): boolean {
  const manifest = join(folder, "package.json");
  if (existsSync(manifest)) return /"type"\s*:/.test(readFileSync(manifest, "utf8"));
  const parent = dirname(folder);
  return parent !== folder && declaresType(parent);
}

function isModule(file: string): boolean {
  return /^(?:import|export)\b/m.test(readFileSync(file, "utf8"));
}
