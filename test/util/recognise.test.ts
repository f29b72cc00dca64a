/** What is not what its name says is told by its first bytes, in one place for all formats. */
import { io } from "heddle";
import { expect, test } from "vitest";
import { parsePrototxt } from "../../src/adapters/caffe/text.ts";
import { parseIdxHeader } from "../../src/data/idx.ts";
import { decodeSafetensors } from "../../src/io/safetensors.ts";
import { checkRecognised, type FileKind, recognise } from "../../src/util/recognise.ts";

const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (character) => character.charCodeAt(0));
const header = '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}';

const files: readonly (readonly [FileKind, Uint8Array])[] = [
  ["empty", new Uint8Array(0)],
  ["gitLfs", bytesOf("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")],
  ["html", bytesOf("<!DOCTYPE html>\n<html><body>404</body></html>")],
  ["html", bytesOf("\xef\xbb\xbf\r\n<!-- saved --> <HTML lang=en>")],
  ["xml", bytesOf('<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>')],
  ["json", bytesOf('{"error":"Invalid username or password."}')],
  ["zip", bytesOf("PK\x03\x04\x00\x00archive/data.pkl")],
  ["gzip", bytesOf("\x1f\x8b\x08\x00")],
  ["zstandard", bytesOf("\x28\xb5\x2f\xfd\x00")],
  ["xz", bytesOf("\xfd7zXZ\0")],
  ["bzip2", bytesOf("BZh91AY&SY")],
  ["sevenZip", bytesOf("7z\xbc\xaf\x27\x1c")],
  ["tar", bytesOf(`${"a.txt".padEnd(257, "\0")}ustar\0`)],
  ["pickle", bytesOf("\x80\x04\x95\x10\x00\x00\x00")],
  ["pickle", bytesOf("\x80\x02}q\x00(X\x01")],
  ["pickle", bytesOf("\x80\x02ccollections\nOrderedDict\n")],
  ["npy", io.encodeNpy({ dtype: "f32", shape: [1], data: new Float32Array(1) })],
  ["safetensors", bytesOf(`${String.fromCharCode(header.length)}\0\0\0\0\0\0\0${header}\0\0\0\0`)],
  ["hdf5", bytesOf("\x89HDF\r\n\x1a\n")],
  ["gguf", bytesOf("GGUF\x03\0\0\0")],
  ["tensorFlowLite", bytesOf("\x1c\0\0\0TFL3")],
  ["pdf", bytesOf("%PDF-1.7")],
  ["png", bytesOf("\x89PNG\r\n\x1a\n")],
  ["jpeg", bytesOf("\xff\xd8\xff\xe0")],
  ["zeros", new Uint8Array(4096)],
];

/** Models as Heddle, PyTorch and ONNX's own helpers begin them. */
test.each([
  "\x08\x08\x12\x06heddle\x1a\x011",
  "\x08\x07\x12\x07pytorch\x1a\x052.0.0",
  "\x08\x0a:\x10",
  "\x08\x0aB\x02\x10\x12",
])("an ONNX model that begins with %j", (start) => {
  expect(recognise(bytesOf(start))).toBe("onnx");
  expect(() => decodeSafetensors(bytesOf(start), "net.onnx")).toThrow(
    /^net\.onnx is not a valid safetensors file: it is an ONNX model\n.*read it with io\.loadOnnx/s,
  );
});

test.each(files)("%s", (kind, bytes) => {
  expect(recognise(bytes)).toBe(kind);
  expect(() => checkRecognised(bytes, "net.bin", "Foo")).toThrow(/^net\.bin is not a valid Foo file: it is /);
  expect(() => checkRecognised(bytes, "net.bin", "Foo", [kind])).not.toThrow();
  expect(() => io.parseOnnx(bytes, { file: "net.onnx" })).toThrow(/^net\.onnx is not a valid ONNX file: it is /);
});

/** What reads bytes or text, by the name in its message, and the kinds that are its own or that it tells otherwise. */
const readers: readonly (readonly [string, (bytes: Uint8Array) => unknown, readonly FileKind[]])[] = [
  ["safetensors", (bytes) => decodeSafetensors(bytes, "a.bin"), ["safetensors"]],
  ["npy", (bytes) => io.decodeNpy(bytes, "a.bin"), ["npy"]],
  ["Caffe text", (bytes) => parsePrototxt(new TextDecoder().decode(bytes), "a.bin"), ["empty"]],
  ["IDX", (bytes) => parseIdxHeader(bytes, "a.bin"), ["empty", "zeros"]],
];
const wrong = files.filter(([kind]) => ["empty", "gitLfs", "html", "json", "zip", "zeros", "npy"].includes(kind));

test.each(readers)("%s readers tell what a file is", (format, read, own) => {
  for (const [kind, bytes] of wrong)
    if (!own.includes(kind) && !(format === "Caffe text" && kind === "npy"))
      expect(() => read(bytes), kind).toThrow(`a.bin is not a valid ${format} file: it is `);
});

test("the length of a safetensors header may begin as a pickle does", () => {
  const bytes = bytesOf(`\x80\x02\0\0\0\0\0\0${header.padEnd(640)}\0\0\0\0`);
  expect([...decodeSafetensors(bytes, "a.bin").tensors.keys()]).toEqual(["w"]);
});

test.each([
  ["I16", Int16Array.of(-2, 32767)],
  ["U16", Uint16Array.of(2, 65535)],
] as const)("safetensors %s as i32", (format, values) => {
  const json = `{"w":{"dtype":"${format}","shape":[2],"data_offsets":[0,4]}}`;
  const bytes = bytesOf(
    `${String.fromCharCode(json.length)}\0\0\0\0\0\0\0${json}${String.fromCharCode(...new Uint8Array(values.buffer))}`,
  );
  const got = decodeSafetensors(bytes, "a.bin").tensors.get("w");
  expect([got?.dtype, ...(got?.data ?? [])]).toEqual(["i32", ...values]);
});

test("text that Heddle reads is of no kind, and an exported model is an ONNX model", async () => {
  const model = await io.exportOnnx(({ x }) => x.exp(), { x: { shape: [2], dtype: "f32" } });
  expect(recognise(model)).toBe("onnx");
  for (const bytes of [bytesOf('name: "net"\nlayer {\n}'), bytesOf("a,b\n1,2\n"), bytesOf("[net]\nx=1\n")])
    expect(recognise(bytes)).toBeUndefined();
});
