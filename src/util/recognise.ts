/**
 * @module Recognises files that are not what their names say: error pages, pointers and archives are often saved under the names of
 * models. The first bytes tell them apart; none of them begins like a file that Heddle reads.
 */
import { HeddleError } from "./errors.ts";

/** Number of a file's first bytes that `recognise` needs. */
export const recognisedBytes = 512;

/** Tests the first bytes, which are also passed as text with one character per byte. */
type Test = (bytes: Uint8Array, text: string) => boolean;

interface Kind {
  /** Description, as in "it is a zip archive". */
  readonly is: string;
  /** What the user can do to get the right file. */
  readonly hint?: string;
  readonly test: Test;
}

/** The bytes of `magic` at a position. */
const magicAt =
  (magic: string, offset = 0): Test =>
  (_bytes, text) =>
    text.startsWith(magic, offset);

const anyOf =
  (...tests: readonly Test[]): Test =>
  (bytes, text) =>
    tests.some((test) => test(bytes, text));

const matches =
  (pattern: RegExp): Test =>
  (_bytes, text) =>
    pattern.test(text);

/** The length of a header below 4 GiB, then a JSON object. */
const safetensors: Test = (bytes, text) =>
  text.startsWith("\0\0\0\0{", 4) && bytes.some((byte, index) => index < 4 && byte);

/** A message of protobuf: the version of the format (field 1, below 32), then the tag of field 2 to 8 of the model. */
const onnx: Test = ([field, version = 0, tag = 0]) =>
  field === 0x08 && version > 0 && version < 32 && [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42].includes(tag);

const webPage =
  "the server answered with a page instead of the file: download it again, with an address of the file itself";
const unpack = "unpack it first";
const incomplete = "download it again: it was not written whole";
const saveSafely = "save its tensors with safetensors.torch.save_file, or the model with torch.onnx.export";
const pickled = `loadVariables reads what torch.save writes since PyTorch 1.6, a zip; of another pickle: ${saveSafely}`;
const zipped = "readNpz reads one of arrays, loadVariables the weights in one that torch.save wrote";

const kinds = {
  // First, since its length may begin like a pickle or a gzip file.
  safetensors: { is: "a safetensors file", hint: "read it with readSafetensors", test: safetensors },
  empty: { is: "empty", hint: incomplete, test: ({ length }) => length === 0 },
  gitLfs: {
    is: "a pointer of Git LFS, not the file that it stands for",
    hint: "get the file with `git lfs pull`, or download it",
    test: magicAt("version https://git-lfs.github.com/spec/"),
  },
  html: {
    is: "a web page (HTML)",
    hint: webPage,
    test: matches(/^(\xef\xbb\xbf)?\s*(<!--.*?-->\s*)?<(!doctype\s+html|html)\b/is),
  },
  xml: { is: "XML", hint: webPage, test: matches(/^(\xef\xbb\xbf)?\s*<\?xml\b/i) },
  json: { is: "JSON", hint: webPage, test: matches(/^(\xef\xbb\xbf)?\s*(\{\s*("|\})|\[\s*["{[])/) },
  zip: { is: "a zip archive", hint: zipped, test: anyOf(magicAt("PK\x03\x04"), magicAt("PK\x05\x06")) },
  gzip: { is: "compressed by gzip", hint: "unpack it with gunzip", test: magicAt("\x1f\x8b") },
  zstandard: { is: "compressed by Zstandard", hint: unpack, test: magicAt("\x28\xb5\x2f\xfd") },
  xz: { is: "compressed by xz", hint: unpack, test: magicAt("\xfd7zXZ\0") },
  bzip2: { is: "compressed by bzip2", hint: unpack, test: matches(/^BZh[1-9]1AY&SY/) },
  sevenZip: { is: "a 7z archive", hint: unpack, test: magicAt("7z\xbc\xaf\x27\x1c") },
  tar: { is: "a tar archive", hint: unpack, test: magicAt("ustar", 257) },
  pickle: {
    is: "a pickle of Python",
    hint: pickled,
    test: ([mark, protocol = 0]) => mark === 0x80 && protocol >= 2 && protocol <= 5,
  },
  npy: { is: "an npy array", hint: "read it with readNpy", test: magicAt("\x93NUMPY") },
  hdf5: { is: "an HDF5 file", hint: "convert it with the tool that wrote it", test: magicAt("\x89HDF\r\n\x1a\n") },
  gguf: { is: "a GGUF file", test: magicAt("GGUF") },
  tensorFlowLite: { is: "a TensorFlow Lite model", test: magicAt("TFL3", 4) },
  onnx: { is: "an ONNX model", hint: "read it with io.loadOnnx", test: onnx },
  pdf: { is: "a PDF document", test: magicAt("%PDF-") },
  png: { is: "a PNG image", test: magicAt("\x89PNG\r\n\x1a\n") },
  jpeg: { is: "a JPEG image", test: magicAt("\xff\xd8\xff") },
  zeros: { is: "nothing but zeros", hint: incomplete, test: (b) => b.length >= 16 && b.every((byte) => byte === 0) },
} satisfies { readonly [name: string]: Kind };

/** The recognised kinds. */
export type FileKind = keyof typeof kinds;

/** The kind of a file by its first {@link recognisedBytes} bytes (or all of them); undefined for an unknown kind. */
export function recognise(bytes: Uint8Array): FileKind | undefined {
  const start = bytes.subarray(0, recognisedBytes);
  const text = String.fromCharCode(...start);
  return Object.entries<Kind>(kinds).find(([, { test }]) => test(start, text))?.[0] as FileKind | undefined;
}

/**
 * Refuses a file that is recognised as something else. Readers call it with the first bytes, before they parse.
 *
 * @param format the expected format, as in "is not a valid ONNX file"
 * @param own kinds of files that this format has
 * @throws HeddleError `format` with the file and its kind.
 */
export function checkRecognised(bytes: Uint8Array, file: string, format: string, own: readonly FileKind[] = []): void {
  const kind = recognise(bytes);
  if (kind === undefined || own.includes(kind)) return;
  const { is, hint }: Kind = kinds[kind];
  const options = hint === undefined ? {} : { hint };
  throw new HeddleError("format", `${file} is not a valid ${format} file: it is ${is}`, options);
}
