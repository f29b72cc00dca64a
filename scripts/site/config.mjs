// VitePress's settings. They are loaded from .heddle/site/pages/.vitepress, where scripts/site.mjs puts a line that names this file.

import { groupsOf, placeOf, slugOf } from "./pages.mjs";

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
    sidebar: groupsOf(process.cwd()).map(({ text, pages }) => ({
      text,
      items: pages.map(({ title, page }) => ({ text: title, link: `/${placeOf(page)}` })),
    })),
  },
};
