/** @module Tokenizers by the files of Hugging Face's libraries: `@huggingface/tokenizers` reads them, this module cuts, pads and masks. */
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { isRecord } from "../../util/tree.ts";
import { type ArrayColumn, padded } from "../column.ts";
import { filesOf, openBytes, packageNamed } from "../sources/bytes.ts";

/** Tokens of a text, and of a second one where they are not joined. */
interface Joined {
  readonly tokens: readonly string[];
  readonly tokens_pair?: readonly string[] | null;
}

/** What is used of a tokenizer of `@huggingface/tokenizers`. */
interface HuggingFace {
  readonly model: { readonly unk_token_id?: number } | null;
  readonly post_processor: ((tokens: string[], pair: string[] | null, special: boolean) => Joined) | null;
  tokenize(text: string, options: { readonly add_special_tokens: boolean }): string[];
  decode(
    ids: number[],
    options: { readonly skip_special_tokens: boolean; readonly clean_up_tokenization_spaces: boolean },
  ): string;
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
  get_vocab(): ReadonlyMap<string, number>;
}

/** How texts are divided before the model. */
interface PreTokenizer {
  readonly type?: string;
  readonly pretokenizers?: readonly PreTokenizer[];
}

/** What is read of `tokenizer.json` besides what the library reads. */
interface TokenizerFile {
  readonly model?: { readonly type?: string; readonly unk_token?: string | null; readonly vocab?: object } | null;
  readonly pre_tokenizer?: PreTokenizer | null;
  readonly truncation?: {
    readonly max_length?: number;
    readonly direction?: string;
    readonly strategy?: string;
  } | null;
  readonly padding?: { readonly pad_id?: number } | null;
}

/** What is read of `tokenizer_config.json` besides what the library reads. */
interface TokenizerConfig {
  readonly clean_up_tokenization_spaces?: boolean;
  readonly pad_token?: string | { readonly content: string } | null;
}

/** Options of {@link openTokenizer}. */
export interface TokenizerOptions {
  /** The place of the `tokenizer_config.json` that some models have beside their tokenizer; default none. */
  readonly config?: string | URL;
}

/** Options of {@link Tokenizer.encode}. */
export interface EncodeOptions {
  /** A second text, such as the context of a question; default none. */
  readonly pair?: string;
  /** Whether the special tokens of the file, such as `[CLS]` and `[SEP]`, are added; default true. */
  readonly special?: boolean;
  /**
   * Tokens at most, special ones among them: of longer texts the rest is cut off, of two texts that of the longer first, or of the one that the file
   * names (`OnlyFirst`, `OnlySecond`). Default: as the file says, or all.
   */
  readonly length?: number;
}

/** Options of {@link Tokenizer.padded}. */
export interface PaddedTextOptions extends Omit<EncodeOptions, "pair"> {
  /** The token that stands after a text; default the tokenizer's, {@link Tokenizer.pad}. */
  readonly pad?: number;
}

/** Padded texts as columns, with their lengths, by which `Dataset.batchByLength` cuts both. */
export interface PaddedTexts {
  /** The tokens, i32 `[texts, longest]`. */
  readonly ids: ArrayColumn;
  /** Which of them are of the text: bool `[texts, longest]`. */
  readonly mask: ArrayColumn;
}

/** Bytes of a file, at most: the largest vocabularies take 40 MB. */
const largestFile = 2 ** 28;
/** Ids are i32. */
const largestId = 2 ** 31 - 2;
/** Of others the library says nothing, and takes each for a list of words. */
const models: readonly string[] = ["BPE", "WordPiece", "Unigram", "WordLevel"];
/** What is cut: the longer of two texts, the first, or the second. */
const strategies: readonly string[] = ["LongestFirst", "OnlyFirst", "OnlySecond"];
/** Tokens that libraries pad by, where neither file names one. */
const paddings = ["[PAD]", "<pad>", "<|pad|>"];

/** A tokenizer of a file, made by {@link openTokenizer}. Methods may be called from several places at once. */
export class Tokenizer {
  /** Number of ids: all tokens are below. An `nn.embedding` of them has so many rows. */
  readonly size: number = 0;
  /** The token that pads texts; undefined where the files name none. */
  readonly pad: number | undefined;
  private readonly own: HuggingFace;
  private readonly most: number | undefined;
  private readonly fromLeft: boolean;
  /** Which text alone is cut: 0 or 1; -1 for the longer. */
  private readonly only: number;
  private readonly cleansUp: boolean;
  /** Special tokens of one text, and of a pair. */
  private readonly added: readonly [one: number, pair: number];

