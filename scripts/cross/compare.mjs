// Compares the results of two machines, as test/native/results-child.ts writes them.

const views = {
  f32: Float32Array,
  f16: Float32Array,
  bf16: Float32Array,
  f64: Float64Array,
  i8: Int8Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
};

const numbersOf = ([dtype, base64]) => {
  const bytes = Buffer.from(base64, "base64");
  const View = views[dtype] ?? Uint8Array;
  return [...new View(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))].map(Number);
};

/** The distance of two numbers, relative to 1 + |value|; two NaN are equal. */
function distance(a, b) {
  if (Object.is(a, b)) return 0;
  const apart = Math.abs(a - b) / (1 + Math.abs(a));
  return Number.isNaN(apart) ? Number.POSITIVE_INFINITY : Math.max(apart, Number.MIN_VALUE);
}

/** The rows whose numbers differ, the largest distance first, each with its largest distance. */
export function differences(own, other) {
  const otherResults = new Map(other.map(({ name, results }) => [name, results]));
  if (otherResults.size !== own.length) throw new Error(`${own.length} rows here, ${otherResults.size} there`);
  const rows = own.map(({ name, results }) => {
    const others = otherResults.get(name);
    if (others?.length !== results.length) throw new Error(`${name} has other results there`);
    const apart = results.map((result, index) => {
      if (result[1] === others[index][1]) return 0;
      const [a, b] = [numbersOf(result), numbersOf(others[index])];
      if (a.length !== b.length) return Number.POSITIVE_INFINITY;
      return a.reduce((largest, value, index) => Math.max(largest, distance(value, b[index])), 0);
    });
    return { name, apart: Math.max(0, ...apart) };
  });
  return rows.filter(({ apart }) => apart > 0).sort((a, b) => b.apart - a.apart);
}
