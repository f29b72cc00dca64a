/** @module The formulas of the compressors on plain arrays, and of the exchange around them. */
import { random, type Tensor } from "heddle";

/** The gradients of each device, and of their sum, that a compressor gives. */
export interface Sent {
  readonly own: readonly number[][];
  readonly total: readonly number[];
}

/** A compressor on plain arrays: a row of each device. `state` may be changed. */
export type Reference = (rows: readonly number[][], given: ReferenceGiven) => Sent | Promise<Sent>;

export interface ReferenceGiven {
  readonly shape: readonly number[];
  readonly key: Tensor;
  readonly state: Map<string, number[]>;
}

const sumOf = (rows: readonly (readonly number[])[]): number[] =>
  (rows[0] as number[]).map((_one, index) => rows.reduce((sum, row) => sum + (row[index] as number), 0));

const each =
  (decode: (row: readonly number[]) => number[]) =>
  (rows: readonly number[][]): Sent => {
    const own = rows.map(decode);
    return { own, total: sumOf(own) };
  };

/** Rounds to so many significant bits, half to even; exponents below `least` lose bits. */
const roundTo =
  (bits: number, least: number) =>
  (x: number): number => {
    if (x === 0) return 0;
    const unit = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), least) - bits + 1);
    const scaled = x / unit;
    const low = Math.floor(scaled);
    const up = scaled - low > 0.5 || (scaled - low === 0.5 && low % 2 !== 0);
    return (up ? low + 1 : low) * unit;
  };

/** Sums of 16-bit floats are rounded after each addition, in the order of the devices. */
const cast =
  (round: (x: number) => number): Reference =>
  (rows) => {
    const own = rows.map((row) => row.map(round));
    return {
      own,
      total: own
        .slice(1)
        .reduce((sum, row) => sum.map((x, index) => round(x + (row[index] as number))), own[0] as number[]),
    };
  };

const levels = (row: readonly number[], block: number, up: (index: number) => number): number[] =>
  row.map((x, index) => {
    const first = index - (index % block);
    const scale = Math.max(...row.slice(first, first + block).map(Math.abs)) / 127;
    return scale === 0 ? 0 : Math.max(Math.min(Math.floor(x / scale + up(index)), 127), -127) * scale;
  });

const order = (row: readonly number[], by: (x: number) => number): number[] =>
  row
    .map((_x, index) => index)
    .sort((left, right) => by(row[right] as number) - by(row[left] as number) || left - right);

const keep = (row: readonly number[], indices: readonly number[]): number[] => {
  const kept = row.map(() => 0);
  for (const index of indices) kept[index] = row[index] as number;
  return kept;
};

const mean = (list: readonly number[]): number =>
  list.length === 0 ? 0 : list.reduce((sum, x) => sum + x, 0) / list.length;

/** Columns made orthonormal, one after another. */
function orthonormal(m: number[][]): number[][] {
  const rank = m[0]?.length as number;
  const columns: number[][] = [];
  for (let c = 0; c < rank; c++) {
    let column = m.map((row) => row[c] as number);
    for (const other of [...columns, ...columns]) {
      const along = column.reduce((sum, x, index) => sum + x * (other[index] as number), 0);
      column = column.map((x, index) => x - along * (other[index] as number));
    }
    const norm = Math.sqrt(column.reduce((sum, x) => sum + x * x, 0));
    columns.push(column.map((x) => x / norm));
  }
  return m.map((_row, r) => columns.map((column) => column[r] as number));
}

const product = (x: number[][], y: number[][]): number[][] =>
  x.map((row) =>
    (y[0] as number[]).map((_one, c) => row.reduce((sum, value, k) => sum + value * (y[k]?.[c] as number), 0)),
  );
const transposed = (x: number[][]): number[][] => (x[0] as number[]).map((_one, c) => x.map((row) => row[c] as number));
const matrix = (flat: readonly number[], columns: number): number[][] =>
  Array.from({ length: flat.length / columns }, (_unused, r) => flat.slice(r * columns, (r + 1) * columns));

