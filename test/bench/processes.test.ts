/** The processes of peers: forks of one that has imported what they need, or processes of their own. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { peerFile } from "../../bench/commands.ts";
import { type Command, endedWithin, Processes, type Running } from "../../bench/processes.ts";

const hasPython = process.platform !== "win32" && spawnSync("python3", ["--version"]).status === 0;

/** A peer that says who has imported it, and does what its environment asks. */
const peer = `
import os, time

imported_by = os.getpid()

def main():
    print("greeting", os.environ["GREETING"], "forked", imported_by != os.getpid(), flush=True)
    if os.environ["THEN"] == "fail":
        raise ValueError("as asked")
    if os.environ["THEN"] == "wait":
        time.sleep(60)
`;

const reasonOf = (running: Running): Promise<string> =>
  running.failed.then(
    () => "none",
    ({ message }: Error) => message,
  );

test.skipIf(!hasPython).each([
  { forks: true, killed: "it ended (status -15)" },
  { forks: false, killed: "it ended (SIGTERM)" },
])("processes of Python end as asked, forks: $forks", { timeout: 30_000 }, async ({ forks, killed }) => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-bench-test-"));
  writeFileSync(join(folder, "fake_peer.py"), peer);
  const processes = new Processes(folder, forks);
  const start = (greeting: string, then: string): Promise<Running> => {
    const env = { PYTHONPATH: folder };
    const args = [peerFile("nursery.py"), "fake_peer"];
    const command: Command = { program: "python3", args, env, forkEnv: { GREETING: greeting, THEN: then } };
    return processes.start(command);
  };
  try {
    const [fine, failing, waiting] = [await start("a", "end"), await start("b", "fail"), await start("c", "wait")];
    expect(await reasonOf(fine)).toBe("it ended (status 0)");
    expect(fine.output()).toBe(`greeting a forked ${forks ? "True" : "False"}\n`);
    expect(await reasonOf(failing)).toBe("it ended (status 1)");
    expect(failing.output()).toContain("ValueError: as asked");
    await expect.poll(() => waiting.output(), { timeout: 10_000 }).toContain("greeting c");
    waiting.kill();
    expect(await reasonOf(waiting)).toBe(killed);
    const stuck = await start("d", "wait");
    await expect.poll(() => stuck.output(), { timeout: 10_000 }).toContain("greeting d");
    await endedWithin(stuck, 0.01);
    expect(await reasonOf(stuck)).toMatch(/-9|SIGKILL/);
  } finally {
    processes.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test.skipIf(!hasPython)("a module that cannot be imported is told to all that are forks of it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-bench-test-"));
  const processes = new Processes(folder, true);
  try {
    const command: Command = { program: "python3", args: [peerFile("nursery.py"), "no_peer"], env: {}, forkEnv: {} };
    const reason = await reasonOf(await processes.start(command));
    expect(reason).toContain("it ended (status 1)");
    expect(reason).toContain("No module named 'no_peer'");
    await expect(processes.start(command)).rejects.toThrow("No module named 'no_peer'");
  } finally {
    processes.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
