/** What every driver of storage must do: the same tests for each. */
import { beforeEach, describe, expect, test } from "vitest";
import { openParts } from "../../src/checkpoints/open.ts";
import { listIn, removeOld } from "../../src/checkpoints/series.ts";
import { readSmall, type Storage } from "../../src/checkpoints/storage.ts";
import type { CommitContent } from "../../src/io/commit.ts";
import { expectParts, saveParts } from "./parts-state.ts";

const content = (text: string): CommitContent => ({ bytes: Buffer.byteLength(text), chunks: [Buffer.from(text)] });
const large = 21 * 2 ** 20 + 5;

const block = Uint8Array.from({ length: 100_003 }, (_unused, at) => at % 253);

/** Bytes that differ by place, in chunks of an odd size. */
function* numbered(bytes: number): Generator<Uint8Array> {
  for (let start = 0; start < bytes; start += block.length) {
    const chunk = block.slice(0, bytes - start);
    chunk[0] = (start / block.length) % 256;
    yield chunk;
  }
}

/** Runs the tests on places that `make` gives, an empty one each time; `inside` is the storage of a folder of it. */
export function conforms(
  name: string,
  make: () => Promise<{ readonly storage: Storage; readonly inside: (folder: string) => Promise<Storage> }>,
): void {
  let storage: Storage;
  let inside: (folder: string) => Promise<Storage>;
  beforeEach(async () => {
    ({ storage, inside } = await make());
  });
  const text = async (file: string): Promise<string> =>
    new TextDecoder().decode(await readSmall(storage, file, 2 ** 20));

  describe(`${name} as storage`, () => {
    test("lists files and folders by their names; nothing is an empty list", async () => {
      expect(await storage.list("")).toEqual([]);
      expect(await storage.list("none/at all")).toEqual([]);
      for (const file of ["a.json", "step-1/b", "step-1/c", "step-1/deep/d"]) await storage.write(file, content(file));
      expect([...(await storage.list(""))].sort()).toEqual(["a.json", "step-1"]);
      expect([...(await storage.list("step-1"))].sort()).toEqual(["b", "c", "deep"]);
    });

    test("writes, replaces and reads any range", async () => {
      await storage.write("x/y", content("hello"));
      await storage.write("x/y", content("replaced"));
      const file = await storage.open("x/y");
      expect(file.bytes).toBe(8);
      expect(Buffer.from(await file.read(2, 3)).toString()).toBe("pla");
      expect(Buffer.from(await file.read(0, 8)).toString()).toBe("replaced");
      expect(await file.read(3, 0)).toHaveLength(0);
      await expect(file.read(5, 4)).rejects.toMatchObject({ code: "format" });
      await file.close();
      await storage.write("empty", content(""));
      expect(await text("empty")).toBe("");
    });

    test("writes what is larger than one message, and a patch over its beginning", async () => {
      const all = Buffer.concat([...numbered(large)]);
      await storage.write("plain", { bytes: large, chunks: numbered(large) });
      const patch = () => ({ position: 3, bytes: Buffer.from("PATCH") });
      await storage.write("patched", { bytes: large, chunks: numbered(large), patch });
      for (const name of ["plain", "patched"]) {
        const file = await storage.open(name);
        expect(file.bytes).toBe(large);
        const read = Buffer.from(await file.read(0, large));
        expect(Buffer.compare(read, all), name).toBe(0);
        await file.close();
        // The second is compared with the patch in place.
        all.write("PATCH", 3);
      }
    });

    test("an aborted write leaves what was there", async () => {
      await storage.write("x", content("before"));
      const controller = new AbortController();
      function* aborting(): Generator<Uint8Array> {
        yield* numbered(large);
        controller.abort(new Error("stop"));
        yield new Uint8Array(1);
      }
      const write = storage.write("x", { bytes: large + 1, chunks: aborting() }, { signal: controller.signal });
      await expect(write).rejects.toThrow();
      expect(await text("x")).toBe("before");
    });

    test("what is missing is an error with ENOENT in its cause; its age is undefined", async () => {
      await expect(storage.open("none")).rejects.toMatchObject({ code: "file", cause: { code: "ENOENT" } });
      expect(await storage.age("none")).toBeUndefined();
      await storage.remove("none");
    });

    test("age is that of the last write", async () => {
      await storage.write("x", content("x"));
      // Clocks of stores count whole seconds.
      expect(await storage.age("x")).toBeLessThan(60_000);
      expect(await storage.age("x")).toBeGreaterThan(-5000);
    });

    test("of many that create one name at once one does", async () => {
      const made = await Promise.all(
        Array.from({ length: 8 }, (_unused, at) => storage.create("lock", Buffer.from(`${at}`))),
      );
      expect(made.filter((one) => one)).toHaveLength(1);
      expect(await text("lock")).toBe(`${made.indexOf(true)}`);
      expect(await storage.create("lock", Buffer.from("late"))).toBe(false);
      await storage.remove("lock");
      expect(await storage.create("lock", Buffer.from("next"))).toBe(true);
      expect(await text("lock")).toBe("next");
    });

    test("removes a folder with what is in it, and nothing beside it", async () => {
      for (const file of ["step-1/a", "step-1/b/c", "step-10/a"]) await storage.write(file, content(file));
      await storage.remove("step-1");
      expect(await storage.list("")).toEqual(["step-10"]);
      expect(await storage.list("step-1")).toEqual([]);
    });

    test("keeps checkpoints in parts", async () => {
      for (const step of [1, 2, 3]) await saveParts(storage, step);
      await saveParts(storage, 3, "again");
      expect((await removeOld(storage, 3, { newest: 2 })).warnings).toEqual([]);
      expect((await listIn(storage)).map(({ step }) => step)).toEqual([3, 2]);
      const checkpoint = await openParts(await inside("step-00000003"));
      await expectParts(checkpoint, 3);
      await checkpoint.close();
    });
  });
}
