/**
 * @module Files of `torch.save` that hold a state dict: a zip of a pickle, which names tensors by storage, place and
 * strides, and of the storages' bytes. Nothing in the file is executed (`pickle.ts`).
 */
import { type DType, dtypes, type ShortInteger, shortArrays, type TypedArray } from "../ir/dtype.ts";
import type { HostTensor } from "../ir/node.ts";
import { type Shape, sizeOf } from "../ir/shape.ts";
import { HeddleError } from "../util/errors.ts";
import { largestRank } from "./host-tensors.ts";
import { Call, Global, type Pickled, parsePickle } from "./pickle.ts";
import { type ByteSource, readDirectory, readEntry, type ZipEntry } from "./zip.ts";

/** A tensor of a file. */
interface Stored {
  readonly storage: string;
  /** The file's name of the dtype, such as `FloatStorage`. */
  readonly format: string;
  /** Elements of the storage. */
  readonly count: number;
  readonly offset: number;
  readonly shape: Shape;
  readonly strides: Shape;
}

const formats: { readonly [format: string]: DType | ShortInteger } = {
  FloatStorage: "f32",
  DoubleStorage: "f64",
  HalfStorage: "f16",
  BFloat16Storage: "bf16",
  LongStorage: "i64",
  IntStorage: "i32",
  ShortStorage: "i16",
  CharStorage: "i8",
  ByteStorage: "u8",
  BoolStorage: "bool",
};

const isShort = (dtype: string | undefined): dtype is ShortInteger => dtype === "i16" || dtype === "u16";

/** The dtype of a format: i32 for integers of 16 bits; undefined where Heddle has none. */
const dtypeOf = (format: string): DType | undefined => {
  const dtype = formats[format];
  return isShort(dtype) ? "i32" : dtype;
};

/** The tensors of a state dict. */
export interface TorchFile {
  readonly entries: ReadonlyMap<
    string,
    { readonly dtype: DType | undefined; readonly shape: Shape; readonly format: string }
  >;
  read(name: string): Promise<HostTensor>;
}

const mostPickle = 256 * 2 ** 20;
const saveStates =
  "in Python: torch.save(model.state_dict(), path), or safetensors.torch.save_file(model.state_dict(), path)";

/** The pickle of an archive that `torch.save` wrote; undefined for other archives. */
const pickleOf = (files: readonly ZipEntry[]): ZipEntry | undefined =>
  files.find(({ name }) => /(^|\/)data\.pkl$/.test(name));

/**
 * Opens a file of `torch.save`; undefined for another zip.
 *
 * @throws HeddleError `format` when the file is malformed, or does not hold a state dict.
 */
export async function openTorch(source: ByteSource, file: string): Promise<TorchFile | undefined> {
  const archive = { file, format: "PyTorch" };
  const malformed = (problem: string, hint?: string): HeddleError =>
    new HeddleError("format", `${file} is not a valid PyTorch file: ${problem}`, hint === undefined ? {} : { hint });
  const files = await readDirectory(source, archive);
  const pickle = pickleOf(files);
  if (pickle === undefined) return undefined;
  const root = pickle.name.slice(0, -"data.pkl".length);
  const at = (name: string): ZipEntry | undefined => files.find((entry) => entry.name === root + name);
  const order = at("byteorder");
  if (order !== undefined && new TextDecoder().decode(await readEntry(source, order, archive)) !== "little")
    throw malformed("its numbers are not little-endian");
  if (pickle.size > mostPickle) throw malformed(`a pickle of ${pickle.size} bytes`);
  const value = parsePickle(await readEntry(source, pickle, archive), (what) =>
    malformed(`its pickle is malformed: ${what}`),
  );
  const stored = stateDict(value, malformed);
  // Tensors that share a storage follow each other.
  let last: { readonly name: string; readonly bytes: ArrayBuffer } | undefined;
  const storage = async (name: string): Promise<ArrayBuffer> => {
    const entry = at(`data/${name}`);
    if (entry === undefined) throw malformed(`it has no storage ${name}`);
    if (last?.name !== name) last = { name, bytes: new Uint8Array(await readEntry(source, entry, archive)).buffer };
    return last.bytes;
  };
  return {
    entries: new Map([...stored].map(([name, { format, shape }]) => [name, { dtype: dtypeOf(format), shape, format }])),
    async read(name) {
      const tensor = stored.get(name) as Stored;
      return hostOf(tensor, await storage(tensor.storage), (problem) => malformed(`"${name}" ${problem}`));
    },
  };
}

type Malformed = (problem: string, hint?: string) => HeddleError;

