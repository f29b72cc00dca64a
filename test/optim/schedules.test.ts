/** Schedules and clipping against PyTorch's numbers (test/fixtures/schedules.py). */
import { optim, type Tensor, tensor } from "heddle";
import { describe, expect, test } from "vitest";
import { fixture } from "../fixtures/fixture.ts";
import { expectClose } from "../support/close.ts";

const { schedules } = optim;

type Rates = { readonly rates: readonly number[] };
type Scheduled = Rates & { readonly schedule: "step"; readonly options: Parameters<typeof schedules.step>[0] };
type Plateau = Rates & { readonly plateau: optim.schedules.PlateauOptions; readonly values: readonly number[] };
type WarmUp = Rates & { readonly warmUp: { readonly steps: number } };
interface Clipped {
  readonly gradients: readonly (readonly number[])[];
  readonly maxNorm?: number;
  readonly limit?: number;
  /** Which norm, where it is not Euclid's. */
  readonly norms?: number;
  readonly norm: number | null;
  readonly clipped: readonly (readonly number[])[];
}

const cases = fixture<object>("schedules");
const having = <Case>(name: string): Case[] => cases.filter((one) => name in one) as Case[];

const follow = (schedule: optim.Schedule, count: number): number[] =>
  Array.from({ length: count }, (_unused, step) => schedule(step));

describe("as PyTorch's", () => {
  test.each(having<Scheduled>("schedule"))("$schedule $options", ({ schedule, options, rates }) => {
    expect(rates).toHaveLength(60);
    expectClose(follow(schedules[schedule](options), rates.length), rates, 1e-12, 1e-14);
  });

  test("warm-up, then another schedule", () => {
    const [{ warmUp, rates }] = having<WarmUp>("warmUp") as [WarmUp];
    const schedule = schedules.warmUp(schedules.exponential({ learningRate: 0.1, gamma: 0.9 }), warmUp);
    expectClose(follow(schedule, rates.length), rates, 1e-12);
  });

  test.each(having<Plateau>("plateau"))("plateau $plateau", ({ plateau, values, rates }) => {
    const schedule = schedules.plateau(plateau);
    for (const round of [1, 2]) {
      const found = values.map((value) => {
        schedule.observe(value);
        return schedule(round);
      });
      expectClose(found, rates, 1e-12);
      schedule.restart();
      expect(schedule(0)).toBe(0.1);
    }
  });

  test.each(having<Clipped>("gradients"))("clipping to $maxNorm $limit $norms of $gradients", async (one) => {
    const grads: { [name: string]: Tensor } = Object.fromEntries(
      one.gradients.map((values, index) => [String(index), tensor([...values], { dtype: "f64" })]),
    );
    const clipped =
      one.limit === undefined
        ? optim.clipByGlobalNorm(grads, one.maxNorm as number, one.norms === undefined ? {} : { norm: one.norms })
        : { grads: optim.clipByValue(grads, one.limit), norm: undefined };
    for (const [index, expected] of one.clipped.entries())
      expect([...(await (clipped.grads[index] as Tensor).data())].map(rounded)).toEqual(expected.map(rounded));
    if (clipped.norm !== undefined) expect(rounded(await clipped.norm.item())).toBe(rounded(one.norm as number));
  });
});

const rounded = (value: number): number => Number(value.toPrecision(12));

test("a warm-up to a number starts from nothing and stays there", () => {
  expect(follow(schedules.warmUp(0.8, { steps: 4 }), 6)).toEqual([0, 0.2, 0.4, 0.6000000000000001, 0.8, 0.8]);
});

test("one cycle ends where it ends", () => {
  const schedule = schedules.oneCycle({ maxLearningRate: 1, totalSteps: 10 });
  expect(schedule(500)).toBe(schedule(9));
  expect(schedule(9)).toBeCloseTo(1 / 25 / 1e4, 12);
  // A rise of no length.
  expect(follow(schedules.oneCycle({ maxLearningRate: 1, totalSteps: 4, pctStart: 0.25 }), 1)).toEqual([1]);
});

test("errors", () => {
  expect(() => schedules.step({ learningRate: 1, stepSize: 0 })).toThrow(/schedules.step: stepSize must be at least 1/);
  expect(() => schedules.cosine({ learningRate: 1 } as never)).toThrow(/totalSteps must be/);
  expect(() => schedules.exponential({ learningRate: 1, gama: 1 } as never)).toThrow(/did you mean 'gamma'/);
  expect(() => schedules.step({ stepSize: 3 } as never)).toThrow(/learningRate must be a number/);
  expect(() => schedules.multiStep({ learningRate: 1, milestones: [1.5] })).toThrow(/milestones\[0\] must be a whole/);
  expect(() => schedules.sequence([() => 1], [3])).toThrow(/1 schedules need 0 milestones, got 1/);
  expect(() => schedules.sequence([() => 1, () => 2, () => 3], [5, 3])).toThrow(/milestones\[1\] must be at least 5/);
  expect(() => schedules.plateau({ learningRate: 1, factor: 1 })).toThrow(/factor must be below 1/);
  expect(() => schedules.plateau({ learningRate: 1, mode: "least" as never })).toThrow(/mode must be min or max/);
  expect(() => schedules.oneCycle({ maxLearningRate: 1, totalSteps: 5, anneal: "cos" as never })).toThrow(
    /anneal must/,
  );
  expect(() => optim.clipByGlobalNorm({ w: tensor([1]) }, -1)).toThrow(/maxNorm must be at least 0/);
  expect(() => optim.globalNorm({ w: tensor([1]) }, { norm: 0 })).toThrow(/norm must be finite and above 0, got 0/);
  expect(() => schedules.cyclic({ learningRate: 1, maxLearningRate: 2, mode: "exp" as never })).toThrow(/mode must be/);
  expect(() => optim.globalNorm({})).toThrow(/there is no gradient/);
});

test.each(["f16", "bf16"] as const)("clipping %s at zeros, and where squares are beyond it", async (dtype) => {
  const clipped = async (values: number[]): Promise<number[]> => {
    const { grads, norm } = optim.clipByGlobalNorm({ w: tensor(values, { dtype }) }, 1);
    return [...(await grads.w.data()), await norm.item()].map(Number);
  };
  expect(await clipped([0, -0])).toEqual([0, -0, 0]);
  expect(await clipped([384, 512])).toEqual([expect.closeTo(0.6, 2), expect.closeTo(0.8, 2), 640]);
});
