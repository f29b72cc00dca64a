/** Runs on two hosts by a real ssh: an sshd of the tests' own, with keys made for it, on the loopback interface of a namespace. `npm run test:engines` */
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { allGone, Desk, type Running } from "./desk.ts";
import { lacksProgram } from "./grounds.ts";

const workload = fileURLToPath(new URL("../e2e/workload.ts", import.meta.url));
const script = fileURLToPath(new URL("../launch/scripts/worker.mjs", import.meta.url));
const lacks = lacksProgram("Debian: apt-get install openssh-server", "/usr/sbin/sshd", "ssh", "ssh-keygen")();
const port = 2222;
const sshd = "/usr/sbin/sshd";

/** Makes keys and starts the server; gives the command that reaches it. */
async function startSsh(desk: Desk): Promise<{ shell: string; server: Running }> {
  const folder = join(desk.folder, "ssh");
  mkdirSync(folder, { mode: 0o700 });
  const file = (name: string): string => join(folder, name);
  for (const name of ["host", "user", "stranger"])
    await desk.call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file(name)]);
  writeFileSync(file("authorized"), readFileSync(file("user.pub")), { mode: 0o600 });
  const key = readFileSync(file("host.pub"), "utf8");
  writeFileSync(file("known"), `[127.0.0.1]:${port} ${key}[localhost]:${port} ${key}`);
  const settings = [
    `Port ${port}`,
    "ListenAddress 127.0.0.1",
    "ListenAddress ::1",
    `HostKey ${file("host")}`,
    `AuthorizedKeysFile ${file("authorized")}`,
    `PidFile ${file("pid")}`,
    "PermitRootLogin prohibit-password",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "UsePAM no",
    // The folder of the keys lies below one that everybody may write.
    "StrictModes no",
  ];
  writeFileSync(file("settings"), `${settings.join("\n")}\n`);
  // Where Debian's sshd puts processes that nobody has authenticated yet.
  mkdirSync("/run/sshd", { recursive: true });
  const server = desk.daemon([sshd, "-D", "-e", "-f", file("settings")]);
  await server.seen(/Server listening on 127\.0\.0\.1 port/);
  const options = ["-F none", `-i ${file("user")}`, `-o UserKnownHostsFile=${file("known")}`, "-o BatchMode=yes"];
  return { shell: `ssh -p ${port} ${options.join(" ")} -o ServerAliveInterval=5 {host} {command}`, server };
}

describe.skipIf(lacks !== undefined)(`heddle run --hosts by ssh${lacks === undefined ? "" : ` (${lacks})`}`, () => {
  let desk: Desk;
  let shell: string;
  let server: Running;

  beforeAll(async () => {
    desk = new Desk();
    // Workers of several hosts meet at an address that is not the loopback interface's.
    desk.addInterface();
    ({ shell, server } = await startSsh(desk));
  }, 60_000);
  afterEach(() => desk.clear());
  afterAll(() => desk?.dispose(), 60_000);

  const run = (hosts: string, file: string, args: readonly string[], flags: readonly string[] = []): Running =>
    desk.start(
      [process.execPath, "bin/heddle.js", "run", file, "--hosts", hosts, "--shell", shell, "-t", "1", ...flags].concat(
        "--",
        args,
      ),
    );

  test("a training on two hosts has the bits of one host", async () => {
    const { status, stdout, stderr } = await run("127.0.0.1,localhost", workload, [JSON.stringify({ epochs: 2 })])
      .ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toContain("[rank 1] worker 1 is process");
    expect(stdout).toContain("digest 821675179\n");
    expect(server.output().match(/Accepted publickey for/g)).toHaveLength(2);
  });

  test("names of users, and several workers on a host", async () => {
    const hosts = `${userInfo().username}@127.0.0.1:2,localhost:1`;
    const { status, stdout } = await run(
      hosts,
      script,
      ["env:RANK,LOCAL_RANK,LOCAL_WORLD_SIZE", "join"],
      ["--prefix", "all"],
    ).ended;
    expect(status).toBe(0);
    const place = (rank: number, local: number, size: number): string[] =>
      [`LOCAL_RANK=${local}`, `LOCAL_WORLD_SIZE=${size}`, `RANK=${rank}`].map((text) => `[rank ${rank}] ${text}`);
    expect(
      stdout
        .split("\n")
        .filter((line) => line !== "")
        .sort(),
    ).toEqual([place(0, 0, 2), place(1, 1, 2), place(2, 0, 1)].flat());
  });

  test("a signal ends the workers of both hosts", async () => {
    const folder = mkdtempSync(join(desk.folder, "test-"));
    const running = run("127.0.0.1,localhost", script, [`pid:${folder}`, "join", "hang"]);
    const pids = await desk.pids(folder, 2);
    running.child.kill("SIGINT");
    expect((await running.ended).status).toBe(130);
    expect(await allGone(pids, 10_000)).toBe(true);
  });

  test("a link of ssh that ends ends the run, and names the host", async () => {
    const folder = mkdtempSync(join(desk.folder, "test-"));
    const running = run("127.0.0.1,localhost", script, [`pid:${folder}`, "join", "hang"]);
    const pids = await desk.pids(folder, 2);
    const ssh = (await desk.call(["pgrep", "-P", String(running.child.pid), "-x", "ssh"])).trim().split("\n");
    expect(ssh).toHaveLength(2);
    process.kill(Number(ssh[1]), "SIGKILL");
    const { status, stderr } = await running.ended;
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/host (127\.0\.0\.1|localhost)/);
    expect(await allGone(pids, 10_000)).toBe(true);
  });

  test.each([
    [
      "a key that the host does not know",
      (command: string) => command.replace("/user ", "/stranger "),
      /Permission denied/,
    ],
    [
      "a host whose key is another",
      (command: string) => command.replace("/known", "/none"),
      /Host key verification failed/,
    ],
    ["a port without a server", (command: string) => command.replace(`-p ${port}`, "-p 9"), /Connection refused/],
  ])("%s is named, with what ssh says", async (_what, change, says) => {
    const right = shell;
    shell = change(shell);
    try {
      const { status, stderr } = await run("127.0.0.1", script, ["join"], ["-n", "2"]).ended;
      expect(status).toBe(1);
      expect(stderr).toMatch(/host 127\.0\.0\.1 is lost, its shell ended with status 255/);
      expect(stderr).toMatch(says);
    } finally {
      shell = right;
    }
  });
});
