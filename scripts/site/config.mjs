// VitePress's settings. They are loaded from .heddle/site/pages/.vitepress, where scripts/site.mjs puts a line that names this file.

import { groupsOf, placeOf, slugOf } from "./pages.mjs";

/** Indented lines are commands, or code in docstrings; both look like the other blocks. */
function indentedAsBlocks(md) {
  md.core.ruler.push("indented", ({ tokens, env }) => {
    const info = env.relativePath?.startsWith("api/") ? "ts" : "sh";
    for (const token of tokens.filter(({ type }) => type === "code_block")) {
      Object.assign(token, { type: "fence", tag: "code", info, markup: "```" });
    }
  });
}

/** Lines of code have 100 columns and more: more width, smaller letters. Tables without heads have none. */
const style = `
:root { --vp-layout-max-width: 1680px; --vp-sidebar-width: 256px; }
@media (min-width: 1280px) {
  .VPDoc.has-aside .content-container { max-width: min(900px, calc(100vw - 660px)) !important; }
}
.vp-doc td, .vp-doc th { padding: 6px 12px; }
.vp-doc thead:not(:has(th:not(:empty))) { display: none; }
.vp-doc [class*="language-"] code { font-size: 13px; }
`;

/** Two threads through a heddle's eyes. */
const icon = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M5 1v14M11 1v14" stroke="#3451b2" stroke-width="2"/><circle cx="5" cy="8" r="2.5" fill="#fff" stroke="#3451b2"/><circle cx="11" cy="8" r="2.5" fill="#fff" stroke="#3451b2"/></svg>',
)}`;

export default {
  lang: "en",
  title: "Heddle",
  description: "Distributed machine learning for TypeScript",
  head: [
    ["link", { rel: "icon", href: icon }],
    ["style", {}, style],
  ],
  cleanUrls: false,
  markdown: { anchor: { slugify: slugOf }, config: indentedAsBlocks },
  // The API reference is long, and each of its pages is one chunk.
  vite: { build: { chunkSizeWarningLimit: 4000 } },
  themeConfig: {
    search: {
      provider: "local",
      options: {
        miniSearch: {
          // Results from guides come before names of the reference.
          searchOptions: { fuzzy: 0.1, boostDocument: (id) => (id.startsWith("/api/") ? 0.5 : 1) },
        },
        _render: (text, env, md) => (env.relativePath === "changelog.md" ? "" : md.render(text, env)),
      },
    },
    outline: { level: [2, 3] },
    sidebar: groupsOf(process.cwd()).map(({ text, pages }) => ({
      text,
      items: pages.map(({ title, page }) => ({ text: title, link: `/${placeOf(page)}` })),
    })),
  },
};
