/** @module What the cores can do, as `heddle profile` measures it: the limits with which every row is compared. */
import { spawnSync } from "node:child_process";
import { heddleProfile, onCores } from "./commands.ts";

/** Operations and bytes in a second. */
export interface Limits {
  /** Multiply-adds of f32 in registers, two operations each. */
  readonly flops: number;
  /** `a = b + s c` in memory. */
  readonly bytes: number;
}

/** Times that the limits are measured; the best counts, as other work on the machine makes them look lower. */
const tries = 2;

export function measureLimits(threads: number): Limits {
  const found = Array.from({ length: tries }, () => {
    const { program, args } = onCores(heddleProfile("limits.ts", threads), threads);
    const { status, stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
    if (status !== 0) throw new Error(`the machine's limits could not be measured\n${stderr}`);
    return (JSON.parse(stdout) as { readonly limits: Limits }).limits;
  });
  const best = (name: keyof Limits): number => Math.max(...found.map((limits) => limits[name]));
  return { flops: best("flops"), bytes: best("bytes") };
}

/** Work of a step. */
export interface Work {
  readonly flops: number;
  readonly bytes: number;
}

/** The time that a step takes at the limit that binds (the roofline) over the time that it takes; undefined without work. */
export function shareOfLimit({ flops, bytes }: Work, milliseconds: number, limits: Limits): number | undefined {
  const seconds = Math.max(flops / limits.flops, bytes / limits.bytes);
  return seconds === 0 ? undefined : (1000 * seconds) / milliseconds;
}
