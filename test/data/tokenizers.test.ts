/** Tokenizers of files beside Hugging Face's library in Python, padding and masks, and files that are none. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { data } from "heddle";
import { afterAll, describe, expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";

interface Case {
  readonly name: string;
  readonly file: { readonly model: object; readonly truncation: object | null };
  readonly size: number;
  readonly pad: number | null;
  readonly texts: readonly {
    readonly text: string;
    readonly ids: readonly number[];
    readonly plain: readonly number[];
    readonly decoded: string;
  }[];
  readonly pairs: readonly {
    readonly first: string;
    readonly second: string;
    readonly ids: readonly number[];
    readonly cut: { readonly [length: string]: readonly number[] };
    /** Those of the first text twice. */
    readonly equal: { readonly [length: string]: readonly number[] };
    /** Those of a file that has one text cut alone; null where it is too short. */
    readonly one: { readonly [strategy: string]: { readonly [length: string]: readonly number[] | null } };
  }[];
  readonly cut: { readonly [length: string]: readonly number[] };
}

const cases = fixture<Case>("text-tokenizers");
const folder = mkdtempSync(join(tmpdir(), "heddle-tokenizers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function written(content: unknown): string {
  const path = join(folder, `${files++}.json`);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}
const opened = (name: string): Promise<data.Tokenizer> =>
  data.openTokenizer(written(cases.find((one) => one.name === name)?.file));

describe.each(cases)("$name", ({ file, size, pad, texts, pairs, cut }) => {
  test("has the ids of Hugging Face's library", async () => {
    const tokenizer = await data.openTokenizer(written(file));
    expect([tokenizer.size, tokenizer.pad ?? null]).toEqual([size, pad]);
    for (const { text, ids, plain } of texts) {
      expect([...tokenizer.encode(text)]).toEqual(ids);
      expect([...tokenizer.encode(text, { special: false })]).toEqual(plain);
    }
    for (const { first, second, ids, cut, equal } of pairs) {
      expect([...tokenizer.encode(first, { pair: second })]).toEqual(ids);
      for (const [length, kept] of Object.entries(cut))
        expect([...tokenizer.encode(first, { pair: second, length: Number(length) })]).toEqual(kept);
      for (const [length, kept] of Object.entries(equal))
        expect([...tokenizer.encode(first, { pair: first, length: Number(length) })]).toEqual(kept);
    }
    for (const [length, kept] of Object.entries(cut))
      expect([...tokenizer.encode((texts[0] as (typeof texts)[0]).text, { length: Number(length) })]).toEqual(kept);
  });

  test("cuts the text alone that the file names", async () => {
    for (const { first, second, one } of pairs)
      for (const [strategy, kept] of Object.entries(one))
        for (const [length, ids] of Object.entries(kept)) {
          const truncation = { ...file.truncation, strategy, max_length: Number(length) };
          const tokenizer = await data.openTokenizer(written({ ...file, truncation }));
          const encode = () => [...tokenizer.encode(first, { pair: second })];
          if (ids === null) expect(encode).toThrow(/the file cuts text [12] alone, which has \d+ tokens/);
          else expect(encode()).toEqual(ids);
        }
  });

  test("gives its text", async () => {
    const tokenizer = await data.openTokenizer(pathToFileURL(written(file)));
    for (const { ids, decoded } of texts) expect(tokenizer.decode(ids)).toBe(decoded);
    for (const id of [0, size - 1]) expect(tokenizer.idOf(tokenizer.tokenOf(id) as string)).toBe(id);
    expect([tokenizer.idOf("no such token"), tokenizer.tokenOf(size)]).toEqual([undefined, undefined]);
    expect(() => tokenizer.decode([size])).toThrow(/is not the id of a token; ids are below/);
  });
});

test("padded texts have masks, and batches by length cut both", async () => {
  const tokenizer = await opened("bert");
  const texts = ["wool", "The weaver lifts the threads.", "a loom", "silk and linen, wool and wood"];
  const lengths = texts.map((text) => tokenizer.encode(text).length);
  const { ids, mask } = tokenizer.padded(texts);
  expect(ids.shape).toEqual([4, Math.max(...lengths)]);
  const y = { shape: [4], data: Int32Array.of(0, 1, 2, 3) };
  const bounds = [5, Math.max(...lengths)];
  const seen: number[] = [];
  for await (const batch of data.batches<"ids" | "mask" | "y">(
    data.fromArrays({ ids, mask, y }).batchByLength(2, { bounds }),
  )) {
    const [rows = 0, width = 0] = batch.ids.shape;
    expect(batch.mask.shape).toEqual([rows, width]);
    expect(batch.mask.dtype).toBe("bool");
    const [tokens, present, own] = [await batch.ids.data(), await batch.mask.data(), await batch.y.data()];
    for (let row = 0; row < rows; row++) {
      const text = Number(own[row]);
      seen.push(text);
      const kept = [...tokens.subarray(row * width, (row + 1) * width)].map(Number);
      const length = lengths[text] as number;
      expect(kept.slice(0, length)).toEqual([...tokenizer.encode(texts[text] as string)]);
      expect(kept.slice(length).every((id) => id === tokenizer.pad)).toBe(true);
      expect([...present.subarray(row * width, (row + 1) * width)].map(Number)).toEqual(
        kept.map((_id, at) => (at < length ? 1 : 0)),
      );
    }
  }
  expect(seen.sort()).toEqual([0, 1, 2, 3]);
});

test("a text may hold the token that pads", async () => {
  const tokenizer = await opened("byte_level");
  const end = tokenizer.idOf("<|endoftext|>") as number;
  expect(() => tokenizer.padded(["a"])).toThrow(/names no token that pads/);
  const { ids, mask } = tokenizer.padded(["wool<|endoftext|>", "The weaver's threads"], { pad: end, length: 6 });
  const width = ids.shape[1] as number;
  const length = tokenizer.encode("wool<|endoftext|>").length;
  expect([...(mask.data as Uint8Array)].slice(0, width)).toEqual(
    Array.from({ length: width }, (_mask, at) => (at < length ? 1 : 0)),
  );
  expect([...(ids.data as readonly number[])].slice(length - 1, width)).toEqual(
    new Array(width - length + 1).fill(end),
  );
});

test("tokens of records go to padded batches", async () => {
  const tokenizer = await opened("bert");
  const rows = data.fromRows(["wool", "a loom weaves", "silk"].map((text, y) => ({ text, y })));
  const tokens = rows.map(({ text, y }) => ({ x: tokenizer.encode(text), y }));
  for await (const { x, y } of tokens.batch(3, { pad: tokenizer.pad as number, dtypes: { y: "i32" } })) {
    expect([x.dtype, x.shape[0], y.dtype]).toEqual(["i32", 3, "i32"]);
  }
});

test("a config names the token that pads", async () => {
  const path = written(cases.find(({ name }) => name === "byte_level")?.file);
  for (const pad_token of ["<|endoftext|>", { content: "<|endoftext|>" }]) {
    const tokenizer = await data.openTokenizer(path, { config: written({ pad_token }) });
    expect(tokenizer.pad).toBe(tokenizer.idOf("<|endoftext|>"));
  }
});

const bert = cases.find(({ name }) => name === "bert")?.file as Case["file"];
test.each<[string, () => string, RegExp]>([
  ["no file", () => join(folder, "none.json"), /cannot read .*none\.json: no such file/],
  ["a folder", () => folder, /it is a folder/],
  ["a cut file", () => written(JSON.stringify(bert).slice(0, 1000)), /is not JSON/],
  ["a list", () => written([]), /is not a tokenizer: it is/],
  ["another object", () => written({ name: "x" }), /is not a tokenizer: .*model/],
  [
    "another kind of model",
    () => written({ ...bert, model: { type: "Octets", vocab: {} } }),
    /the kind "Octets"; known are BPE/,
  ],
  ["another kind of normaliser", () => written({ ...bert, normalizer: { type: "Rot13" } }), /is not a tokenizer/],
  [
    "another way of cutting",
    () => written({ ...bert, truncation: { max_length: 5, strategy: "Shortest" } }),
    /cuts by LongestFirst, OnlyFirst, OnlySecond, not "Shortest"/,
  ],
  ...[-1, 2.5, 2 ** 40].map((id): [string, () => string, RegExp] => [
    `the id ${id}`,
    () =>
      written({ ...bert, model: { ...bert.model, vocab: { ...(bert.model as { vocab: object }).vocab, wool: id } } }),
    /the id of "wool" is .*, not a whole number from 0 to/,
  ]),
  ["a model without a vocabulary", () => written({ ...bert, model: { type: "WordPiece" } }), /is not a tokenizer/],
])("refuses %s", async (_name, path, says) => {
  await expect(data.openTokenizer(path())).rejects.toThrow(says);
});

test("refuses what is no text, and lengths without room", async () => {
  const tokenizer = await opened("bert");
  expect(() => tokenizer.encode(3 as never)).toThrow(/takes a text, got 3/);
  expect(() => tokenizer.encode("a", { pair: 3 as never })).toThrow(/pair must be a text/);
  expect(() => tokenizer.encode("a", { length: 1 })).toThrow(/there are 2 special tokens/);
  const truncation = { strategy: "OnlySecond", max_length: 3 };
  const second = await data.openTokenizer(written({ ...bert, truncation }));
  expect(() => second.encode("a loom weaves")).toThrow(/cuts text 2 alone, which has 0 tokens/);
  expect([...second.encode("a loom weaves", { length: 2 })]).toEqual([...tokenizer.encode("")]);
  expect(() => tokenizer.encode("a", { length: 1.5 })).toThrow(/length/);
  expect(() => tokenizer.encode("a", { lenght: 5 } as never)).toThrow(/lenght/);
  expect(() => tokenizer.padded("a" as never)).toThrow(/takes a list of texts/);
  await expect(data.openTokenizer("" as never)).rejects.toThrow(/takes the path/);
  await expect(data.openTokenizer(["a", "b"] as never)).rejects.toThrow(/path of one/);
});
