/** @module Making folders. */
import { mkdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );

/**
 * Makes a folder and the missing folders above it. Node's own `mkdir` with `recursive` never returns where the system refuses a folder
 * with ENOENT although its parent exists, as Linux does in `/proc`.
 *
 * @returns the topmost folder that was made; undefined when `path` was a folder already
 * @throws the error of the system when the folder cannot be made
 */
export async function makeFolder(path: string): Promise<string | undefined> {
  const folder = resolve(path);
  try {
    await mkdir(folder);
    return folder;
  } catch (error) {
    if (await isFolder(folder)) return undefined;
    const parent = dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || parent === folder) throw error;
    const topmost = await makeFolder(parent);
    if (topmost !== undefined) {
      await makeFolder(folder);
      return topmost;
    }
    // Another process may have made the parent meanwhile.
    return mkdir(folder).then(
      () => folder,
      async () => {
        if (await isFolder(folder)) return undefined;
        throw error;
      },
    );
  }
}
