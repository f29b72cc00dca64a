// Checks a built site for dead links: links to missing pages, files or anchors.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";

/** @returns The dead links within the site, as `page: link`. */
export function deadLinks(site) {
  const pages = readdirSync(site, { recursive: true, encoding: "utf8" })
    .map((name) => name.replaceAll("\\", "/"))
    .filter((name) => name.endsWith(".html"));
  const texts = new Map(pages.map((page) => [page, readFileSync(join(site, page), "utf8")]));
  const ids = new Map([...texts].map(([page, text]) => [page, attributes(text, "id")]));
  return pages.flatMap((page) =>
    [...attributes(texts.get(page), "href")]
      .filter((link) => isDead(site, page, link, ids))
      .map((link) => `${page}: ${link}`),
  );
}

const attributes = (html, name) =>
  new Set([...html.matchAll(new RegExp(` ${name}="([^"]*)"`, "g"))].map(([, value]) => value.replaceAll("&amp;", "&")));

function isDead(site, page, link, ids) {
  if (/^[a-z]+:/.test(link)) return false;
  const [path, id = ""] = decodeURI(link).split("#");
  const target = path === "" ? page : path.startsWith("/") ? path.slice(1) : posix.join(posix.dirname(page), path);
  const file = target === "" || target.endsWith("/") ? `${target}index.html` : target;
  if (!existsSync(join(site, file))) return true;
  return id !== "" && !ids.get(file)?.has(id);
}
