/** Uses the cache in a folder as fast as it can; a value that is not the one of its key is an error. */
import { DiskCache } from "../../../src/cache/entries.ts";

const cache = new DiskCache(process.argv[2] as string, "library", { bytes: 200_000, files: 10 });
for (let round = 0; round < 1000; round++) {
  const key = (round * 7) % 30;
  const found = cache.get(`${key}`, () => ({ key, filling: `${key} `.repeat(5000) }));
  if (found.key !== key || found.filling !== `${key} `.repeat(5000)) throw new Error(`another value for ${key}`);
}
