/** @module Canonical text of plain values, and small formatting helpers shared by printers and messages. */

/** Plain data, such as attributes. */
export type Plain = null | boolean | number | string | readonly Plain[] | { readonly [key: string]: Plain };

/** JSON with sorted keys in which NaN, infinities and -0 survive (as `"@nan"`, `"@inf"`, `"@-inf"`, `"@-0"`). */
export function canonicalJson(value: Plain): string {
  if (typeof value === "number")
    return Number.isFinite(value) && !Object.is(value, -0) ? String(value) : `"${specialName(value)}"`;
  // Callers report values that are not plain.
  if (typeof value === "bigint") return `"${value as bigint}n"`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] as Plain)}`).join(",")}}`;
}

/** The inverse of {@link canonicalJson}. */
export function parseCanonicalJson(text: string): Plain {
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === "string" && Object.hasOwn(specialValues, value)
      ? specialValues[value as keyof typeof specialValues]
      : value,
  ) as Plain;
}

const specialValues = { "@nan": Number.NaN, "@inf": Infinity, "@-inf": -Infinity, "@-0": -0 } as const;

function specialName(value: number): string {
  if (Number.isNaN(value)) return "@nan";
  if (value === 0) return "@-0";
  return value > 0 ? "@inf" : "@-inf";
}

function isArray(value: Plain): value is readonly Plain[] {
  return Array.isArray(value);
}

/** `1536` → `"1.5 KB"`; decimal units, as disks and networks count. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : 1)} ${units[unit]}`;
}

/** `1234567` → `"1,234,567"`. */
export function formatCount(count: number): string {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Joins names; if there are more than `limit`, the first ones and the number: `"a, b, … (18,000 in all)"`. */
export function listed(names: readonly string[], limit = 8): string {
  if (names.length <= limit) return names.join(", ");
  return `${names.slice(0, limit - 1).join(", ")}, … (${formatCount(names.length)} in all)`;
}

/** Rows as lines of aligned cells, indented by two; the columns of `right` are flush right. */
export function formatTable(rows: readonly (readonly string[])[], right: readonly number[] = []): string[] {
  const widths = (rows[0] ?? []).map((_cell, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) => {
    const cells = row.map((cell, column) =>
      right.includes(column) ? cell.padStart(widths[column] as number) : cell.padEnd(widths[column] as number),
    );
    return `  ${cells.join("  ")}`.trimEnd();
  });
}

/** `0.00123` → `"1.23 ms"`. */
export function formatTime(seconds: number): string {
  if (seconds === 0) return "0 s";
  const [scale, unit] = seconds < 1e-3 ? [1e6, "us"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
  return `${(seconds * scale).toPrecision(3)} ${unit}`;
}
