/** Runs on several hosts, which are network namespaces. `npm run test:hosts` */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { makeNetwork, type Network } from "./network.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const workload = fileURLToPath(new URL("../e2e/workload.ts", import.meta.url));
const shell = "ip netns exec {host} {command}";
const short = JSON.stringify({ epochs: 2 });
const endless = JSON.stringify({ epochs: 100_000 });

let network: Network;
let folder: string;
const running = new Set<ChildProcess>();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "heddle-hosts-"));
  network = await makeNetwork(4);
});

afterEach(async () => {
  for (const child of running) child.kill("SIGKILL");
  await network.reset();
});

afterAll(async () => {
  await network?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

interface Ended {
  readonly status: number | null;
  readonly output: string;
  /** Seconds since the process was started. */
  readonly seconds: number;
}

interface Command {
  readonly ended: Promise<Ended>;
  /** Resolves when the output matches. */
  seen(pattern: RegExp): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): void;
  output(): string;
}

/** Runs heddle, on one of the hosts if it has a number. */
function heddle(args: readonly string[], variables: Record<string, string> = {}, host?: number): Command {
  const command = [process.execPath, "bin/heddle.js", ...args];
  const [program = "", ...words] =
    host === undefined ? command : ["ip", "netns", "exec", network.hosts[host] as string, ...command];
  const started = performance.now();
  const child = spawn(program, words, {
    cwd: root,
    env: { ...process.env, NO_COLOR: "1", TMPDIR: folder, XDG_CACHE_HOME: folder, ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let output = "";
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes: Buffer) => {
      output += bytes.toString();
      for (const listener of listeners) listener();
    });
  }
  const ended = once(child, "close").then(([status]) => {
    running.delete(child);
    return { status: status as number | null, output, seconds: (performance.now() - started) / 1000 };
  });
  return {
    ended,
    kill: (signal) => void child.kill(signal),
    output: () => output,
    seen: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const match = pattern.exec(output);
          if (match === null) return;
          listeners.delete(look);
          resolve(match);
        };
        listeners.add(look);
        look();
        void ended.then(() => reject(new Error(`ended without ${pattern}:\n${output}`)));
      }),
  };
}

const hostList = (count: number, ranks: number): string =>
  network.hosts
    .slice(0, count)
    .map((host) => `${host}:${ranks}`)
    .join(",");
const digestOf = ({ output }: Ended): string => /digest \d+/.exec(output)?.[0] ?? output;
const onHosts = (count: number, ranks: number, options: string, ...more: string[]): Command =>
  heddle(["run", workload, "--hosts", hostList(count, ranks), "--shell", shell, "-t", "1", ...more, "--", options]);

/** The digests of runs on one host, by the number of ranks. */
const digests = new Map<number, string>();
async function digestOfOneHost(ranks: number): Promise<string> {
  const known =
    digests.get(ranks) ?? digestOf(await heddle(["run", workload, "-n", String(ranks), "-t", "1", "--", short]).ended);
  digests.set(ranks, known);
  return known;
}

