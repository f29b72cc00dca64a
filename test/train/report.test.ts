import { confusionTable, drawImages } from "heddle";
import { describe, expect, test } from "vitest";
import type { EpochRecord } from "../../src/train/history.ts";
import { formatMetric, formatNumber } from "../../src/train/metrics.ts";
import { formatSeconds } from "../../src/train/progress.ts";
import { drawImage } from "../../src/train/report.ts";
import { makeReporter } from "../../src/train/terminal.ts";

test("a confusion table has the true classes as rows", () => {
  expect(confusionTable([0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 2, 0])).toBe(
    ["  0 1 2", "0 1 1 ·", "1 · 1 ·", "2 1 · 2"].join("\n"),
  );
  expect(confusionTable([0, 1], [1, 1], ["cat", "mouse"])).toBe(
    ["      cat mouse", "  cat   ·     1", "mouse   ·     1"].join("\n"),
  );
  expect(() => confusionTable([0], [0, 1])).toThrow(/1 labels and 2 answers/);
});

test("images are drawn two rows to a line", () => {
  // A row of nothing, upper, lower, both; then the odd last row.
  const pixels = [0, 9, 0, 9, 0, 0, 9, 9, 9, 0, 0, 9];
  expect(drawImage(pixels, 3, 4)).toEqual([" ▀▄█", "▀  ▀"]);
  const image = { pixels, caption: "four" };
  expect(drawImages([image, { ...image, caption: "fourteen" }], 3, 4)).toBe(
    [" ▀▄█   ▀▄█", "▀  ▀  ▀  ▀", "four  fourteen"].join("\n"),
  );
  expect(() => drawImage([1, 2], 2, 2)).toThrow(/2 pixels are not 2 by 2/);
});

test("numbers for people", () => {
  expect([0, 0.5, 12.34567, 1e-5, 2.5e6, Number.NaN].map(formatNumber)).toEqual([
    "0.0000",
    "0.5000",
    "12.3457",
    "1.000e-5",
    "2.500e+6",
    "NaN",
  ]);
  expect(formatMetric("test accuracy", 0.98765)).toBe("test accuracy 98.77 %");
  expect(formatMetric("margin", 0.98765)).toBe("margin 0.9877");
  expect([0.25, 9.96, 59.6, 75, 3600 + 61].map(formatSeconds)).toEqual([
    "0.3 s",
    "10.0 s",
    "60 s",
    "1:15 min",
    "1:01 h",
  ]);
});

describe("reporters", () => {
  /** A stream that keeps what is written. */
  function stream(isTTY: boolean): { stream: NodeJS.WriteStream; text: () => string } {
    const parts: string[] = [];
    const fake = {
      isTTY,
      columns: 120,
      write: (text: string) => parts.push(text) > 0,
      on: () => fake,
      once: () => fake,
      removeListener: () => fake,
    };
    return { stream: fake as unknown as NodeJS.WriteStream, text: () => parts.join("") };
  }

  const record: EpochRecord = {
    epoch: 1,
    steps: 100,
    loss: 0.25,
    metrics: { accuracy: 0.9 },
    rejected: 0,
    validation: { loss: 0.3, metrics: { accuracy: 0.875 }, examples: 8 },
    seconds: 2,
    examplesPerSecond: 1234,
    learningRate: 0.1,
  };

  async function epoch(mode: "auto" | "bar" | "lines" | "silent", isTTY: boolean): Promise<string> {
    const output = stream(isTTY);
    const reporter = await makeReporter(mode, "images", { stream: output.stream, interval: 0 });
    reporter.startEpoch({ epoch: 1, epochs: 3, batches: 100, done: 0 });
    for (let done = 1; done <= 100; done++)
      reporter.step({ done, examples: done * 8, loss: done < 3 ? undefined : 0.5 });
    reporter.endEpoch(record);
    reporter.line("the end");
    reporter.stop();
    return output.text();
  }

  const last =
    "epoch 1/3  loss 0.2500  accuracy 90.00 %  val_loss 0.3000  val_accuracy 87.50 %  2.0 s, 1,234 images/s\nthe end\n";

  test("plain lines, about five per epoch", async () => {
    const text = await epoch("auto", false);
    expect(text.endsWith(last)).toBe(true);
    const lines = text.split("\n").slice(0, 4);
    for (const [index, line] of lines.entries()) {
      expect(line).toMatch(
        new RegExp(`^epoch 1/3 {2}${20 * (index + 1)}/100 {2}loss 0\\.5000 {2}[\\d,]+ images/s {2}[\\d.]+ s left$`),
      );
    }
    expect(await epoch("bar", false)).toContain("20/100");
  });

  test("a bar on a terminal, which leaves one line and the cursor behind", async () => {
    const text = await epoch("auto", true);
    expect(text).toContain("━");
    expect(text).toContain("\u001b[?25l");
    expect(text.lastIndexOf("\u001b[?25h")).toBeGreaterThan(text.lastIndexOf("\u001b[?25l"));
    expect(text.endsWith(last)).toBe(true);
  });

  test("nothing at all", async () => {
    expect(await epoch("silent", true)).toBe("");
  });

  test("an epoch of fewer batches than lines", async () => {
    const output = stream(false);
    const reporter = await makeReporter("lines", "examples", { stream: output.stream, interval: 0 });
    reporter.startEpoch({ epoch: 1, epochs: 1, batches: 2, done: 0 });
    for (const done of [1, 2]) reporter.step({ done, examples: done, loss: undefined });
    expect(output.text().split("\n")).toHaveLength(2);
  });
});
