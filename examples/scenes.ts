/** Made-up pictures for the examples: one to three shapes on a noisy ground, with their boxes. */

export const kinds = ["square", "disc", "cross"] as const;
export const side = 32;

/** A shape and its box, in pixels: the left upper corner and the right lower one, which is outside. */
export interface Thing {
  readonly kind: number;
  readonly box: readonly [left: number, top: number, right: number, bottom: number];
}

export interface Scene {
  /** `[side, side]`, row by row, from 0 to 1. */
  readonly pixels: Float32Array;
  readonly things: readonly Thing[];
}

/** Numbers in [0, 1), the same for a seed (mulberry32). */
function uniformFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Whether a shape of this kind covers the point (x, y) of a box from -1 to 1. */
function covers(kind: number, x: number, y: number): boolean {
  if (kind === 0) return true;
  if (kind === 1) return x * x + y * y <= 1;
  return Math.abs(x) < 0.35 || Math.abs(y) < 0.35;
}

/** `count` scenes; shapes have sides of 7 to 11 pixels, and their boxes do not touch. */
export function scenes(count: number, seed: number): Scene[] {
  const uniform = uniformFrom(seed);
  const below = (limit: number): number => Math.floor(uniform() * limit);
  return Array.from({ length: count }, () => {
    const things: Thing[] = [];
    const pixels = Float32Array.from({ length: side * side }, () => 0.3 * uniform());
    const count = 1 + below(3);
    for (let attempt = 0; attempt < 20 && things.length < count; attempt++) {
      const size = 7 + below(5);
      const [left, top] = [below(side - size), below(side - size)];
      const [right, bottom] = [left + size, top + size];
      const apart = ({ box }: Thing): boolean => left > box[2] || right < box[0] || top > box[3] || bottom < box[1];
      if (!things.every(apart)) continue;
      const kind = below(kinds.length);
      things.push({ kind, box: [left, top, right, bottom] });
      const shade = 0.6 + 0.4 * uniform();
      const place = (index: number): number => (2 * (index + 0.5)) / size - 1;
      for (let row = 0; row < size; row++)
        for (let column = 0; column < size; column++)
          if (covers(kind, place(column), place(row))) pixels[(top + row) * side + left + column] = shade;
    }
    return { pixels, things };
  });
}
