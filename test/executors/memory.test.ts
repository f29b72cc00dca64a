import { memory, random, zeros } from "heddle";
import { afterEach, expect, test, vi } from "vitest";

afterEach(() => vi.unstubAllEnvs());

test("memory() counts what values hold, until they are let go of", async () => {
  // The device's arena grows with the first program that needs it, and stays.
  // What it made is held throughout: when the collector comes for it, nobody knows.
  using key = random.key(1);
  using first = random.uniform(key, [100, 1000]);
  await first.data();
  const before = memory();
  {
    using x = random.uniform(key, [100, 1000]);
    await x.data();
    const within = memory();
    expect(within.liveBuffers).toBeGreaterThan(before.liveBuffers);
    expect(within.liveBytes - before.liveBytes).toBeGreaterThanOrEqual(400_000);
    expect(within.peakBytes).toBeGreaterThanOrEqual(within.liveBytes);
  }
  expect(memory().liveBytes).toBeLessThan(before.liveBytes + 4096);
});

test("a program that cannot fit is refused before it runs, with its largest values", async () => {
  vi.stubEnv("HEDDLE_MEMORY", "100MB");
  const x = zeros([1000, 2]);
  const large = (): Promise<number> =>
    x
      .matmul(zeros([2, 100_000]))
      .sum()
      .item();
  await expect((async () => large())()).rejects.toThrow(
    /matmul needs 400\.8 MB of memory, and this process may use 100\.0 MB; its largest values are the result f32\[1000,100000\] \(400\.0 MB\), x1/,
  );
});

test.each(["100", "8XB", "-1GB", "0B"])("HEDDLE_MEMORY=%s is refused", async (value) => {
  vi.stubEnv("HEDDLE_MEMORY", value);
  await expect((async () => zeros([3]).add(1).exp().mul(7).item())()).rejects.toThrow("HEDDLE_MEMORY");
});
