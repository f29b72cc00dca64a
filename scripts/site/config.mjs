// VitePress's settings. They are loaded from .heddle/site/pages/.vitepress, where scripts/site.mjs puts a line that names this file.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { placeOf, slugOf, titleOf } from "./pages.mjs";
import { groups } from "./sidebar.mjs";

const root = process.cwd();

/** TypeDoc calls the reference after the package. */
const titles = { "docs/api/README.md": "API reference" };
const item = (page) => ({
  text: titles[page] ?? titleOf(readFileSync(join(root, page), "utf8")),
  link: `/${placeOf(page)}`,
});

/** Indented lines are commands, and look like the other blocks. */
function commandsAsBlocks(md) {
  md.core.ruler.push("commands", ({ tokens }) => {
    for (const token of tokens.filter(({ type }) => type === "code_block")) {
      Object.assign(token, { type: "fence", tag: "code", info: "sh", markup: "```" });
    }
  });
}

export default {
  lang: "en",
  title: "Heddle",
  description: "Distributed machine learning for TypeScript",
  cleanUrls: false,
  markdown: { anchor: { slugify: slugOf }, config: commandsAsBlocks },
  // The API reference is long, and one page is one chunk.
  vite: { build: { chunkSizeWarningLimit: 4000 } },
  themeConfig: {
    search: { provider: "local" },
    outline: { level: [2, 3] },
    sidebar: groups.map(({ text, pages }) => ({ text, items: pages.map(item) })),
  },
};