describe("heddle run --hosts", () => {
  test.each([
    { hosts: 2, ranks: 1 },
    { hosts: 2, ranks: 2 },
    { hosts: 4, ranks: 1 },
    { hosts: 4, ranks: 2 },
  ])(
    "$hosts hosts with $ranks ranks have the bits of one host, over links with delay, loss and a rate",
    async ({ hosts, ranks }) => {
      await network.change({ from: "*", to: "*", delay: 0.002, loss: 0.005, rate: 12_500_000 });
      const run = await onHosts(hosts, ranks, short).ended;
      expect(run.output).toContain(`[rank ${hosts * ranks - 1}] worker ${hosts * ranks - 1} is process`);
      expect(run.status).toBe(0);
      expect(digestOf(run)).toBe(await digestOfOneHost(hosts * ranks));
    },
  );

  test("a signal ends the workers of all hosts", async () => {
    const run = onHosts(2, 1, endless);
    const ids = [await run.seen(/worker 0 is process (\d+)/), await run.seen(/worker 1 is process (\d+)/)];
    await run.seen(/step 2 loss/);
    run.kill("SIGINT");
    expect(await run.ended).toMatchObject({
      status: 130,
      output: expect.stringContaining("heddle: stopped by SIGINT"),
    });
    for (const [, pid] of ids) expect(() => process.kill(Number(pid), 0)).toThrow("ESRCH");
  });

  test("an end of the launcher ends the workers of all hosts", async () => {
    const run = onHosts(2, 1, endless);
    const [, pid] = await run.seen(/worker 1 is process (\d+)/);
    await run.seen(/step 2 loss/);
    run.kill("SIGKILL");
    await run.ended;
    await expect.poll(() => isAlive(Number(pid)), { timeout: 20_000 }).toBe(false);
  });

  test("a host that is not there is named", async () => {
    const run = await heddle(["run", workload, "--hosts", `${network.hosts[0]},nohost`, "--shell", shell]).ended;
    expect(run.status).toBe(1);
    expect(run.output).toMatch(/heddle: host nohost is lost, its shell ended with status \d+: .*"nohost"/);
  });
});

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Two processes that another launcher, or a person, has started on two hosts. */
function byHand(
  variables: Record<string, string>,
  options: string,
  others: readonly Record<string, string>[] = [{}, {}],
): Command[] {
  return [0, 1].map((rank) =>
    heddle(
      ["run", workload, "-t", "1", "--", options],
      { WORLD_SIZE: "2", RANK: String(rank), MASTER_PORT: "29500", HEDDLE_TIMEOUT: "6", ...variables, ...others[rank] },
      rank,
    ),
  );
}

const ended = (commands: readonly Command[]): Promise<Ended[]> => Promise.all(commands.map((command) => command.ended));

describe("started by hand", () => {
  test("two hosts meet, by IPv6, with the secret in a file, and ports of a range", async () => {
    const file = join(folder, "secret");
    writeFileSync(file, "of the run\n", { mode: 0o600 });
    const place = { MASTER_ADDR: network.address(0, 6), HEDDLE_SECRET_FILE: file, HEDDLE_PORTS: "4100-4109" };
    const runs = await ended(byHand(place, short));
    expect(runs.map(({ status }) => status)).toEqual([0, 0]);
    expect(digestOf(runs[0] as Ended)).toBe(await digestOfOneHost(2));
  });

  test("a rank of another host that dies is named with its address", async () => {
    const [first, second] = byHand({ MASTER_ADDR: network.address(0), HEDDLE_SECRET: "s" }, endless) as [
      Command,
      Command,
    ];
    const [, pid] = await second.seen(/worker 1 is process (\d+)/);
    await first.seen(/step 2 loss/);
    process.kill(Number(pid), "SIGKILL");
    const { status, output } = await first.ended;
    expect(status).not.toBe(0);
    expect(output).toMatch(new RegExp(`rank 1 at ${network.address(1)} closed its connection during allReduce`));
  });

  test("without a secret, other hosts are refused", async () => {
    const runs = await ended(byHand({ MASTER_ADDR: network.address(0) }, short));
    for (const { status, output } of runs) {
      expect(status).toBe(2);
      expect(output).toMatch(
        /but no secret for links to other hosts .rank 0 is on 10\.77\.0\.1.[\s\S]*HEDDLE_SECRET_FILE=/,
      );
    }
  });

  test("a slower instruction set is taken by all; HEDDLE_JIT that differs is refused", async () => {
    const place = { MASTER_ADDR: network.address(0), HEDDLE_SECRET: "s" };
    const runs = await ended(byHand(place, short, [{}, { HEDDLE_ISA: "scalar" }]));
    expect(runs.map(({ status }) => status)).toEqual([0, 0]);
    expect(runs[0]?.output).toMatch(/rank 0 computes with scalar instead of \w+, as rank 1 does/);
    const others = await ended(byHand(place, short, [{}, { HEDDLE_JIT: "off" }]));
    for (const { status, output } of others) {
      expect(status).toBe(1);
      expect(output).toMatch(/ranks 0 and 1 have different values of HEDDLE_JIT:\n\s*rank 0: on\n\s*rank 1: off/);
    }
  });

  test("a wrong name, a wrong address and a wrong interface are named within the deadline", async () => {
    const cases = [
      [
        { MASTER_ADDR: "nohost.invalid" },
        /rank 1 of 2 cannot join at nohost\.invalid:29500: nobody answered .* for 6 s: .*nohost\.invalid/,
      ],
      [{ MASTER_ADDR: "10.77.0.99" }, /rank 1 of 2 cannot join at 10\.77\.0\.99:29500: nobody answered/],
      [
        { MASTER_ADDR: network.address(0), HEDDLE_INTERFACE: "eth7" },
        /HEDDLE_INTERFACE is 'eth7', but this host has no 'eth7'[\s\S]*it has hd0 10\.77\.0\.2/,
      ],
    ] as const;
    await Promise.all(
      cases.map(async ([variables, says]) => {
        const second = byHand({ ...variables, HEDDLE_SECRET: "s" }, short)[1] as Command;
        const { status, output, seconds } = await second.ended;
        expect(output).toMatch(says);
        expect(status).toBe(1);
        // The start of the process counts, too.
        expect(seconds).toBeLessThan(60);
      }),
    );
  });

  test("a firewall that drops the ranks' ports: both sides name the other, with its address", async () => {
    await network.change({ from: "*", to: network.hosts[0] as string, drop: true, ports: [4100, 4109] });
    const place = { MASTER_ADDR: network.address(0), HEDDLE_SECRET: "s", HEDDLE_PORTS: "4100-4109" };
    const [first, second] = await ended(byHand(place, short));
    expect(second?.output).toMatch(/rank 1 of 2 cannot join .*could not connect to rank 0 at 10\.77\.0\.1:410\d/);
    expect(first?.output).toMatch(
      /rank 0 of 2 cannot join .*(waiting for rank 1 at 10\.77\.0\.2:410\d|rank 1 has ended)/,
    );
    expect([first?.status, second?.status]).toEqual([1, 1]);
  });
});

