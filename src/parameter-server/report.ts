/** @module What was measured of a run on servers, as lines for people. */
import type { RunStatistics } from "./client.ts";

const seconds = (value: number): string => (value < 1 ? `${(1000 * value).toFixed(1)} ms` : `${value.toFixed(1)} s`);
const bytes = (value: number): string =>
  value < 1e6 ? `${(value / 1e3).toFixed(1)} KB` : `${(value / 1e6).toFixed(1)} MB`;

/** Lines about staleness, workers and their waits, and the bytes of the servers. */
export function describeStatistics({
  policy,
  steps,
  staleness,
  dropped,
  workers,
  servers,
  tables,
}: RunStatistics): string[] {
  const ages = Object.entries(staleness);
  const pushes = ages.reduce((sum, [, count]) => sum + count, 0);
  const mean = ages.reduce((sum, [age, count]) => sum + Number(age) * count, 0) / Math.max(1, pushes);
  const histogram = ages.map(([age, count]) => `${age}: ${count}`).join(", ");
  const lines = [
    `servers: policy ${policy}, ${steps} steps of ${pushes} pushes${dropped === 0 ? "" : `, ${dropped} dropped`}; ` +
      `staleness in steps ${mean.toFixed(2)} in the mean (${histogram})`,
  ];
  for (const { worker, clocks, rows, secondsPerClock, waited } of workers) {
    const waits = Object.entries(waited).filter(([, time]) => time > 0);
    const total = waits.reduce((sum, [, time]) => sum + time, 0);
    const [most] = waits.sort(([, a], [, b]) => b - a);
    const cause =
      most === undefined || most[0] === String(worker) ? "" : `, most of it while worker ${most[0]} was slowest`;
    lines.push(
      `  worker ${worker}: ${clocks} clocks of ${seconds(secondsPerClock)}, ${rows} rows; waited ${seconds(total)}${cause}`,
    );
  }
  for (const [index, { received, sent, rows }] of servers.entries()) {
    const kept = tables.map((table, at) => `; ${rows[at]} rows of '${table}'`).join("");
    lines.push(`  server ${index}: received ${bytes(received)}, sent ${bytes(sent)}${kept}`);
  }
  return lines;
}