/** The tensors of a pickled value: a state dict, or a checkpoint that holds one state dict. */
function stateDict(value: Pickled, malformed: Malformed): Map<string, Stored> {
  if (!(value instanceof Map))
    throw malformed("it holds a whole module or a single value, not a state_dict", saveStates);
  const top = tensorsOf(value, malformed);
  if (top.size > 0) return top;
  const inner = [...value].flatMap(([name, member]): [string, Map<string, Stored>][] =>
    member instanceof Map && typeof name === "string" ? [[name, tensorsOf(member, malformed)]] : [],
  );
  const full = inner.filter(([, tensors]) => tensors.size > 0);
  const named = full.filter(([name]) => /^(model_?)?state_dict$|^model$|^net$/.test(name));
  const [first, second] = named.length > 0 ? named : full;
  if (first !== undefined && second === undefined) return first[1];
  const names = full.map(([name]) => name).join(", ");
  throw malformed(first === undefined ? "it holds no tensors" : `it holds several state_dicts, ${names}`, saveStates);
}

function tensorsOf(dict: Map<Pickled, Pickled>, malformed: Malformed): Map<string, Stored> {
  const tensors = new Map<string, Stored>();
  for (const [name, value] of dict) {
    const tensor = tensorOf(value, malformed);
    if (typeof name === "string" && tensor !== undefined) tensors.set(name, tensor);
  }
  return tensors;
}

/** The tensor that a call would make; undefined for another value. */
function tensorOf(value: Pickled, malformed: Malformed): Stored | undefined {
  if (!(value instanceof Call) || !(value.callee instanceof Global) || !Array.isArray(value.argument)) return undefined;
  const { name } = value.callee;
  if (name.startsWith("torch._utils._rebuild_parameter")) return tensorOf(value.argument[0], malformed);
  if (!name.startsWith("torch._utils._rebuild_tensor")) return undefined;
  const [storage, offset, shape, strides, , , dtype] = value.argument;
  const [kind, type, key, , count] = (
    storage instanceof Call && Array.isArray(storage.argument) ? storage.argument : []
  ) as Pickled[];
  const isTensor =
    kind === "storage" && type instanceof Global && typeof key === "string" && isCount(count) && isCount(offset);
  if (!isTensor || !isShape(shape) || !isShape(strides) || shape.length !== strides.length)
    throw malformed("it has a tensor without storage, shape or strides");
  const format = name.endsWith("_v3") && dtype instanceof Global ? dtype.name : type.name;
  return { storage: key, format: format.replace(/^torch\./, ""), count, offset, shape, strides };
}

const isCount = (value: Pickled): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isShape = (value: Pickled): value is number[] =>
  Array.isArray(value) && value.length <= largestRank && value.every(isCount);

/** The values of a tensor in row-major order. */
function hostOf(
  { format, count, offset, shape, strides }: Stored,
  buffer: ArrayBuffer,
  wrong: (problem: string) => HeddleError,
): HostTensor {
  const stored = formats[format];
  const dtype = dtypeOf(format);
  if (stored === undefined || dtype === undefined)
    throw new HeddleError("dtype", `${wrong(`is ${format}, which is not supported`).plain}`);
  const bytes = isShort(stored) ? 2 : dtypes[dtype].bytes;
  if (count * bytes > buffer.byteLength)
    throw wrong(`has a storage of ${buffer.byteLength} bytes for ${count} elements`);
  const size = sizeOf(shape);
  const last = shape.reduce((at, length, dim) => at + Math.max(0, length - 1) * (strides[dim] as number), offset);
  if (size > 0 && last >= count) throw wrong("lies outside of its storage");
  const values: TypedArray = isShort(stored)
    ? Int32Array.from(new shortArrays[stored](buffer, 0, count))
    : dtypes[dtype].view(buffer, 0, count);
  return { dtype, shape, data: inOrder(values, offset, shape, strides, size) };
}

function inOrder(values: TypedArray, offset: number, shape: Shape, strides: Shape, size: number): TypedArray {
  let expected = 1;
  const contiguous = shape.every((_length, back) => {
    const dim = shape.length - 1 - back;
    const fits = shape[dim] === 1 || strides[dim] === expected;
    expected *= shape[dim] as number;
    return fits;
  });
  if (contiguous) return values.slice(offset, offset + size);
  const data = values.slice(0, 0).constructor as new (length: number) => TypedArray;
  const result = new data(size);
  const indices = shape.map(() => 0);
  for (let index = 0; index < size; index++) {
    result[index] = values[
      indices.reduce((at, position, dim) => at + position * (strides[dim] as number), offset)
    ] as never;
    for (let dim = shape.length - 1; dim >= 0; dim--) {
      indices[dim] = (indices[dim] as number) + 1;
      if ((indices[dim] as number) < (shape[dim] as number)) break;
      indices[dim] = 0;
    }
  }
  return result;
}
