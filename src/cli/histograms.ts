/** @module Histograms of columns as SVG, drawn by Vega. */
import type { Statistics } from "../frames/index.ts";
import { isMeasured } from "../frames/statistics/schema.ts";
import { vega } from "./line-chart.ts";

const [width, height, across] = [220, 120, 3];

/** A histogram of each column of numbers, or of the lengths of texts and vectors. @throws HeddleError `file` when Vega is not installed */
export function histograms({ columns }: Statistics): Promise<string> {
  const { parse, View } = vega();
  const shown = columns.flatMap(({ name, kind, numbers }) => (numbers === undefined ? [] : [{ name, kind, numbers }]));
  const values = shown.flatMap(({ name, kind, numbers: { lowest, highest, histogram } }) => {
    const step = (highest - lowest) / histogram.length || 1;
    const title = isMeasured(kind) ? `${name} (length)` : name;
    return histogram.map((share, bin) => ({
      title,
      from: lowest + bin * step,
      to: lowest + (bin + 1) * step,
      share,
    }));
  });
  const axis = { tickCount: 4 };
  const spec = {
    $schema: "https://vega.github.io/schema/vega/v5.json",
    padding: 10,
    background: "white",
    data: [{ name: "bins", values }],
    layout: { columns: across, padding: 30, titleAnchor: "start" },
    marks: [
      {
        type: "group",
        from: { facet: { name: "column", data: "bins", groupby: "title" } },
        title: { text: { signal: "parent.title" }, frame: "group" },
        encode: { update: { width: { value: width }, height: { value: height } } },
        scales: [
          {
            name: "x",
            type: "linear",
            range: [0, width],
            zero: false,
            domain: {
              fields: [
                { data: "column", field: "from" },
                { data: "column", field: "to" },
              ],
            },
          },
          { name: "y", type: "linear", range: [height, 0], zero: true, domain: { data: "column", field: "share" } },
        ],
        axes: [
          { orient: "bottom", scale: "x", ...axis },
          { orient: "left", scale: "y", format: ".0%", ...axis },
        ],
        marks: [
          {
            type: "rect",
            from: { data: "column" },
            encode: {
              enter: {
                x: { scale: "x", field: "from" },
                x2: { scale: "x", field: "to", offset: -1 },
                y: { scale: "y", field: "share" },
                y2: { scale: "y", value: 0 },
                fill: { value: "#4c78a8" },
              },
            },
          },
        ],
      },
    ],
  };
  return new View(parse(spec), { renderer: "none" }).toSVG();
}
