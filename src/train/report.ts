/** @module Text output for a terminal: a confusion table, and images in half-block characters. */
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/**
 * A confusion table as text: rows are the true classes, columns the predicted classes, cells the counts; `·` is 0.
 *
 * @param labels true classes, integers from 0
 * @param answers predicted classes, the same number
 * @param names names of the classes; default their numbers
 */
export function confusionTable(
  labels: ArrayLike<number>,
  answers: ArrayLike<number>,
  names?: readonly string[],
): string {
  if (!(labels?.length === answers?.length) || labels?.length === undefined) {
    throw new HeddleError("shape", `confusionTable: ${labels?.length} labels and ${answers?.length} answers`);
  }
  if (names !== undefined && !Array.isArray(names))
    throw new HeddleError("argument", `confusionTable: names are an array of texts, got ${shown(names)}`);
  const count = names?.length ?? Math.max(0, ...Array.from(labels), ...Array.from(answers)) + 1;
  const counts = Array.from({ length: count }, () => new Array<number>(count).fill(0));
  for (let index = 0; index < labels.length; index++) {
    const row = counts[labels[index] as number];
    if (row === undefined || !(counts[answers[index] as number] !== undefined))
      throw new HeddleError(
        "shape",
        `confusionTable: label ${shown(labels[index])} with answer ${shown(answers[index])} is out of range for ${count} classes`,
      );
    row[answers[index] as number] = (row[answers[index] as number] as number) + 1;
  }
  const titles = names ?? counts.map((_row, index) => String(index));
  const cells = counts.map((row) => row.map((value) => (value === 0 ? "·" : String(value))));
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => (row[column] as string).length)),
  );
  const lead = Math.max(...titles.map((title) => title.length));
  const line = (head: string, parts: readonly string[]): string =>
    [head.padStart(lead), ...parts.map((part, column) => part.padStart(widths[column] as number))].join(" ");
  return [line("", titles), ...cells.map((row, index) => line(titles[index] as string, row))].join("\n");
}

/** Characters by two bits: whether the upper and the lower half is filled. */
const halves = [" ", "▄", "▀", "█"] as const;

/**
 * Draws a gray image, two rows of pixels per line of text; pixels from `threshold` on are filled.
 *
 * @param pixels row-major, `height · width` of them
 * @param threshold default half of the largest pixel
 */
export function drawImage(
  pixels: ArrayLike<number>,
  height: number,
  width: number,
  threshold: number = Math.max(...Array.from(pixels ?? [])) / 2,
): string[] {
  if (pixels?.length !== height * width) {
    throw new HeddleError("shape", `drawImage: ${pixels?.length ?? "no"} pixels are not ${height} by ${width}`);
  }
  const filled = (row: number, column: number): number =>
    row < height && (pixels[row * width + column] as number) >= threshold ? 1 : 0;
  return Array.from({ length: Math.ceil(height / 2) }, (_unused, line) =>
    Array.from(
      { length: width },
      (_cell, column) => halves[(2 * filled(2 * line, column)) | filled(2 * line + 1, column)],
    ).join(""),
  );
}

/** Images side by side, each with a caption below. */
export function drawImages(
  images: readonly { readonly pixels: ArrayLike<number>; readonly caption: string }[],
  height: number,
  width: number,
): string {
  if (!Array.isArray(images))
    throw new HeddleError("argument", `drawImages: takes an array of { pixels, caption }, got ${shown(images)}`);
  const drawn = images.map(({ pixels, caption }) => [...drawImage(pixels, height, width), caption]);
  const columns = drawn.map((lines) => Math.max(...lines.map((line) => line.length)));
  const lines = drawn[0]?.map((_line, index) =>
    drawn
      .map((image, column) => (image[index] as string).padEnd(columns[column] as number))
      .join("  ")
      .trimEnd(),
  );
  return (lines ?? []).join("\n");
}
