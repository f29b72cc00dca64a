/** @module Transforms files with "use heddle" in Bun, which has its own kind of hooks. */
import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { transformedText } from "./autograph-hooks.ts";

/** The part of Bun's hooks that is used here. */
interface Bun {
  plugin(plugin: { name: string; setup(build: BunBuild): void }): void;
}
interface BunBuild {
  onLoad(options: { filter: RegExp }, load: (file: { path: string }) => { contents: string; loader: string }): void;
}

(globalThis as unknown as { Bun: Bun }).Bun.plugin({
  name: "heddle",
  setup(build) {
    build.onLoad({ filter: /^(?!.*\/node_modules\/).*\.[cm]?[jt]sx?$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8");
      return { contents: transformedText(text, path) ?? text, loader: extname(path).replace(/^\.[cm]?/, "") };
    });
  },
});
