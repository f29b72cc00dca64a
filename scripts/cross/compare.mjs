// Compares what two machines computed, as test/native/results-child.ts writes it.

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

/** How far apart two numbers are, relative to 1 + |value|; no NaN differs from another. */
function distance(a, b) {
  if (Object.is(a, b)) return 0;
  const apart = Math.abs(a - b) / (1 + Math.abs(a));
  return Number.isNaN(apart) ? Number.POSITIVE_INFINITY : Math.max(apart, Number.MIN_VALUE);
}

/** The rows whose numbers differ, farthest first, each with how far apart they are at most. */
export function differences(ours, theirs) {
  const there = new Map(theirs.map(({ name, results }) => [name, results]));
  if (there.size !== ours.length) throw new Error(`${ours.length} rows here, ${there.size} there`);
  const rows = ours.map(({ name, results }) => {
    const others = there.get(name);
    if (others?.length !== results.length) throw new Error(`${name} has other results there`);
    const apart = results.map((result, index) => {
      if (result[1] === others[index][1]) return 0;
      const [a, b] = [numbersOf(result), numbersOf(others[index])];
      if (a.length !== b.length) return Number.POSITIVE_INFINITY;
      return a.reduce((most, value, at) => Math.max(most, distance(value, b[at])), 0);
    });
    return { name, apart: Math.max(0, ...apart) };
  });
  return rows.filter(({ apart }) => apart > 0).sort((a, b) => b.apart - a.apart);
}
