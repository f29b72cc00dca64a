/**
 * Duplicates among 6,046 real mails: 300 copies with some words changed are planted among them, and found again by their words.
 *
 *     npx heddle run examples/data/duplicates.ts
 *     npx heddle run examples/data/duplicates.ts -- --small
 *
 * 10 s
 */
import { data } from "heddle";
import { mails } from "../mail.ts";

const small = process.argv.includes("--small");
const texts = mails()
  .slice(0, small ? 600 : undefined)
  .map(({ text }) => text);

// Every twentieth mail comes again with up to one word in sixty changed; every fourth of these copies is exact.
const copies = texts.flatMap((text, original) => {
  if (original % 20 !== 0) return [];
  const every = original % 80 === 0 ? Infinity : 60 + (original % 50);
  const words = text.split(" ");
  return [{ original, text: words.map((word, at) => ((at + 1) % every === 0 ? "changed" : word)).join(" ") }];
});
const rows = data.fromRows([...texts, ...copies.map(({ text }) => text)].map((text) => ({ text })));

const { records, groups } = await data.deduplicate(rows, { of: ({ text }) => text, similarity: 0.7 });

const groupOf = new Map(groups.flatMap((group, number) => group.map((row) => [row, number] as const)));
const found = copies.filter(({ original }, at) => {
  const number = groupOf.get(original);
  return number !== undefined && number === groupOf.get(texts.length + at);
});
console.log(
  `${copies.length} copies planted, ${found.length} found: recall ${(found.length / copies.length).toFixed(3)}`,
);
console.log(`${rows.length} mails, ${records.length} without duplicates, ${groups.length} groups`);
