/** csv files by rows: each worker finds and reads its own, whatever the lines and the parts of the file are. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { blockStart } from "../../src/matrix/distributed/layout.ts";
import { indexRows, isBlank, RowFile, type RowIndex } from "../../src/script/row-files.ts";

const folder = mkdtempSync(join(tmpdir(), "heddle-rows-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Thrown where a worker waits for what others have not told yet. */
class Waits extends Error {}

interface Piece {
  readonly text: string;
  readonly line: number;
}

/** What each of so many workers finds, and the bytes that it read; they run one after another, again from the beginning when a sum is there. */
function found(
  text: string,
  size: number,
  header = false,
  most?: number,
): { readonly index: RowIndex; readonly pieces: readonly Piece[]; readonly bytes: number }[] {
  const path = join(folder, "x.csv");
  writeFileSync(path, text);
  const sums: number[][] = [];
  for (;;) {
    const told: (readonly number[])[] = [];
    const results = Array.from({ length: size }, (_unused, rank) => {
      let call = 0;
      const file = new RowFile(path);
      const sum = (numbers: readonly number[]): readonly number[] => {
        const known = sums[call++];
        if (known !== undefined) return known;
        told.push(numbers);
        throw new Waits();
      };
      try {
        const index = indexRows(file, { header, separator: "," }, { rank, size, sum }, (rows, which) =>
          blockStart(rows, which, size),
        );
        return { index, pieces: [...index.own(most)], bytes: file.bytesRead };
      } catch (error) {
        if (!(error instanceof Waits)) throw error;
        return undefined;
      } finally {
        file.close();
      }
    });
    if (told.length === 0) return results as NonNullable<(typeof results)[number]>[];
    sums.push(
      (told[0] as readonly number[]).map((_number, at) =>
        told.reduce((sum, numbers) => sum + (numbers[at] as number), 0),
      ),
    );
  }
}

const body = Array.from({ length: 50 }, (_unused, row) => `${row},${"x".repeat((row * 7) % 13)}`);
const files: readonly [string, string, boolean?][] = [
  ["lines", `${body.join("\n")}\n`],
  ["no end of the last line", body.join("\n")],
  ["a header", `name,other\n${body.join("\n")}\n`, true],
  ["lines of Windows", `${body.join("\r\n")}\r\n`],
  ["blank lines", `\n \n${body.join("\n\n \t\n")}\n\n\n`],
  ["form feeds and vertical tabs", `\f\n${body.join("\n\v\f \n")}\n\f`],
  ["a first line that is longer than the parts", `${"y".repeat(4000)},1\n${body.join("\n")}\n`],
  ["a last line that is longer than the parts", `${body.join("\n")}\n1,${"y".repeat(9000)}`],
  ["letters of several bytes", `${body.map((line) => `${line}é世`).join("\n")}\n`],
  ["fewer rows than workers", "1,2\n3,4\n"],
  ["one row", "1,2"],
  ["nothing", ""],
  ["a header alone", "a,b\n", true],
];

test.each(
  files.flatMap((file) =>
    [1, 2, 3, 4, 7].map((size) => [...file.slice(0, 1), size, file[1], file[2] ?? false] as const),
  ),
)("%s, %i workers", (_name, size, text, header) => {
  const lines = (text as string).split("\n");
  const rows = lines
    .flatMap((line, at) => (line.trim() === "" ? [] : [[line.trim(), at + 1] as const]))
    .slice(header ? 1 : 0);
  // Pieces as they are, and so small that most have one line.
  for (const most of [undefined, 16]) {
    const parts = found(text as string, size as number, header as boolean, most);
    for (const { index } of parts) {
      expect([index.rows, index.columns]).toEqual([rows.length, rows.length === 0 ? 0 : 2]);
      expect(index.line).toBe(rows[0]?.[1] ?? 0);
    }
    parts.forEach(({ pieces }, rank) => {
      const [from, to] = [rank, rank + 1].map((which) => blockStart(rows.length, which, size as number)) as [
        number,
        number,
      ];
      const got = pieces.flatMap(({ text: piece, line }) =>
        piece.split("\n").map((one, at) => [one.trim(), line + at] as const),
      );
      expect(got.filter(([one]) => one !== "")).toEqual(rows.slice(from, to));
      if (most === undefined) return;
      for (const { text: piece } of pieces) {
        const longest = Math.max(...piece.split(/(?<=\n)/).map((one) => Buffer.byteLength(one)));
        expect(Buffer.byteLength(piece)).toBeLessThanOrEqual(Math.max(most, 2 * longest));
      }
    });
  }
});

test("blanks beyond ASCII are cells, alone as among workers", () => {
  const parts = found("1\n\u00a0\n\ufeff\n2\n", 2);
  expect(parts.map(({ index }) => index.rows)).toEqual([4, 4]);
  for (const line of ["\u00a0", "\ufeff", "1"]) expect(isBlank(line)).toBe(false);
  for (const line of ["", " \t\v\f\r"]) expect(isBlank(line)).toBe(true);
});

test("a worker reads its part, and not the file", () => {
  const text = Array.from({ length: 40_000 }, (_unused, row) => `${row},${row * 2},${row * 3}`).join("\n");
  for (const { bytes } of found(text, 8)) expect(bytes).toBeLessThan((2.5 * text.length) / 8 + 70_000);
});

test("a folder, and a file that is not there", () => {
  expect(() => new RowFile(folder)).toThrow(/is a folder/);
  expect(() => new RowFile(join(folder, "none.csv"))).toThrow(/none\.csv: ENOENT/);
});
