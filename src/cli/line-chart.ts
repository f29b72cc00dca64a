/** @module A chart of lines as SVG, drawn by Vega. */
import { requires } from "../runtime/packages.ts";
import { HeddleError } from "../util/errors.ts";

/** What is used of Vega. */
interface Vega {
  parse(spec: unknown): unknown;
  readonly View: new (runtime: unknown, options: { readonly renderer: "none" }) => { toSVG(): Promise<string> };
}

/** A chart. */
export interface LineChart {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  /** Lines by name, each of points `[x, y]`, y above 0. */
  readonly lines: { readonly [name: string]: readonly (readonly [number, number])[] };
}

/** Vega, where it is installed. @throws HeddleError `file` where it is not */
export function vega(): Vega {
  for (const load of requires()) {
    try {
      return load("vega") as Vega;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new HeddleError("file", "there is no vega here, which draws pictures", { hint: "npm install vega@5.33.0" });
}

/** The chart as SVG, with a logarithmic y axis. @throws HeddleError `file` when Vega is not installed */
export function lineChart({ title, x, y, lines }: LineChart): Promise<string> {
  const { parse, View } = vega();
  const values = Object.entries(lines).flatMap(([name, points]) => points.map(([at, value]) => ({ name, at, value })));
  const axis = { grid: true, gridOpacity: 0.4 };
  const spec = {
    $schema: "https://vega.github.io/schema/vega/v5.json",
    width: 720,
    height: 400,
    padding: 10,
    background: "white",
    title: { text: title },
    data: [{ name: "points", values }],
    scales: [
      { name: "x", type: "linear", range: "width", nice: true, domain: { data: "points", field: "at" } },
      { name: "y", type: "log", range: "height", domain: { data: "points", field: "value" } },
      { name: "color", type: "ordinal", range: { scheme: "tableau20" }, domain: { data: "points", field: "name" } },
    ],
    axes: [
      { orient: "bottom", scale: "x", title: x, ...axis },
      { orient: "left", scale: "y", title: y, format: "~g", ...axis },
    ],
    legends: [{ stroke: "color", symbolType: "stroke", title: "policy" }],
    marks: [
      {
        type: "group",
        from: { facet: { name: "series", data: "points", groupby: "name" } },
        marks: [
          {
            type: "line",
            from: { data: "series" },
            encode: {
              enter: {
                x: { scale: "x", field: "at" },
                y: { scale: "y", field: "value" },
                stroke: { scale: "color", field: "name" },
                strokeWidth: { value: 1.5 },
              },
            },
          },
        ],
      },
    ],
  };
  return new View(parse(spec), { renderer: "none" }).toSVG();
}
