/** @module TFRecord: byte strings, each with its length and checksums of both (CRC-32C). */

import { HeddleError } from "../../util/errors.ts";
import { after } from "../records/node.ts";
import type { Records } from "../records/records.ts";
import { type ByteFile, type Places, plainBytes } from "./bytes.ts";
import { crc32c } from "./crc32c.ts";
import { type FileOptions, type Format, recordsOf } from "./files.ts";
import { longestRecord } from "./lines.ts";

/** Records that are given at once. */
const atOnce = 256;

const format: Format<FileOptions> = {
  what: "tfrecord",
  options: [],
  open: async (file, _options, bad) => ({ read: (from, signal) => after(read(file, signal, bad), from) }),
};

async function* read(file: ByteFile, signal: AbortSignal | undefined, bad: (error: HeddleError) => void) {
  const malformed = (record: number, problem: string): HeddleError =>
    new HeddleError("format", `${file.name}, record ${record}: ${problem}`);
  let held = Buffer.alloc(0);
  let number = 0;
  let [bytes, places]: [Uint8Array[], number[]] = [[], []];
  const piece = () => {
    const [values, from] = [bytes, places];
    [bytes, places] = [[], []];
    return {
      length: values.length,
      columns: { bytes: values },
      place: (index: number) => `${file.name}, record ${from[index]}`,
    };
  };
  // Pieces wait until a whole record is there, so that bytes are copied once.
  let parts: Buffer[] = [];
  let wanted = 0;
  let count = 0;
  for await (const part of plainBytes(file, 0, signal)) {
    parts.push(Buffer.from(part.buffer, part.byteOffset, part.byteLength));
    count += part.length;
    if (held.length + count < wanted) continue;
    held = Buffer.concat([held, ...parts]);
    [parts, count] = [[], 0];
    for (;;) {
      if (held.length < 12) {
        wanted = 12;
        break;
      }
      const length = Number(held.readBigUInt64LE(0));
      // Without its length, the place of the next record is not known either.
      if (masked(held.subarray(0, 8)) !== held.readUInt32LE(8))
        throw malformed(number, "the checksum of its length is wrong");
      if (length > longestRecord) throw malformed(number, `it has ${length} bytes, the limit is ${longestRecord}`);
      wanted = 16 + length;
      if (held.length < wanted) break;
      const data = held.subarray(12, 12 + length);
      if (masked(data) === held.readUInt32LE(12 + length)) {
        bytes.push(new Uint8Array(data));
        places.push(number);
      } else bad(malformed(number, "the checksum of its bytes is wrong"));
      number++;
      held = held.subarray(wanted);
      if (bytes.length === atOnce) yield piece();
    }
  }
  if (held.length + count > 0) throw malformed(number, "the file ends within it");
  if (bytes.length > 0) yield piece();
}

/** TensorFlow's mask, so that a checksum of data with checksums in it is no problem. */
const masked = (bytes: Uint8Array): number => {
  const crc = crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
};

/** The byte strings of TFRecord files, with their checksums checked; `map` decodes them. */
export const tfrecord = (places: Places, options: FileOptions = {}): Records<{ bytes: Uint8Array }> =>
  recordsOf(format, places, options);
