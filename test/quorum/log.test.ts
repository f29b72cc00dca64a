/** Hundreds of seeded runs of three launchers that share a log, with cut links, lost answers and crashes. */
import { expect, test } from "vitest";
import { parseQuorumAddress } from "../../src/quorum/etcd.ts";
import { simulateLog, type Trouble } from "./simulator.ts";

// HEDDLE_FUZZ_ROUNDS multiplies the seeds.
const rounds = Number(process.env["HEDDLE_FUZZ_ROUNDS"] ?? 1);
const troubles: [string, number, Trouble][] = [
  ["no trouble", 5, { cuts: 0, crashes: 0, deaths: 0.1 }],
  ["launchers crash", 12, { cuts: 0, crashes: 0.02, deaths: 0.1 }],
  ["launchers are cut from the store", 12, { cuts: 0.05, crashes: 0, deaths: 0.1 }],
  ["all at once", 16, { cuts: 0.04, crashes: 0.02, deaths: 0.2 }],
];

test.each(troubles)("%s: one launcher leads, and each epoch has one", async (name, count, trouble) => {
  let launchers = 0;
  for (let seed = 0; seed < rounds * count; seed++) {
    const outcome = await simulateLog(seed, trouble);
    expect(outcome.epochs).toBeGreaterThan(0);
    launchers = Math.max(launchers, outcome.launchers);
  }
  if (name === "no trouble") expect(launchers).toBeLessThanOrEqual(2);
  else expect(launchers).toBeGreaterThan(2);
});

test("the same seed gives the same run", async () => {
  const trouble = { cuts: 0.04, crashes: 0.02, deaths: 0.2 };
  expect((await simulateLog(3, trouble)).history).toEqual((await simulateLog(3, trouble)).history);
});

test("addresses", () => {
  expect(parseQuorumAddress("etcd://a:2379,b:23790/gpt-3.small")).toEqual({
    endpoints: ["http://a:2379", "http://b:23790"],
    run: "gpt-3.small",
    lease: 10,
  });
  expect(parseQuorumAddress("etcd://a:2379/run?lease=3").lease).toBe(3);
  for (const wrong of [
    "etcd://a:2379",
    "etcd://a:2379/",
    "etcd://a/run",
    "http://a:2379/run",
    "etcd://u@a:1/run",
    "etcd://a:1/a/b",
  ])
    expect(() => parseQuorumAddress(wrong)).toThrow(/must be like etcd:\/\/host:2379\/name/);
});