  /** @internal */
  constructor(own: HuggingFace, { model, truncation, padding }: TokenizerFile, config: TokenizerConfig) {
    const { pad_token, clean_up_tokenization_spaces: cleansUp = false } = config;
    this.own = own;
    this.cleansUp = cleansUp;
    for (const id of own.get_vocab().values()) this.size = Math.max(this.size, id + 1);
    const { vocab } = model ?? {};
    // Of a list the places are the ids.
    for (const [token, id] of Array.isArray(vocab) ? [] : Object.entries(vocab ?? {})) {
      if (Number.isInteger(id) && (id as number) >= 0 && (id as number) <= largestId) continue;
      const what = `the id of ${shown(token)} is ${shown(id)}, not a whole number from 0 to ${largestId}`;
      throw new HeddleError("format", `openTokenizer: ${what}`);
    }
    this.most = truncation?.max_length;
    this.fromLeft = truncation?.direction === "Left";
    this.only = strategies.indexOf(truncation?.strategy ?? "LongestFirst") - 1;
    if (this.only < -1)
      throw new HeddleError(
        "format",
        `openTokenizer: cuts by ${strategies.join(", ")}, not ${shown(truncation?.strategy)}`,
      );
    const named = typeof pad_token === "string" ? pad_token : pad_token?.content;
    const names = named === undefined ? paddings : [named];
    // The id of no token is beyond the rows of an embedding.
    const ids = [padding?.pad_id, ...names.map((name) => own.token_to_id(name))];
    this.pad = ids.find((id) => id !== undefined && own.id_to_token(id) !== undefined);
    this.added = [this.joined([], null, true).length, this.joined([], [], true).length];
  }

  /** The id of a token, such as `"[MASK]"`; undefined for none of the vocabulary. */
  idOf(token: string): number | undefined {
    return this.own.token_to_id(token);
  }

  /** The token of an id; undefined for none of the vocabulary. */
  tokenOf(id: number): string | undefined {
    return this.own.id_to_token(id);
  }

  /**
   * The tokens of a text as ids, with the special tokens of the file: those of Hugging Face's libraries, cut off as they do. What the vocabulary
   * lacks is its unknown token, or left out where it has none.
   *
   * @example rows.map(({ text, y }) => ({ x: tokenizer.encode(text, { length: 128 }), y }))
   * @throws HeddleError `option` when the special tokens alone are more than `length`, or the text that alone is cut has too few tokens
   */
  encode(text: string, options: EncodeOptions = {}): Int32Array<ArrayBuffer> {
    checkOptions("encode", options, ["pair", "special", "length"]);
    const { pair, special = true, length = this.most ?? Number.POSITIVE_INFINITY } = options;
    if (typeof text !== "string") throw new HeddleError("argument", `encode: takes a text, got ${shown(text)}`);
    if (pair !== undefined && typeof pair !== "string")
      throw new HeddleError("option", `encode: pair must be a text, got ${shown(pair)}`);
    if (length !== Number.POSITIVE_INFINITY) checkInteger("encode", "length", length, 0);
    const lists = [text, ...(pair === undefined ? [] : [pair])].map((one) =>
      this.own.tokenize(one, { add_special_tokens: false }),
    );
    const room = length - (special ? (this.added[lists.length - 1] as number) : 0);
    if (room < 0)
      throw new HeddleError("option", `encode: length is ${length}, and there are ${length - room} special tokens`, {
        hint: "pass special: false, or a larger length",
      });
    const [first, second] = this.cut(lists, room);
    const tokens = this.joined(first as string[], second ?? null, special);
    const unknown = this.own.model?.unk_token_id;
    return Int32Array.from(tokens.flatMap((token) => this.own.token_to_id(token) ?? unknown ?? []));
  }

  /** The text of tokens; without `special` (default false) special tokens are left out. @throws HeddleError `data` for an id beyond the vocabulary */
  decode(ids: ArrayLike<number>, options: { readonly special?: boolean } = {}): string {
    checkOptions("decode", options, ["special"]);
    const list = Array.from(ids);
    const wrong = list.find((id) => this.tokenOf(id) === undefined);
    if (wrong !== undefined)
      throw new HeddleError("data", `decode: ${wrong} is not the id of a token; ids are below ${this.size}`);
    if (list.length === 0) return "";
    return this.own.decode(list, {
      skip_special_tokens: options.special !== true,
      clean_up_tokenization_spaces: this.cleansUp,
    });
  }

  /**
   * Texts as columns for `data.fromArrays`: padded at their ends to the longest, with a mask of what is text.
   *
   * @example const { ids, mask } = tokenizer.padded(texts, { length: 128 })
   * @throws HeddleError `option` without `pad`, if the tokenizer has none
   */
  padded(texts: readonly string[], options: PaddedTextOptions = {}): PaddedTexts {
    checkOptions("padded", options, ["special", "length", "pad"]);
    const { pad = this.pad, ...encoding } = options;
    if (!Array.isArray(texts)) throw new HeddleError("argument", `padded: takes a list of texts, got ${shown(texts)}`);
    if (pad === undefined)
      throw new HeddleError("option", "padded: the tokenizer names no token that pads texts", {
        hint: 'pass pad: an id, such as tokenizer.idOf("<|endoftext|>"); the mask tells padding from text',
      });
    checkInteger("padded", "pad", pad, 0);
    const ids = padded(
      texts.map((text) => this.encode(text, encoding)),
      { pad },
    );
    const [count, longest] = ids.shape as readonly [number, number];
    const mask = new Uint8Array(count * longest);
    const lengths = ids.lengths as ArrayLike<number>;
    for (let row = 0; row < count; row++) mask.fill(1, row * longest, row * longest + (lengths[row] as number));
    return { ids, mask: { shape: ids.shape, dtype: "bool", data: mask, lengths } };
  }

