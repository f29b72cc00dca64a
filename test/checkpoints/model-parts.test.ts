/** Parts of a model with checkpoints of their own. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io, nn, train } from "heddle";
import { afterEach, beforeEach, expect, test } from "vitest";
import { listCheckpoints, loadCheckpoint } from "../../src/checkpoints/index.ts";
import { flattenTree } from "../../src/util/tree.ts";
import { convnet, options } from "../train/synthetic.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "heddle-model-parts-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const steps = async (name: string): Promise<number[]> =>
  (await listCheckpoints(join(directory, name))).map(({ step }) => step).reverse();

test.each(["file", "parts"] as const)(
  "each has its interval and its number, in %s; the training resumes",
  async (format) => {
    const head = { only: "7", every: 2, keep: 2 };
    const checkpoint = { directory, format, parts: { head, body: { only: ["**", "!7"], every: "end" } } } as const;
    const given = options({ model: convnet(), epochs: 2, checkpoint, trainable: "7" });
    const result = await train(given);
    expect(result.steps % 2).toBe(0);
    expect(await steps("")).toEqual([result.steps / 2, result.steps]);
    expect(await steps("head")).toEqual([result.steps - 2, result.steps]);
    expect(await steps("body")).toEqual([result.steps]);
    const newest = (await listCheckpoints(join(directory, "head")))[0]?.path as string;
    expect([...(await loadCheckpoint(newest)).tensors.keys()].sort()).toEqual(["params/7.bias", "params/7.weight"]);
    await expect(train({ ...given, resume: newest })).rejects.toThrow("it has no params/0.weight");
    const more = await train({ ...given, epochs: 3, resume: true });
    expect(more.steps).toBe((result.steps * 3) / 2);
    expect(await steps("head")).toHaveLength(2);
    for (const name of ["", "head"])
      expect(readdirSync(join(directory, name)).filter((entry) => entry.startsWith("earlier"))).toEqual([]);

    // The part alone, and into another model under another name.
    const variables = { input: [1, 1, 8, 8] };
    const alone = await io.loadVariables(join(directory, "head"), convnet(), { ...variables, only: "7" });
    const weightOf = async (params: object, path: string): Promise<unknown> => {
      const { leaves, paths } = flattenTree(
        params,
        (value): value is { data(): Promise<unknown> } => "data" in (value as object),
      );
      return leaves[paths.indexOf(path)]?.data();
    };
    expect(await weightOf(alone.params, "7.weight")).toEqual(await weightOf(more.params, "7.weight"));
    const other = nn.sequential(nn.linear(4), nn.linear(3));
    const last = (await listCheckpoints(join(directory, "head")))[0]?.path as string;
    const width = ((await loadCheckpoint(last)).tensors.get("params/7.weight")?.shape[1] ?? 0) as number;
    const into = await io.loadVariables(join(directory, "head"), nn.linear(3), {
      input: [1, width],
      names: { "": "7" },
    });
    expect(await weightOf(into.params, "weight")).toEqual(await weightOf(more.params, "7.weight"));
    // What is missing and what is left over is listed.
    await expect(io.loadVariables(join(directory, "head"), other, { input: [1, 8] })).rejects.toThrow(
      /missing: "0\.weight"[\s\S]*unexpected: "7\.\w+" of the file has no variable here/,
    );
  },
);

test.each<[object, string]>([
  [{ head: { only: "none" } }, 'checkpoint.parts.head.only: "none" matches none of the names'],
  [{ head: {} }, "checkpoint.parts.head.only: must be a pattern"],
  [{ head: { only: "**", evry: 1 } }, "checkpoint.parts.head: unknown option 'evry'"],
  [{ head: { only: "**", every: "start" } }, "checkpoint.parts.head.every must be a number"],
  [{ "../head": { only: "**" } }, 'checkpoint.parts has "../head", which is not the name of a folder here'],
])("refuses %o", async (parts, message) => {
  await expect(train(options({ epochs: 1, checkpoint: { directory, parts } as never }))).rejects.toThrow(message);
});
