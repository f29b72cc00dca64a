/** Strangers at the port where a rank waits for the others: they cost the run nothing. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { loadNative } from "../../src/executors/native/binding.ts";
import { started } from "../cli/heddle-process.ts";

const script = fileURLToPath(new URL("./scripts/join-later.ts", import.meta.url));

/** The ports of 127.0.0.1 on which a process listens. */
function portsOf(pid: number): number[] {
  const sockets = readdirSync(`/proc/${pid}/fd`).flatMap((name) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${name}`))?.[1] ?? [];
    } catch {
      return [];
    }
  });
  const lines = readFileSync("/proc/net/tcp", "utf8").trim().split("\n").slice(1);
  return lines.flatMap((line) => {
    const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
    return state === "0A" && sockets.includes(inode) ? [Number.parseInt(local.split(":")[1] as string, 16)] : [];
  });
}

async function until<T>(look: () => T | undefined): Promise<T> {
  for (let tries = 0; tries < 1500; tries++) {
    const found = look();
    if (found !== undefined) return found;
    await sleep(20);
  }
  throw new Error("it did not come within 30 seconds");
}

test.skipIf("error" in loadNative() || process.platform !== "linux").each([
  ["silent ones", Buffer.alloc(0)],
  ["ones that stop inside their hello", Buffer.from("HEDDLE\r\n\x01\x00\x02")],
])(
  "%s",
  async (_what, says) => {
    const folder = mkdtempSync(join(tmpdir(), "heddle-strangers-"));
    const strangers: Socket[] = [];
    try {
      const run = started(["run", script, "--workers", "2", "-t", "1", "--", folder]);
      const pid = await until(() =>
        existsSync(join(folder, "pid-0"))
          ? Number(readFileSync(join(folder, "pid-0"), "utf8")) || undefined
          : undefined,
      );
      const port = await until(() => portsOf(pid)[0]);
      for (let count = 0; count < 300; count++) {
        const stranger = connect(port, "127.0.0.1");
        // Those that make room for others see the end of their connection.
        stranger.on("error", () => {});
        if (says.length > 0) stranger.write(says);
        strangers.push(stranger);
      }
      await until(() => (strangers.every(({ connecting }) => !connecting) ? true : undefined));
      writeFileSync(join(folder, "go"), "");
      const { status, stdout, stderr } = await run.ended;
      expect(status, stderr).toBe(0);
      expect(stdout.match(/sum 2/g)).toHaveLength(2);
    } finally {
      for (const stranger of strangers) stranger.destroy();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  60_000,
);
