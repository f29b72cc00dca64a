import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  chosenAddresses,
  findMeetingPlace,
  type OwnAddress,
  ownAddresses,
  storeAddresses,
} from "../../src/hosts/interfaces.ts";
import { runSecret } from "../../src/hosts/secret.ts";
import { commonSet, readTraits, type Traits, writeTraits } from "../../src/hosts/traits.ts";
import { masterAddress, shareHosts, shellCommand } from "../../src/launch/host-list.ts";
import { readEnvironment } from "../../src/util/settings.ts";

const own = (name: string, address: string, prefix: number): OwnAddress => ({
  name,
  address,
  prefix,
  family: address.includes(":") ? "ipv6" : "ipv4",
});
const desk = [own("eth0", "192.168.1.5", 24), own("ib0", "10.1.2.3", 16), own("ib0", "fd00::3", 64)];

describe("addresses", () => {
  test.each([
    ["eth0", ["192.168.1.5"]],
    ["ib0", ["10.1.2.3", "fd00::3"]],
    ["fd00::3,eth0", ["fd00::3", "192.168.1.5"]],
    ["10.0.0.0/8", ["10.1.2.3"]],
    ["fd00::/16, ib0", ["fd00::3", "10.1.2.3"]],
  ])("the choice %s", (choice, addresses) => expect(chosenAddresses(choice, desk)).toEqual(addresses));

  test.each(["eth9", "10.2.0.0/16", "10.0.0.0/99", "0/0", ""])("this host does not have '%s'", (choice) => {
    expect(() => chosenAddresses(choice, desk)).toThrow(
      /HEDDLE_INTERFACE is .*it has eth0 192\.168\.1\.5, ib0 10\.1\.2\.3/s,
    );
  });

  test("no own address is one of loopback or of a link", () => {
    for (const { address } of ownAddresses()) expect(address).not.toMatch(/^(127\.|::1$|fe80:)/i);
  });

  test("on loopback nothing is searched for, and the store stays there", async () => {
    expect(await findMeetingPlace("127.0.0.1", 1, { choice: "eth9", seconds: 1 })).toEqual({
      host: "127.0.0.1",
      bind: undefined,
    });
    expect(await storeAddresses("[::1]", undefined)).toEqual(["::1"]);
    expect(await storeAddresses("192.0.2.7", undefined)).toEqual(["::", "0.0.0.0"]);
  });

  test("a rank listens on the address by which it reaches the store", async () => {
    const [first] = ownAddresses();
    if (first === undefined) return;
    const server = createServer((socket) => socket.destroy());
    await new Promise<void>((done) => server.listen(0, first.address, done));
    const { port } = server.address() as { port: number };
    const options = { choice: undefined, seconds: 5 };
    expect(await findMeetingPlace(first.address, port, options)).toEqual({
      host: first.address,
      bind: [first.address],
    });
    await new Promise((done) => server.close(done));
    await expect(findMeetingPlace(first.address, port, { ...options, seconds: 1 })).rejects.toThrow(
      `nobody answered at ${first.address}:${port} for 1 s`,
    );
  });

  test.each([
    ["one host", [desk], undefined, "127.0.0.1"],
    ["a common network", [desk, [own("eth1", "10.1.9.9", 16)]], undefined, "10.1.2.3"],
    ["a common network of IPv6", [desk, [own("eth1", "fd00::9", 64)]], undefined, "fd00::3"],
    ["no common network", [desk, [own("eth1", "172.16.0.1", 16)]], undefined, "192.168.1.5"],
    ["a choice", [desk, [own("eth1", "192.168.1.9", 24)]], "ib0", "10.1.2.3"],
  ])("rank 0's address for %s", (_name, hosts, choice, address) => {
    const named = hosts.map((addresses, index) => ({ host: `h${index}`, addresses }));
    expect(masterAddress(named, choice)).toBe(address);
  });
});