const powerSgd =
  (rank: number): Reference =>
  (rows, { shape, state }) => {
    const columns = shape.slice(1).reduce((size, dim) => size * dim, 1);
    const right = matrix(state.get("right") as number[], Math.min(rank, shape[0] as number, columns));
    const left = orthonormal(product(matrix(sumOf(rows), columns), right));
    const own = rows.map((row) => product(transposed(matrix(row, columns)), left));
    const decoded = own.map((q) => product(left, transposed(q)).flat());
    state.set("right", sumOf(own.map((q) => q.flat())));
    return { own: decoded, total: sumOf(decoded) };
  };

const countSketch =
  (depth: number, columns: number, ratio: number): Reference =>
  async (rows, { key }) => {
    const size = (rows[0] as number[]).length;
    const width = Math.ceil(size * columns);
    const words = Array.from((await random.bits(key, [depth, size]).data()) as Uint32Array);
    const cell = (row: number, index: number): number => ((words[row * size + index] as number) >>> 1) % width;
    const sign = (row: number, index: number): number => ((words[row * size + index] as number) % 2 === 0 ? 1 : -1);
    const gradient = sumOf(rows);
    const table = Array.from({ length: depth }, (_unused, row) => {
      const sums = new Array<number>(width).fill(0);
      gradient.forEach((x, index) => {
        sums[cell(row, index)] = (sums[cell(row, index)] as number) + x * sign(row, index);
      });
      return sums;
    });
    const estimates = gradient.map(
      (_x, index) =>
        table
          .map((sums, row) => (sums[cell(row, index)] as number) * sign(row, index))
          .sort((left, right) => left - right)[(depth - 1) / 2] as number,
    );
    const largest = order(estimates, Math.abs).slice(0, Math.ceil(size * ratio));
    return each((row) => keep(row, largest))(rows);
  };

const quantiles = (buckets: number) =>
  each((row) => {
    const ascending = row
      .map((_x, index) => index)
      .sort((l, r) => Math.abs(row[l] as number) - Math.abs(row[r] as number) || l - r);
    const per = Math.ceil(row.length / buckets);
    const decoded = row.map(() => 0);
    for (let first = 0; first < row.length; first += per) {
      const inside = ascending.slice(first, first + per);
      const magnitude = mean(inside.map((index) => Math.abs(row[index] as number)));
      for (const index of inside) decoded[index] = (row[index] as number) < 0 ? -magnitude : magnitude;
    }
    return decoded;
  });

/** The hash of a row of a sketch: products modulo 2^32. */
const hash = (key: number, row: number, width: number): number => {
  const mixed = Math.imul(key, (Math.imul(row, 0x9e3779b2) + 0x85ebca6b) | 0) >>> 0;
  return (Math.imul((mixed ^ (mixed >>> 15)) >>> 0, 0x2c1b3c6d) >>> 8) % width;
};

const sketchMl = (ratio: number, groups: number, buckets: number, depth: number, columns: number) =>
  each((row) => {
    const k = Math.ceil(Math.ceil(row.length * ratio) / groups);
    const width = Math.ceil(k * columns);
    const top = order(row, Math.abs).slice(0, groups * k);
    const decoded = row.map(() => 0);
    for (let group = 0; group < groups; group++) {
      const keys = top.slice(group * k, (group + 1) * k).reverse();
      const per = Math.ceil(k / buckets);
      const means = Array.from({ length: Math.ceil(k / per) }, (_unused, bucket) =>
        mean(keys.slice(bucket * per, (bucket + 1) * per).map((key) => Math.abs(row[key] as number))),
      );
      const cells = Array.from({ length: depth }, () => new Array<number>(width).fill(buckets - 1));
      keys.forEach((key, place) => {
        cells.forEach((sketch, line) => {
          const at = hash(key, line, width);
          sketch[at] = Math.min(sketch[at] as number, Math.floor(place / per));
        });
      });
      for (const key of keys) {
        const bucket = Math.max(...cells.map((sketch, line) => sketch[hash(key, line, width)] as number));
        decoded[key] = Math.sign(row[key] as number) * (means[bucket] as number);
      }
    }
    return decoded;
  });