  /** One or two lists, cut to so many tokens together. */
  private cut(lists: readonly string[][], room: number): string[][] {
    const lengths = lists.map(({ length }) => length);
    const excess = lengths.reduce((sum, length) => sum + length, -room);
    if (excess <= 0) return [...lists];
    const kept = this.only < 0 || room === 0 ? longestFirst(lengths, room) : cutOne(lengths, this.only, excess);
    return lists.map((list, at) => {
      const keep = kept[at] as number;
      return this.fromLeft ? list.slice(list.length - keep) : list.slice(0, keep);
    });
  }

  /** The tokens of a text, or of two, with special tokens. */
  private joined(tokens: string[], pair: string[] | null, special: boolean): readonly string[] {
    const { post_processor } = this.own;
    const joined: Joined = post_processor?.(tokens, pair, special) ?? { tokens, tokens_pair: pair };
    return [...joined.tokens, ...(joined.tokens_pair ?? [])];
  }
}

/** How many are kept of lists by Hugging Face's `longest_first`: the longer is cut first, then both, the second of equal ones by one less. */
function longestFirst([first = 0, second]: readonly number[], room: number): readonly number[] {
  if (second === undefined) return [room];
  const least = Math.min(first, second, Math.floor(room / 2));
  return first > second ? [room - least, least] : [least, room - least];
}

/** How many are kept where one list alone is cut, of which at least one token stays. */
function cutOne(lengths: readonly number[], only: number, excess: number): readonly number[] {
  const own = lengths[only] ?? 0;
  if (own > excess) return lengths.map((length, at) => (at === only ? length - excess : length));
  throw new HeddleError(
    "option",
    `encode: the file cuts text ${only + 1} alone, which has ${own} tokens; ${excess} are too many`,
    {
      hint: "pass a larger length, or shorter texts",
    },
  );
}

/**
 * Reads a tokenizer from its `tokenizer.json`, here, behind HTTP(S) or S3: BPE, WordPiece, Unigram and others of Hugging Face's files. Needs the package
 * `@huggingface/tokenizers`.
 *
 * @example const tokenizer = await data.openTokenizer("model/tokenizer.json");
 * @throws HeddleError `file` when a file cannot be read, `format` when it is no tokenizer, or of a kind that the package does not know
 */
export async function openTokenizer(place: string | URL, options: TokenizerOptions = {}): Promise<Tokenizer> {
  checkOptions("openTokenizer", options, ["config"]);
  const path = pathOf(place);
  const { Tokenizer: Read } = packageNamed<{ Tokenizer: new (file: object, config: object) => HuggingFace }>(
    "@huggingface/tokenizers",
    `read ${path}`,
  );
  const file = await objectIn(path);
  const config = options.config === undefined ? {} : await objectIn(pathOf(options.config));
  const { type, unk_token } = file.model ?? {};
  if (type !== undefined && !models.includes(type))
    throw new HeddleError("format", `${path} has a model of the kind ${shown(type)}; known are ${models.join(", ")}`);
  try {
    // The library finds the unknown token of a list of words in the config alone.
    const own = new Read(complete(file), unk_token == null ? config : { unk_token, ...config });
    return new Tokenizer(own, file, config);
  } catch (cause) {
    if (cause instanceof HeddleError) throw cause;
    throw new HeddleError("format", `${path} is not a tokenizer: ${(cause as Error).message}`, { cause });
  }
}

const pathOf = (place: string | URL): string => {
  const [path, ...others] = filesOf("openTokenizer", place);
  if (path !== undefined && others.length === 0) return path;
  throw new HeddleError("argument", `openTokenizer: takes the path of one tokenizer.json, got ${shown(place)}`);
};

/** The library wants fields that older files lack. */
const complete = (file: TokenizerFile): object => ({
  ...{ normalizer: null, post_processor: null, decoder: null, added_tokens: [] },
  ...file,
  pre_tokenizer: unicode(file.pre_tokenizer ?? null),
});

/** The library's own kind `Whitespace` takes letters beyond ASCII for no letters; its patterns do not. */
function unicode(one: PreTokenizer | null): object | null {
  if (one?.type === "Sequence") return { ...one, pretokenizers: one.pretokenizers?.map(unicode) };
  if (one?.type !== "Whitespace") return one;
  return { type: "Split", pattern: { Regex: "\\w+|[^\\w\\s]+" }, behavior: "Removed", invert: true };
}

async function objectIn(path: string): Promise<TokenizerFile & TokenizerConfig> {
  const file = await openBytes(path);
  if (file.size > largestFile)
    throw new HeddleError("format", `${path} is not a tokenizer: it has ${file.size} bytes, more than ${largestFile}`);
  const text = new TextDecoder().decode(await file.read(0, file.size));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new HeddleError("format", `${path} is not JSON: ${(cause as Error).message}`, { cause });
  }
  if (!isRecord(value)) throw new HeddleError("format", `${path} is not a tokenizer: it is ${shown(value)}`);
  return value;
}
