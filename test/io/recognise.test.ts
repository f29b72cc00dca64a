/** What is not what its name says is told by its first bytes, in one place for all formats. */
import { io } from "heddle";
import { expect, test } from "vitest";
import { checkRecognised, type FileKind, recognise } from "../../src/io/recognise.ts";

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

test.each(files)("%s", (kind, bytes) => {
  expect(recognise(bytes)).toBe(kind);
  expect(() => checkRecognised(bytes, "net.bin", "Foo")).toThrow(/^net\.bin is not a valid Foo file: it is /);
  expect(() => checkRecognised(bytes, "net.bin", "Foo", [kind])).not.toThrow();
  expect(() => io.parseOnnx(bytes, { file: "net.onnx" })).toThrow(/^net\.onnx is not a valid ONNX file: it is /);
});

test("files that are read are none of them", async () => {
  const model = await io.exportOnnx(({ x }) => x.exp(), { x: { shape: [2], dtype: "f32" } });
  for (const bytes of [model, bytesOf('name: "net"\nlayer {\n}'), bytesOf("a,b\n1,2\n"), bytesOf("[net]\nx=1\n")])
    expect(recognise(bytes)).toBeUndefined();
});
