/** Made-up data for the examples: two classes that no straight line tells apart. */
import { data } from "heddle";

/** Points on two spirals that wind around each other (`x`), and the spiral of each point (`y`). */
export function spirals(count: number): data.Dataset {
  const points = new Float32Array(2 * count);
  const labels = new Int32Array(count);
  for (let index = 0; index < count; index++) {
    const label = index % 2;
    const distance = 0.1 + (0.9 * index) / count;
    const angle = 6 * distance + Math.PI * label;
    points.set([distance * Math.cos(angle), distance * Math.sin(angle)], 2 * index);
    labels[index] = label;
  }
  return data.fromArrays({ x: { shape: [count, 2], data: points }, y: { shape: [count], data: labels } });
}
