/** @module What identifies the library's code to a cache. */
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

/** The names of the bundle's files, which follow from their content. Undefined for single modules, which change alone. */
export const libraryDigest: string | undefined = digestOfBundle();

function digestOfBundle(): string | undefined {
  // Undefined in a CommonJS bundle.
  const place = import.meta.url as string | undefined;
  const file = place?.startsWith("file:") === true ? fileURLToPath(place) : "";
  if (!/[\\/]dist[\\/]node[\\/]chunk-\w+\.js$/.test(file)) return undefined;
  return createHash("sha256")
    .update(readdirSync(dirname(file)).sort().join("\n"))
    .digest("hex");
}
