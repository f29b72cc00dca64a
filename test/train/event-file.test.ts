/** Event files byte by byte as Python's `tensorboard` writes them: test/fixtures/tensorboard_events.py. */
import { describe, expect, test } from "vitest";
import { crc32c, type Event, encodeEvent, eventRecord } from "../../src/train/callbacks/event-file.ts";
import { fixture } from "../fixtures/fixture.ts";

const cases = fixture<{ event: Event; record: string }>("tensorboard-events");

describe("event files", () => {
  test("checksums are those of RFC 3720", () => {
    const bytes = (count: number, of: (index: number) => number): Uint8Array =>
      Uint8Array.from({ length: count }, (_u, i) => of(i));
    expect(crc32c(bytes(32, () => 0))).toBe(0x8a9136aa);
    expect(crc32c(bytes(32, () => 0xff))).toBe(0x62a8ab43);
    expect(crc32c(bytes(32, (index) => index))).toBe(0x46dd794e);
    expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
  });

  test.each(cases)("a record of $event.value.kind $event.value.tag", ({ event, record }) => {
    expect(Buffer.from(eventRecord(event)).toString("hex")).toBe(record);
  });

  test("histograms count every finite value in a bucket that holds it", () => {
    const values = [-3, -1e-13, 0, 0, 1e-13, 0.5, 2, 1e30, Number.NaN, Infinity];
    const event = encodeEvent({ wallTime: 0.5, step: 1, value: { kind: "histogram", tag: "w", values } });
    // The packed doubles at the end: field 6 (ends of buckets), then field 7 (counts), of as many.
    const view = new DataView(event.buffer, event.byteOffset, event.byteLength);
    const double = (at: number): number => view.getFloat64(at, true);
    let count = 0;
    let total = 0;
    const counts: number[] = [];
    while (total < 8) {
      count++;
      const value = double(event.length - 8 * count);
      counts.unshift(value);
      total += value;
    }
    expect(total).toBe(8);
    expect(counts.every((value) => Number.isInteger(value) && value >= 0)).toBe(true);
    expect(Math.max(...counts)).toBe(3);
  });
});
