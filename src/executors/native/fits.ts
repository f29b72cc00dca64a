/** @module Checks whether programs fit into the memory of this process. */
import { formatType } from "../../ir/shape.ts";
import type { LoweredProgram } from "../../lower/index.ts";
import { HeddleError } from "../../util/errors.ts";
import { memoryLimit } from "../../util/process.ts";
import { formatBytes } from "../../util/text.ts";

const shownValues = 5;

/**
 * Refuses programs of this process's devices that cannot fit.
 *
 * @throws HeddleError `memory` with the need, the limit and the largest values.
 */
export function checkFits(name: string, programs: readonly LoweredProgram[]): void {
  const needed = programs.reduce((total, { peakBytes }) => total + peakBytes, 0);
  const limit = memoryLimit();
  if (needed <= limit) return;
  const largest = programs.reduce((max, code) => (code.peakBytes > max.peakBytes ? code : max));
  const argumentValues = largest.arguments.map(({ name, type, input, bytes }) => ({
    label: `${input === undefined ? "the result" : name} ${formatType(type)}`,
    bytes,
  }));
  const values = [...argumentValues, ...largest.peak.largest]
    .sort((left, right) => right.bytes - left.bytes)
    .slice(0, shownValues)
    .map(({ label, bytes }) => `${label} (${formatBytes(bytes)})`);
  const devices = programs.length === 1 ? "" : ` on ${programs.length} devices`;
  throw new HeddleError(
    "memory",
    `${name} needs ${formatBytes(needed)} of memory${devices}, and this process may use ${formatBytes(limit)}; ` +
      `its largest values are ${values.join(", ")}`,
    {
      hint: "use smaller batches (train's accumulate keeps their sum), or a higher HEDDLE_MEMORY",
    },
  );
}
