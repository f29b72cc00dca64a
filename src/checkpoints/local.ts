/** @module A folder of this machine as a place for checkpoints. */
import { link, stat, unlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type CommitFiles, nodeFiles } from "../io/commit.ts";
import { fill, openFile, reasons } from "../io/read.ts";
import { writeWhole } from "../io/write.ts";
import { HeddleError } from "../util/errors.ts";
import type { Storage } from "./storage.ts";

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;
let created = 0;
/** What file systems answer that have no links. */
const noLinks: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"]);

/** The storage of a folder, which is made at the first write. `files` is the file system, where tests put faults. */
export function localStorage(folder: string, files: CommitFiles = nodeFiles): Storage {
  const place = resolve(folder);
  const path = (name: string): string => join(place, name);
  const failed = (what: string, name: string, error: unknown): HeddleError =>
    new HeddleError(
      "file",
      `cannot ${what} ${path(name)}: ${reasons[codeOf(error) ?? ""] ?? (error as Error).message}`,
      {
        cause: error,
      },
    );
  return {
    place,
    folder: place,
    list: (name) =>
      files.list(path(name)).catch((error: unknown) => {
        // A file is not a folder of checkpoints.
        if (["ENOENT", "ENOTDIR"].includes(codeOf(error) ?? "")) return [];
        throw failed("read the folder", name, error);
      }),
    open: async (name) => {
      const handle = await openFile("checkpoint", path(name));
      const { size } = await handle.stat();
      const cut = () => new HeddleError("format", `${path(name)} ends before byte ${size}`);
      return {
        bytes: size,
        read: async (offset, length, signal, into) => {
          const bytes = into ?? new Uint8Array(length);
          try {
            await fill(handle, bytes, offset, cut, { signal });
          } catch (error) {
            if (error instanceof HeddleError || codeOf(error) === undefined) throw error;
            throw failed("read", name, error);
          }
          return bytes;
        },
        close: () => handle.close(),
      };
    },
    write: (name, content, options = {}) => writeWhole("checkpoint", path(name), content, { ...options, files }),
    create: async (name, bytes) => {
      await files.makeFolder(place);
      const fill = async (path: string): Promise<void> => {
        const file = await files.create(path);
        try {
          await file.write(bytes, 0);
          await file.sync();
        } finally {
          await file.close();
        }
      };
      // A link appears with its content, or not at all; an exclusive open would appear empty.
      const temporary = `${path(name)}.${process.pid}-${created++}.tmp`;
      try {
        await fill(temporary);
        await link(temporary, path(name)).catch(async (error: unknown) => {
          // Whoever removes what killed processes left may take a process of another container for such a process.
          if (codeOf(error) === "ENOENT") {
            await fill(temporary);
            return link(temporary, path(name));
          }
          if (!noLinks.has(codeOf(error) ?? "")) throw error;
          return fill(path(name));
        });
        return true;
      } catch (error) {
        if (codeOf(error) === "EEXIST") return false;
        throw failed("write", name, error);
      } finally {
        await unlink(temporary).catch(() => undefined);
      }
    },
    remove: (name) => files.remove(path(name)),
    age: async (name) => {
      try {
        return Date.now() - (await stat(path(name))).mtimeMs;
      } catch (error) {
        if (codeOf(error) === "ENOENT") return undefined;
        throw failed("read", name, error);
      }
    },
  };
}
