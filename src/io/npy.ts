/**
 * @module NumPy's npy format (numpy.lib.format, versions 1 to 3): a magic, a version, the length of a header, the header
 * as a literal of a Python dict with `descr`, `fortran_order` and `shape`, then the values. The header is read by a
 * parser of just that, and its sizes are checked before anything is allocated; arrays of objects (pickles) are refused.
 */
import { type Column, columnFromRanges, fileRanges, type Transform } from "../data/index.ts";
import { type DType, dtypes, isDType, type ShortInteger, shortArrays, type TypedArray } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { formatShape, type Shape, sizeOf, stridesOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { checkBytes, checkOptions } from "../util/options.ts";
import { checkRecognised } from "../util/recognise.ts";
import { called } from "../util/source.ts";
import { bytesOfHost, checkHost, largestRank, type TensorOrHost, toHost } from "./host-tensors.ts";
import { parsePythonDict } from "./python-literal.ts";
import { openFile, readPart } from "./read.ts";
import { readWhole } from "./read-file.ts";
import { writeBytes } from "./write.ts";

/** Longest header that is accepted, in bytes; NumPy's own reader takes 10,000 by default. */
const largestHeader = 65_536;
const magic = Uint8Array.of(0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59);
/** Headers are padded so that the values are aligned to this. */
const alignment = 64;

/** NumPy's type characters and sizes; those of dtypes that this build lacks are refused by name. */
const kinds: { readonly [kind: string]: string } = {
  f2: "f16",
  f4: "f32",
  f8: "f64",
  i1: "i8",
  i4: "i32",
  i8: "i64",
  u1: "u8",
  u4: "u32",
  u8: "u64",
  b1: "bool",
};

/** Integers of 16 bits, which are read as i32. */
const shortKinds: { readonly [kind: string]: ShortInteger } = { i2: "i16", u2: "u16" };

const malformed = (file: string, problem: string): HeddleError =>
  new HeddleError("format", `${file} is not a valid npy file: ${problem}`);

interface NpyElements {
  readonly dtype: DType;
  /** The file's integer type of 16 bits, which is not a dtype of Heddle. */
  readonly short: ShortInteger | undefined;
  readonly bigEndian: boolean;
}

interface NpyHeader extends NpyElements {
  readonly fortran: boolean;
  readonly shape: Shape;
  /** The position of the first value. */
  readonly start: number;
}

/** The header's text and where it ends. */
function headerText(bytes: Uint8Array, file: string): { text: string; end: number } {
  checkRecognised(bytes, file, "npy", ["npy"]);
  if (bytes.length < 10 || magic.some((byte, index) => bytes[index] !== byte))
    throw malformed(file, "it does not begin with \\x93NUMPY");
  const major = bytes[6] as number;
  if (major < 1 || major > 3) throw malformed(file, `version ${major}.${bytes[7]} is unknown`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const first = major === 1 ? 10 : 12;
  if (bytes.length < first) throw malformed(file, "it ends in the header's length");
  const length = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (length > largestHeader) throw malformed(file, `header of ${length} bytes, the limit is ${largestHeader}`);
  const end = first + length;
  if (end > bytes.length) throw malformed(file, `header of ${length} bytes in a file of ${bytes.length}`);
  try {
    const text = new TextDecoder(major === 3 ? "utf-8" : "latin1", { fatal: true }).decode(bytes.subarray(first, end));
    return { text, end };
  } catch {
    throw malformed(file, "the header is not UTF-8");
  }
}

/** Reads and checks a header; `size` is the size of the whole file, of which `bytes` may be the start. */
function parseHeader(bytes: Uint8Array, file: string, size = bytes.length): NpyHeader {
  const { text, end } = headerText(bytes, file);
  const fields = parsePythonDict(text, (problem) => malformed(file, `header ${problem}`));
  const names = [...fields.keys()].sort().join(", ");
  if (names !== "descr, fortran_order, shape") throw malformed(file, `the header has the fields ${names || "none"}`);
  const [descr, fortran, shape] = ["descr", "fortran_order", "shape"].map((name) => fields.get(name));
  if (typeof fortran !== "boolean") throw malformed(file, "fortran_order is neither True nor False");
  if (!Array.isArray(shape) || shape.length > largestRank || !shape.every((size) => Number.isSafeInteger(size)))
    throw malformed(file, `shape is not a tuple of at most ${largestRank} sizes`);
  const sizes = shape as readonly number[];
  if (sizes.some((size) => size < 0)) throw malformed(file, `shape ${formatShape(sizes)} has a negative size`);
  const elements = parseDescr(descr, file);
  const wanted = sizes.reduce((product, size) => product * BigInt(size), BigInt(bytesOfElement(elements)));
  if (wanted !== BigInt(size - end)) {
    const found = size - end;
    throw malformed(
      file,
      `${elements.short ?? elements.dtype}${formatShape(sizes)} takes ${wanted} bytes, ${found} are there`,
    );
  }
  return { ...elements, fortran, shape: sizes, start: end };
}

const bytesOfElement = ({ dtype, short }: NpyElements): number =>
  short === undefined ? dtypes[dtype].bytes : shortArrays[short].BYTES_PER_ELEMENT;

function parseDescr(descr: unknown, file: string): NpyElements {
  const match = typeof descr === "string" ? /^([<>=|]?)([a-zA-Z])(\d{0,5})$/.exec(descr) : null;
  if (match === null) {
    throw new HeddleError("dtype", `${file} holds ${JSON.stringify(descr) ?? "nothing"}, not numbers of one dtype`, {
      hint: "records and dates have no dtype here; save each field as a separate array",
    });
  }
  const [, order, kind, size] = match as unknown as [string, string, string, string];
  const short = shortKinds[`${kind}${size}`];
  const dtype = kind === "?" ? "bool" : short === undefined ? kinds[`${kind}${size}`] : "i32";
  if (dtype === undefined || !isDType(dtype)) {
    const known = [...Object.values(kinds), ...Object.values(shortKinds)].join(", ");
    throw new HeddleError("dtype", `${file} holds NumPy's "${descr}", which is not supported`, {
      hint:
        kind === "O" ? "objects are pickles, which are never read" : `supported are ${known}; use astype() in NumPy`,
    });
  }
  return { dtype, short, bigEndian: order === ">" };
}

/** Reverses the bytes of each element, in place. */
function swapBytes(bytes: Uint8Array, size: number): void {
  for (let start = 0; start < bytes.length; start += size) bytes.subarray(start, start + size).reverse();
}

/** Values in column-major order, put into row-major order. */
function rowMajor(data: TypedArray, dtype: DType, shape: Shape): TypedArray {
  const out = dtypes[dtype].create(data.length);
  const strides = stridesOf(shape);
  const indices = shape.map(() => 0);
  let offset = 0;
  for (let index = 0; index < data.length; index++) {
    out[offset] = data[index] as number;
    for (let dim = 0; dim < shape.length; dim++) {
      offset += strides[dim] as number;
      if (++(indices[dim] as number) < (shape[dim] as number)) break;
      offset -= (indices[dim] as number) * (strides[dim] as number);
      indices[dim] = 0;
    }
  }
  return out;
}

/**
 * Reads an npy file that is in memory: versions 1 to 3, rows or columns first, either byte order. The values are a
 * copy, row-major; integers of 16 bits are read as i32. `file` is the name in error messages.
 *
 * @throws HeddleError `format` when it is malformed or cut; `dtype` for what no dtype holds: objects, records, texts.
 */
export function decodeNpy(bytes: Uint8Array, file = "npy data"): HostTensor {
  checkBytes("decodeNpy", bytes);
  const header = parseHeader(bytes, file);
  const { dtype, short, bigEndian, fortran, shape, start } = header;
  // Not `slice`, which is a view when the bytes are a Buffer.
  const values = new Uint8Array(bytes.subarray(start));
  const size = bytesOfElement(header);
  if (bigEndian && size > 1) swapBytes(values, size);
  const data =
    short === undefined
      ? dtypes[dtype].view(values.buffer, 0, values.length / size)
      : Int32Array.from(new shortArrays[short](values.buffer));
  if (dtype === "bool" && values.some((value) => value > 1))
    throw malformed(file, "it is of bool, but holds bytes other than 0 and 1");
  return { dtype, shape, data: fortran && shape.length > 1 ? rowMajor(data, dtype, shape) : data };
}

/**
 * An npy file of a tensor: little-endian, row-major, version 1, as `numpy.save` writes it.
 *
 * @throws HeddleError `dtype` for bf16, which NumPy lacks; `shape` when values do not fill the shape.
 */
export function encodeNpy(array: HostTensor): Uint8Array {
  checkHost("encodeNpy", array);
  const { dtype, shape, data } = array;
  const kind = Object.keys(kinds).find((name) => kinds[name] === dtype);
  if (kind === undefined) {
    throw new HeddleError("dtype", `npy: NumPy has no ${dtype}`, {
      hint: "cast to f32, which holds all of its values",
    });
  }
  if (data.length !== sizeOf(shape))
    throw new HeddleError("shape", `npy: ${data.length} values do not fill ${formatShape(shape)}`);
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const order = dtypes[dtype].bytes === 1 ? "|" : "<";
  const text = `{'descr': '${order}${kind}', 'fortran_order': False, 'shape': (${sizes}), }`;
  // Shapes are bounded by their rank, so version 1 with its 16-bit length always does.
  const start = Math.ceil((10 + text.length + 1) / alignment) * alignment;
  const values = bytesOfHost({ dtype, shape, data });
  const bytes = new Uint8Array(start + values.length);
  bytes.set(magic);
  bytes[6] = 1;
  new DataView(bytes.buffer).setUint16(8, start - 10, true);
  bytes.set(new TextEncoder().encode(`${text.padEnd(start - 11)}\n`), 10);
  bytes.set(values, start);
  return bytes;
}

/** Options of {@link readNpy}. */
export interface ReadNpyOptions {
  /** Ends the reading by throwing the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Reads an npy file. @throws as {@link decodeNpy}; `file` when it cannot be read. */
export function readNpy(path: string, options: ReadNpyOptions = {}): Promise<HostTensor> {
  return called(async () => {
    checkOptions("readNpy", options, ["signal"]);
    return decodeNpy(await readWhole("readNpy", path, options), path);
  });
}

/** Options of {@link npyColumn}. */
export interface NpyColumnOptions {
  /** What the model sees of the values; default the values. */
  readonly transform?: Transform;
}

/**
 * A column of a dataset whose values stay in an npy file: the rows of a batch are read alone, so the file may be larger than memory. The
 * header is read now.
 *
 * @example const dataset = data.fromColumns("numbers", [await io.npyColumn("x", "x.npy"), await io.npyColumn("y", "y.npy")]);
 * @throws as {@link readNpy}; `format` for values in the order of columns, whose rows do not lie together
 */
export function npyColumn(name: string, path: string, options: NpyColumnOptions = {}): Promise<Column> {
  return called(async () => {
    checkOptions("npyColumn", options, ["transform"]);
    const file = await openFile("npyColumn", path);
    try {
      const { size } = await file.stat();
      const bytes = await readPart(file, 0, Math.min(size, largestHeader + 12));
      const { fortran, shape, start, dtype, short, bigEndian } = parseHeader(bytes, path, size);
      if (shape.length === 0)
        throw new HeddleError("shape", `npyColumn: ${path} is a scalar; the first dim counts rows`);
      if (fortran && shape.length > 1)
        throw new HeddleError("format", `npyColumn: ${path} has its values column by column`, {
          hint: "save numpy.ascontiguousarray(x), or read it whole with readNpy",
        });
      const values = { shape, dtype, start, short, bigEndian };
      const { transform } = options;
      return columnFromRanges({ name, shape, dtype, transform }, fileRanges("npyColumn", path, values));
    } finally {
      await file.close();
    }
  });
}

/** Writes an npy file, which appears whole or not at all. @throws as {@link encodeNpy}; `disk` when it does not fit. */
export function writeNpy(path: string, tensor: TensorOrHost): Promise<void> {
  return called(async () => {
    const bytes = encodeNpy(await toHost(tensor));
    await writeBytes("writeNpy", path, bytes);
  });
}