const sign = each((row) => {
  const scale = mean(row.map(Math.abs));
  return row.map((x) => (x >= 0 ? scale : -scale));
});

const oneBit: Reference = (rows, { shape }) => {
  const line = (rows[0] as number[]).length / (shape[0] as number);
  return each((row) =>
    matrix(row, line).flatMap((part) => {
      const [high, low] = [mean(part.filter((x) => x >= 0)), mean(part.filter((x) => x < 0))];
      return part.map((x) => (x >= 0 ? high : low));
    }),
  )(rows);
};

const topK = (ratio: number) => each((row) => keep(row, order(row, Math.abs).slice(0, Math.ceil(row.length * ratio))));

const randomK =
  (ratio: number): Reference =>
  async (rows, { key }) => {
    const size = (rows[0] as number[]).length;
    const draws = Array.from(await random.uniform(key, [size], { dtype: "f32" }).data());
    const indices = order(draws, (x) => x).slice(0, Math.ceil(size * ratio));
    return each((row) => keep(row, indices))(rows);
  };

const nearest = (block: number) => each((row) => levels(row, block, () => 0.5));

const stochastic =
  (block: number): Reference =>
  async (rows, { key }) => {
    const blocks = Math.ceil((rows[0] as number[]).length / block);
    const draws = Array.from(await random.uniform(key, [rows.length, blocks, block], { dtype: "f64" }).data());
    const own = rows.map((row, device) =>
      levels(row, block, (index) => draws[device * blocks * block + index] as number),
    );
    return { own, total: sumOf(own) };
  };

export const references = {
  bf16: cast(roundTo(8, -126)),
  f16: cast(roundTo(11, -14)),
  nearest,
  stochastic,
  sign,
  oneBit,
  topK,
  randomK,
  powerSgd,
  countSketch,
  quantiles,
  sketchMl,
};

/** The exchange around a compressor. */
export interface ReferenceExchange {
  readonly by: Reference;
  readonly feedback: boolean;
  readonly momentum?: number;
  readonly masking?: boolean;
  readonly clip?: number;
}

/** Runs an exchange over steps: what each step's sum is, and what each device has kept after it. */
export class ExchangeOnArrays {
  readonly residual: number[][];
  readonly momentum: number[][];
  private readonly how: ReferenceExchange;

  constructor(how: ReferenceExchange, devices: number, size: number) {
    this.how = how;
    this.residual = Array.from({ length: devices }, () => new Array<number>(size).fill(0));
    this.momentum = Array.from({ length: devices }, () => new Array<number>(size).fill(0));
  }

  async step(gradients: readonly number[][], given: ReferenceGiven): Promise<readonly number[]> {
    const { by, feedback, momentum = 0, masking = false, clip } = this.how;
    const devices = gradients.length;
    const wanted = gradients.map((gradient, device) => {
      const norm = Math.sqrt(gradient.reduce((sum, x) => sum + x * x, 0));
      const factor = clip === undefined ? 1 : Math.min(1, clip / Math.sqrt(devices) / (norm + 1e-6));
      return gradient.map((x, index) => {
        const buffers = this.momentum[device] as number[];
        buffers[index] = momentum * (buffers[index] as number) + x * factor;
        return ((this.residual[device] as number[])[index] as number) + (buffers[index] as number);
      });
    });
    const { own, total } = await by(wanted, given);
    wanted.forEach((row, device) => {
      row.forEach((x, index) => {
        const sent = (own[device] as number[])[index] as number;
        if (feedback) (this.residual[device] as number[])[index] = x - sent;
        if (masking && sent !== 0) (this.momentum[device] as number[])[index] = 0;
      });
    });
    return total;
  }
}