describe("--hosts", () => {
  test.each([
    ["a,b:4", 8, [4, 4]],
    ["a:1,b:2", undefined, [1, 2]],
    ["a,b", undefined, [1, 1]],
    ["a,b,c", 8, [3, 3, 2]],
    ["user@a,[fd00::1]:2", 3, [1, 2]],
  ])("%s with %s workers", (list, workers, shares) => {
    const hosts = shareHosts(list, workers);
    expect(hosts.map(({ workers: share }) => share)).toEqual(shares);
    expect(hosts.map(({ first }) => first)).toEqual(shares.map((_share, index) => sum(shares.slice(0, index))));
  });

  test.each([
    ["a:1,b:2", 4, /does not fit --workers 4/],
    ["a,b", 1, /does not fit --workers 1/],
    ["a,b:4", 4, /does not fit --workers 4/],
    ["a,,b", undefined, /'' is no host/],
    ["-oProxyCommand=x", undefined, /'-oProxyCommand=x' is no host/],
    ["a:0", undefined, /'a:0' is no host/],
  ])("%s with %s workers is refused", (list, workers, says) => expect(() => shareHosts(list, workers)).toThrow(says));

  test("the command of a host", () => {
    const [node, heddle] = shellCommand("{host} {command}", "a").slice(1);
    expect(node).toBe(process.execPath);
    expect(heddle).toMatch(/[/\\]bin[/\\]heddle\.js$/);
    expect(shellCommand("ip netns exec {host} {command}", "a").slice(0, 4)).toEqual(["ip", "netns", "exec", "a"]);
    expect(shellCommand("ssh -l me {host} {command}", "a").slice(0, 4)).toEqual(["ssh", "-l", "me", "a"]);
    expect(shellCommand("ssh {host} {command}", "a").at(-1)).toBe("agent");
    expect(() => shellCommand("ssh {host}", "a")).toThrow("lacks {host} or {command}");
  });
});

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

describe("what decides bits", () => {
  const traits: Traits = { heddle: "1", processor: "x64", endianness: "LE", jit: "on", isa: "avx512" };

  test("travels whole", () => {
    const all = [traits, { ...traits, isa: "scalar" }];
    const bytes = Uint8Array.from(all.flatMap((each) => [...writeTraits(each)]));
    expect(readTraits(bytes)).toEqual(all);
  });

  test.each([
    [["avx512", "avx512"], "avx512"],
    [["avx512", "avx2"], "avx2"],
    [["amx", "avx512vnni", "avx512bf16"], "avx512vnni"],
    [["avx2", "scalar", "avx512"], "scalar"],
  ])("instruction sets %s have %s in common", (sets, common) =>
    expect(commonSet(sets.map((isa) => ({ ...traits, isa })))).toBe(common),
  );

  test.each([
    [{ heddle: "2" }, "ranks 0 and 1 have different versions of Heddle:\n  rank 0: 1\n  rank 1: 2"],
    [{ processor: "arm64" }, "ranks 0 and 1 have different processors:\n  rank 0: x64\n  rank 1: arm64"],
    [{ endianness: "BE" }, "ranks 0 and 1 have different orders of bytes:\n  rank 0: LE\n  rank 1: BE"],
    [{ jit: "off" }, "ranks 0 and 1 have different values of HEDDLE_JIT:\n  rank 0: on\n  rank 1: off"],
    [{ isa: "neon" }, "ranks 0 and 1 have different instruction sets:\n  rank 0: avx512\n  rank 1: neon"],
  ] as const)("%o differs", (other, says) => expect(() => commonSet([traits, { ...traits, ...other }])).toThrow(says));
});

describe("the secret of a run", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "heddle-secret-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));
  const secret = (host: string, variables: Record<string, string>): string | undefined =>
    runSecret(host, readEnvironment({ XDG_CACHE_HOME: folder, ...variables }));

  test("is that of the variable, of the file, or on loopback this user's own", () => {
    const file = join(folder, "given");
    writeFileSync(file, " of the file\n");
    expect(secret("a", { HEDDLE_SECRET: "s", HEDDLE_SECRET_FILE: file })).toBe("s");
    expect(secret("a", { HEDDLE_SECRET_FILE: file })).toBe("of the file");
    expect(secret("a", {})).toBeUndefined();
    const made = secret("127.0.0.1", {});
    expect(made).toMatch(/^[0-9a-f]{64}$/);
    expect(secret("localhost", {})).toBe(made);
    const kept = join(folder, "heddle", "secret");
    expect(readFileSync(kept, "utf8")).toBe(made);
    expect(statSync(kept).mode & 0o777).toBe(0o600);
  });

  test("is refused where its file is empty or missing", () => {
    const file = join(folder, "empty");
    writeFileSync(file, "\n");
    expect(() => secret("a", { HEDDLE_SECRET_FILE: file })).toThrow(`the secret in ${file} is empty`);
    expect(() => secret("a", { HEDDLE_SECRET_FILE: join(folder, "none") })).toThrow(
      /the secret cannot be read: .*ENOENT/,
    );
  });
});
