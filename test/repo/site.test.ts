/** The pages among themselves: links, and their order on the site. `npm run docs:site` looks at the site that is built of them. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { expect, test } from "vitest";
import { deadLinks } from "../../scripts/site/check.mjs";
import { contents, groupsOf, idsOf, linksOf, slugOf, writePages } from "../../scripts/site/pages.mjs";
import { pages, root } from "./pages.ts";

const read = (page: string): string => readFileSync(join(root, page), "utf8");
// Made by `npm run docs`.
const made = "docs/api/README.md";

/** What is wrong with a link of a page. */
function mistake(page: string, { target, anchor }: { target: string; anchor: string }): string | undefined {
  const file = target === "" ? page : posix.normalize(posix.join(posix.dirname(page), target));
  if (file === made) return undefined;
  if (!existsSync(join(root, file))) return `${page}: no file ${target}`;
  if (anchor === "" || idsOf(read(file)).includes(anchor)) return undefined;
  return `${page}: no heading ${target}#${anchor}`;
}

test("links of pages lead to files and headings that are there", () => {
  const links = pages.flatMap((page) => linksOf(read(page)).map((link) => ({ page, link })));
  expect(links.length).toBeGreaterThan(100);
  expect(links.flatMap(({ page, link }) => mistake(page, link) ?? [])).toEqual([]);
});

test.each([
  ["[a](none.md)", "README.md: no file none.md"],
  ["[a](docs/training.md#none)", "README.md: no heading docs/training.md#none"],
  ["[a](#none)", "README.md: no heading #none"],
])("a dead link is seen in %s", (text, expected) => {
  expect(linksOf(text).map((link) => mistake("README.md", link))).toEqual([expected]);
});

test("every page stands once among all pages", () => {
  const listed = groupsOf(root).flatMap((group) => group.pages.map(({ page }) => page));
  expect([...listed, contents].sort()).toEqual([...pages, made].sort());
});

test("pages are written for the site, with those of the sources that they link to", () => {
  const into = mkdtempSync(join(tmpdir(), "heddle-site-"));
  expect(writePages(root, into).filter((dead) => !dead.endsWith(": api/README.md"))).toEqual([]);
  const written = (place: string): string => readFileSync(join(into, place), "utf8");
  expect(written("index.md")).toContain("](/contents)");
  expect(written("examples/index.md")).toContain("[mlp.ts](/examples/mlp-ts)");
  expect(written("extending.md")).toContain("](/internals/lowered-program)");
  if (existsSync(join(root, made))) expect(written("examples/mlp-ts.md")).toContain('from "heddle"');
  rmSync(into, { recursive: true });
});

test("ids of headings are GitHub's", () => {
  expect(["Keras → Heddle", "`compile`, fit & run", "16-bit floats (f16)"].map(slugOf)).toEqual([
    "keras--heddle",
    "compile-fit--run",
    "16-bit-floats-f16",
  ]);
  expect(idsOf("# A\n\n```text\n# no\n```\n\n## [B](b.md)\n\n## B\n")).toEqual(["a", "b", "b-1"]);
});

test("dead links of a built site are seen", () => {
  const site = mkdtempSync(join(tmpdir(), "heddle-site-"));
  const files = {
    "index.html": '<a href="/a/b.html#x">1</a> <a href="/a/b.html#y">2</a> <a href="https://x.y">3</a>',
    "a/b.html": '<p id="x"><a href="../c.html">4</a> <a href="/">5</a> <a href="#x">6</a>',
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(site, name)), { recursive: true });
    writeFileSync(join(site, name), text);
  }
  expect(deadLinks(site).sort()).toEqual(["a/b.html: ../c.html", "index.html: /a/b.html#y"]);
  rmSync(site, { recursive: true });
});
