/**
 * Schedules on network namespaces that are shaped like topologies: every one gives the sum. With the variable SHOW_TIMES it prints the times beside
 * the simulated ones (docs/internals/speed.md).
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { started } from "../cli/heddle-process.ts";
import type { Shape } from "../comm/scripts/shaped.ts";
import { makeNetwork, type Network } from "./network.ts";

const script = fileURLToPath(new URL("../comm/scripts/shaped.ts", import.meta.url));
let network: Network;
beforeAll(async () => {
  network = await makeNetwork(4);
});
afterAll(() => network?.dispose());

const equal = (rate: number): number[][] => [0, 1, 2, 3].map(() => [0, 1, 2, 3].map(() => rate));
/** Rates with other ones between some hosts, both ways. */
const but = (rate: number, others: readonly (readonly [from: number, to: number, rate: number])[]): number[][] => {
  const rates = equal(rate);
  for (const [from, to, other] of others) {
    (rates[from] as number[])[to] = other;
    (rates[to] as number[])[from] = other;
  }
  return rates;
};

const shapes: { readonly [name: string]: Shape } = {
  "two hosts with a slow link": { ranks: [2, 2], delay: 0.005, rates: equal(4e6), bytes: 1e6 },
  "a ring with a link that is nearly broken": {
    ranks: [1, 1, 1, 1],
    delay: 0.002,
    rates: but(8e6, [[1, 2, 4e5]]),
    bytes: 4e5,
  },
  "a fat node and thin nodes": {
    ranks: [2, 1, 1],
    delay: 0.002,
    rates: but(8e6, [[1, 2, 1e6]]),
    bytes: 4e5,
  },
};

test.each(Object.entries(shapes))(
  "every schedule gives the sum on %s",
  async (name, shape) => {
    await network.reset();
    for (const [from, row] of shape.rates.slice(0, shape.ranks.length).entries())
      for (const [to, rate] of row.slice(0, shape.ranks.length).entries())
        if (from !== to)
          await network.change({
            from: network.hosts[from] as string,
            to: network.hosts[to] as string,
            delay: shape.delay,
            rate,
          });
    const hosts = shape.ranks.map((count, host) => `${network.hosts[host]}:${count}`).join();
    const { stdout, stderr } = await started([
      ...["run", script, "--hosts", hosts, "--shell", "ip netns exec {host} {command}", "--threads", "1"],
      ...["--", JSON.stringify(shape)],
    ]).ended;
    const said = [...stdout.matchAll(/RESULT (\{.*\})/g)].map(
      (match) => JSON.parse(match[1] as string) as { name: string; seconds: number; simulated: number; right: boolean },
    );
    expect(
      said.map((one) => one.name),
      stderr,
    ).toEqual(expect.arrayContaining(["transport", "ring", "synthesized"]));
    expect(said.filter(({ right }) => !right)).toEqual([]);
    if (process.env["SHOW_TIMES"] !== undefined)
      for (const one of said)
        console.log(`${name}: ${one.name} ${one.seconds.toFixed(3)} s, simulated ${one.simulated?.toFixed(3)}`);
  },
  120_000,
);