describe("a link that is cut while ranks train", () => {
  const [both, oneWay] = [[["*", "*"]], [[0, "*"]]] as const;
  const nameOf = (host: number | "*"): string => (host === "*" ? "*" : (network.hosts[host] as string));
  const cut = async (ways: readonly (readonly [number | "*", number | "*"])[], drop: boolean): Promise<void> => {
    for (const [from, to] of ways) await network.change({ from: nameOf(from), to: nameOf(to), drop });
  };

  test.each([
    ["both ways", both],
    ["one way", oneWay],
  ])("%s for 2 s: the run goes on, to the same bits", async (_name, ways) => {
    const options = JSON.stringify({ epochs: 40 });
    const whole = heddle(["run", workload, "-n", "2", "-t", "1", "--", options]).ended;
    await network.change({ from: "*", to: "*", delay: 0.004 });
    const run = onHosts(2, 1, options, "--timeout", "30");
    await run.seen(/step 5 loss/);
    await cut(ways, true);
    await sleep(2000);
    expect(run.output()).not.toContain("digest");
    await cut(ways, false);
    const result = await run.ended;
    expect(result.status).toBe(0);
    expect(digestOf(result)).toBe(digestOf(await whole));
  });

  test.each([
    ["both ways", both],
    ["one way", oneWay],
  ])("%s for ever: ranks and addresses are named within the deadline", async (_name, ways) => {
    const run = onHosts(2, 1, endless, "--timeout", "4");
    await run.seen(/step 5 loss/);
    await cut(ways, true);
    const { status, output } = await run.ended;
    expect(status).toBe(1);
    expect(output).toMatch(/timed out after 4\.0 s waiting for rank (1 at 10\.77\.0\.2|0 at 10\.77\.0\.1)/);
  });
});

test("waiting workers of two hosts, and a driver on a third", async () => {
  const variables = { HEDDLE_WORKERS_SECRET: "a secret of the tests" };
  const workers = [0, 1].map((host) =>
    heddle(["worker", "-l", `${network.address(host)}:4100`, "-t", "1"], variables, host),
  );
  for (const worker of workers) await worker.seen(/waiting for drivers/);
  const on = [0, 1].map((host) => `${network.address(host)}:4100`).join(",");
  const run = await heddle(["run", workload, "--on", on, "--", short], variables, 2).ended;
  expect(run.status).toBe(0);
  expect(digestOf(run)).toBe(await digestOfOneHost(2));
  for (const worker of workers) worker.kill("SIGTERM");
  await ended(workers);
});

test("nothing is left of all these runs, but the records of those that failed", () => {
  expect(readdirSync(folder).filter((name) => /^heddle-run-|secret\.tmp/.test(name))).toEqual([]);
});
