/** @module Three classes of points on spirals. */
import { data } from "heddle";

export const classes = 3;
const points = 20;

/** Points of each class on a spiral of its own. */
const place = (at: number, turn: number): { readonly angle: number; readonly radius: number } => {
  const radius = ((at % points) + 1) / points;
  return { angle: 2 * Math.PI * (Math.floor(at / points) / classes + 0.2 * radius) + turn, radius };
};

/** The points as a dataset; all spirals are turned by `turn` radians. */
export function spirals(turn = 0): data.Dataset {
  const rows = Array.from({ length: classes * points }, (_unused, at) => place(at, turn));
  return data.fromArrays({
    x: {
      shape: [rows.length, 2],
      data: Float32Array.from(
        rows.flatMap(({ angle, radius }) => [radius * Math.cos(angle), radius * Math.sin(angle)]),
      ),
    },
    y: { shape: [rows.length], data: Int32Array.from(rows, (_row, at) => Math.floor(at / points)) },
  });
}
