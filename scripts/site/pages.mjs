// Turns the Markdown of this repository into the site's: the same pages, and a page for each source file that they link to.

import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

const fences = /^( *)(```|~~~).*\n[\s\S]*?^ *\2 *$/gm;
const links = /\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)/g;

/** Links of a page to other pages and to itself. */
export const linksOf = (text) =>
  [...text.replaceAll(fences, "").matchAll(links)].map(([, target, anchor = ""]) => ({ target, anchor }));

/** GitHub's id of a heading, since the same pages are also read on GitHub. */
export const slugOf = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M} _-]/gu, "")
    .replaceAll(" ", "-");

/** The ids of a page's headings. */
export function idsOf(text) {
  const counts = new Map();
  return [...text.replaceAll(fences, "").matchAll(/^#+ (.*)$/gm)].map(([, heading]) => {
    const slug = slugOf(heading.replaceAll(/\]\([^)]*\)/g, ""));
    const count = counts.get(slug) ?? 0;
    counts.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
}

/** The page that lists all pages, in the order in which they are read. */
export const contents = "docs/README.md";

/** Its groups of pages, for the sidebar at the left. */
export function groupsOf(root) {
  const [, ...sections] = readFileSync(join(root, contents), "utf8").split(/^## /m);
  return sections.map((section) => ({
    text: section.split("\n", 1)[0],
    pages: [...section.matchAll(/^- \[([^\]]*)\]\(([^)]*)\)/gm)].map(([, title, target]) => ({
      title,
      page: posix.join(posix.dirname(contents), target),
    })),
  }));
}

const markdown = (root, folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((name) => posix.join(folder, name.replaceAll("\\", "/")))
    .filter((name) => name.endsWith(".md"));

/** Every page of the site, by its path from the root. */
export const pagesOf = (root) => [
  "README.md",
  "CONTRIBUTING.md",
  "CHANGELOG.md",
  ...markdown(root, "docs"),
  ...markdown(root, "examples"),
];

/** The path of a page on the site, without the file's extension. */
export const placeOf = (page) =>
  page === contents
    ? "contents"
    : page
        .replace(/\.md$/, "")
        .replace(/^docs\//, "")
        .replace(/(^|\/)README$/, "$1index")
        .replace(/\.(?=\w+$)/, "-")
        .replace(/^(CONTRIBUTING|CHANGELOG|LICENSE)$/, (name) => name.toLowerCase());

const languages = { ".ts": "ts", ".mjs": "js", ".py": "python" };

/** A source file as a page. */
function sourcePage(root, file) {
  const text = readFileSync(join(root, file), "utf8");
  const name = posix.basename(file);
  return `# ${name}\n\n\`${file}\`\n\n~~~~${languages[posix.extname(file)] ?? "text"}\n${text}\n~~~~\n`;
}

/** The text with its links to other files replaced; fenced blocks stay as they are. */
function relinked(text, replace) {
  const outside = (part) =>
    part.replaceAll(links, (link, target, anchor) =>
      target === "" ? link : `](${replace(target)}${anchor === undefined ? "" : `#${anchor}`})`,
    );
  let result = "";
  let end = 0;
  for (const block of text.matchAll(fences)) {
    result += outside(text.slice(end, block.index)) + block[0];
    end = block.index + block[0].length;
  }
  return result + outside(text.slice(end));
}

/**
 * Writes all pages into a folder, for VitePress.
 *
 * @returns Links to missing files and headings, as `page: target`.
 */
export function writePages(root, into) {
  const dead = [];
  const sources = new Set();
  const pages = pagesOf(root);
  const write = (place, text) => {
    mkdirSync(dirname(join(into, place)), { recursive: true });
    writeFileSync(join(into, `${place}.md`), text);
  };
  for (const page of pages) {
    const text = relinked(readFileSync(join(root, page), "utf8"), (target) => {
      const file = posix.normalize(posix.join(posix.dirname(page), decodeURI(target)));
      if (!existsSync(join(root, file)) || statSync(join(root, file)).isDirectory()) dead.push(`${page}: ${target}`);
      else if (!pages.includes(file)) sources.add(file);
      return `/${placeOf(file)}`;
    });
    write(placeOf(page), text);
  }
  if (dead.length === 0) for (const file of sources) write(placeOf(file), sourcePage(root, file));
  return dead;
}
