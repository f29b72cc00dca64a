import { describe, expect, test } from "vitest";
import { formatReport, reportOf } from "../../src/cli/profile-report.ts";
import { traceOf } from "../../src/cli/profile-trace.ts";
import type { ProgramProfile, RankProfile } from "../../src/executors/index.ts";

const call = (kernel: string, text: string, depth: number, flops: number, bytes: number) => ({
  kernel,
  text,
  depth,
  flops,
  bytes,
  // A second for 1e9 operations, or for 1e9 bytes.
  seconds: Math.max(flops, bytes) / 1e9,
});

/** Two runs of a product, a loop of two iterations over a sum, and a collective; milliseconds as nanoseconds. */
const step: ProgramProfile = {
  name: "step",
  seconds: 7e-3,
  warmUp: 1,
  calls: [
    call("dot", "dot a", 0, 4e6, 1e3),
    call("loop", "loop 2", 0, 0, 0),
    call("reduce", "reduce b", 1, 1e3, 1e6),
    call("collective allReduce", "collective allReduce c", 0, 0, 1e6),
    call("branch", "branch", 0, 0, 0),
    call("dot", "dot d", 1, 1, 1),
  ],
  // biome-ignore format: begin, length; then start, total, count of each call
  runs: [
    [1000, 10e6,   0, 4e6, 1,   4e6, 3e6, 1,   4.1e6, 2e6, 2,   7e6, 2e6, 1,   9e6, 0.5e6, 1,   0, 0, 0],
    [13_000, 10e6, 0, 4e6, 1,   4e6, 3e6, 1,   4.1e6, 2e6, 2,   7e6, 2e6, 1,   9e6, 0.5e6, 1,   0, 0, 0],
  ],
};

/** A collective of 5 ms under way beside a product of 4 ms, and a wait of 1 ms for it. */
const overlapped: ProgramProfile = {
  name: "overlapped",
  seconds: 5e-3,
  warmUp: 1,
  calls: [
    { ...call("collective allReduce", "start 0", 0, 0, 1e6), beside: true },
    call("dot", "dot a", 0, 4e6, 1e3),
    call("wait", "wait 0", 0, 0, 0),
  ],
  runs: [[1000, 6e6, 0, 5e6, 1, 0.5e6, 4e6, 1, 4.5e6, 1e6, 1]],
};

/** A stage of a pipeline: its calls with their milliseconds in the run, which are those that are predicted but for receives. */
const stage = (
  ...calls: readonly [kernel: string, peer: number | undefined, predicted: number, measured: number][]
): ProgramProfile => ({
  name: "stage",
  seconds: 6e-3,
  warmUp: 1,
  calls: calls.map(([kernel, peer, predicted]) => ({
    ...call(kernel, kernel, 0, predicted * 1e6, 0),
    ...(peer === undefined ? {} : { peer }),
  })),
  runs: [[1000, 8e6, ...calls.flatMap(([, , , measured]) => [0, measured * 1e6, 1])]],
});

const rank = (number: number, programs: readonly ProgramProfile[] = [step]): RankProfile => ({
  version: 1,
  rank: number,
  threads: 1,
  isa: "avx2",
  limits: { flops: 2e9, bytes: 2e9 },
  programs,
});

describe("the report", () => {
  const report = reportOf([rank(0), rank(1)]);
  const [program] = report.programs;

  test("a step: its length, what is idle, what is communication, what is outside calls", () => {
    expect(program).toMatchObject({
      name: "step",
      runs: 2,
      warmUp: 1,
      medianMilliseconds: 10,
      minimumMilliseconds: 10,
      predictedMilliseconds: 7,
    });
    expect(program?.idleMilliseconds).toBeCloseTo(2);
    expect(program?.communicationMilliseconds).toBeCloseTo(2);
    expect(program?.betweenMilliseconds).toBeCloseTo(0.5);
    expect(report.ranks.map((one) => one.rank)).toEqual([0, 1]);
  });

  test.each([
    // 4 MFLOP in 4 ms of a possible 2 ms.
    { name: "dot a", calls: 1, milliseconds: 4, share: 0.4, bound: "arithmetic", efficiency: 0.5 },
    // What a loop holds is not its own time; twice 1 MB in 2 ms of a possible 1 ms.
    { name: "loop 2", calls: 1, milliseconds: 1, share: 0.1, bound: undefined, efficiency: 0 },
    { name: "reduce b", calls: 2, milliseconds: 2, share: 0.2, bound: "memory", efficiency: 0.5 },
    { name: "collective allReduce c", calls: 1, milliseconds: 2, share: 0.2, bound: undefined, efficiency: 0 },
    { name: "branch", calls: 1, milliseconds: 0.5, share: 0.05, bound: undefined, efficiency: 0 },
  ])("$name", ({ name, ...want }) => {
    const line = program?.byCall.find((one) => one.name === name);
    expect(line?.bound).toBe(want.bound);
    for (const key of ["calls", "milliseconds", "share", "efficiency"] as const)
      expect(line?.[key]).toBeCloseTo(want[key]);
  });

  test("what the stages of a pipeline wait for each other, measured and predicted", () => {
    const stages = [
      stage(["dot", undefined, 2, 2], ["send", 1, 1, 1], ["receive", 1, 0, 4], ["dot", undefined, 1, 1]),
      stage(["receive", 0, 0, 3], ["dot", undefined, 4, 4], ["send", 0, 1, 1]),
    ];
    const report = reportOf(stages.map((program, number) => rank(number, [program])));
    // Rank 0 computes until 3, receives at 8 and ends at 9; rank 1 receives at 3 and ends at 8.
    const waits = report.ranks.map((one) => one.waits);
    expect(waits[0]?.predicted).toBeCloseTo(5 / 9);
    expect(waits[1]?.predicted).toBeCloseTo(4 / 9);
    expect(waits.map((one) => one?.measured)).toEqual([4 / 8, 3 / 8]);
    expect(report.ranks.map(({ communicationMilliseconds }) => communicationMilliseconds)).toEqual([5, 4]);
    expect(formatReport(report)).toContain(
      "rank 0  median 8.00 ms, communication 5.00 ms, waits for others 50 % (predicted 56 %)",
    );
  });

  // The runs of the step are from 1000 to 11,000 and from 13,000 to 23,000.
  test.each<{ name: string; waits: [number, number][]; other?: [number, number]; milliseconds: number }>([
    { name: "within the first run and the gap after it", waits: [[10_500, 2000]], milliseconds: 1.5 },
    { name: "beside a run alone", waits: [[1500, 9000]], milliseconds: 0 },
    { name: "before the first run that counts", waits: [[0, 900]], milliseconds: 0 },
    { name: "after the last run", waits: [[23_500, 900]], milliseconds: 0 },
    { name: "into the next run, which does not need it", waits: [[12_000, 5000]], milliseconds: 1 },
    {
      name: "two of them",
      waits: [
        [11_000, 500],
        [12_000, 250],
      ],
      milliseconds: 0.75,
    },
    { name: "another program runs meanwhile", waits: [[11_000, 2000]], other: [11_500, 1e6], milliseconds: 1 },
  ])("the wait for a batch: $name", ({ waits, other, milliseconds }) => {
    const evaluation = { ...step, name: "evaluate", runs: [[...(other ?? []), ...(step.runs[0] ?? []).slice(2)]] };
    const programs = other === undefined ? [step] : [step, evaluation];
    const [first, second] = [{ ...rank(0, programs), input: waits }, rank(1)];
    const report = reportOf([first, second]);
    const { input } = report.programs.find(({ name }) => name === "step") ?? {};
    expect(input?.milliseconds ?? 0).toBeCloseTo(milliseconds);
    expect(input?.share ?? 0).toBeCloseTo(milliseconds / 22);
    expect(input?.byStep ?? [0]).toHaveLength(1);
    expect(report.ranks[0]?.inputMilliseconds ?? 0).toBeCloseTo(milliseconds);
    expect(report.ranks[1]?.inputMilliseconds).toBeUndefined();
    if (milliseconds === 1.5)
      expect(formatReport(report)).toContain("\nwaiting for batches 1.50 ms (6.8 %), at most 1.50 ms before a step\n");
  });

  test("a collective beside the rest costs what is waited for it; the rest of it is hidden", () => {
    const [both] = reportOf([rank(0, [overlapped])]).programs;
    expect(both?.communicationMilliseconds).toBeCloseTo(1);
    expect(both?.hiddenMilliseconds).toBeCloseTo(4);
    expect(both?.betweenMilliseconds).toBeCloseTo(1);
    expect(both?.byKernel.map(({ name }) => name)).toEqual(["collective allReduce, beside the rest", "dot", "wait"]);
    expect(formatReport(reportOf([rank(0, [overlapped])]))).toContain(
      "communication 1.00 ms (17 %), hidden behind the rest 4.00 ms (67 %), between calls",
    );
  });

  test("predictions are for as many calls as ran, and for the whole step", () => {
    expect(program?.byKernel.map(({ name, predictedMilliseconds }) => [name, predictedMilliseconds])).toEqual([
      ["dot", 4],
      ["reduce", 2],
      ["collective allReduce", 1],
      ["loop", 0],
      ["branch", 0],
    ]);
  });

  test("calls that did not run are left out, kernels are added up, the longest is first", () => {
    expect(program?.byCall.map(({ name }) => name)).not.toContain("dot d");
    expect(program?.byKernel[0]).toMatchObject({ name: "dot", calls: 1, flopsPerSecond: 1e9 });
    const times = program?.byCall.map(({ milliseconds }) => milliseconds) ?? [];
    expect(times).toEqual([...times].sort((a, b) => b - a));
  });

  test("for people", () =>
    expect(`\n${formatReport(report)}\n`).toMatchInlineSnapshot(`
      "
      machine: 2.00 GFLOP/s (multiply-adds in registers), 2.00 GB/s (a = b + s c in memory), 1 thread, avx2

      step: 2 steps after 1 to warm up, median 10.0 ms, least 10.0 ms, predicted 7.00 ms
      communication 2.00 ms (20 %), between calls 0.500 ms (5.0 %), idle between steps 2.00 ms

        ms/step  predicted  share  calls  FLOP/s     B/s  of limit    bound by  by kernel
           4.00       4.00   40 %      1  1.00 G   250 k      50 %  arithmetic  dot
           2.00       2.00   20 %      2  1.00 M  1.00 G      50 %      memory  reduce
           2.00       1.00   20 %      1       -   500 M         -           -  collective allReduce
           1.00          -   10 %      1       -       -         -           -  loop
          0.500          -  5.0 %      1       -       -         -           -  branch

        ms/step  predicted  share  calls  FLOP/s     B/s  of limit    bound by  by call
           4.00       4.00   40 %      1  1.00 G   250 k      50 %  arithmetic  dot a
           2.00       2.00   20 %      2  1.00 M  1.00 G      50 %      memory  reduce b
           2.00       1.00   20 %      1       -   500 M         -           -  collective allReduce c
           1.00          -   10 %      1       -       -         -           -  loop 2
          0.500          -  5.0 %      1       -       -         -           -  branch

      step by rank
        rank 0  median 10.0 ms, communication 2.00 ms
        rank 1  median 10.0 ms, communication 2.00 ms
      "
    `));
});

describe("the trace", () => {
  const { traceEvents } = traceOf([rank(0), rank(1)]);

  test("has a process for each rank, and times in microseconds from the first run on", () => {
    expect(new Set(traceEvents.map(({ pid }) => pid))).toEqual(new Set([0, 1]));
    const steps = traceEvents.filter(({ cat, pid }) => cat === "step" && pid === 0);
    expect(steps.map(({ ts, dur }) => [ts, dur])).toEqual([
      [0, 10_000],
      [12_000, 10_000],
    ]);
  });

  test("what is under way beside the rest has a line of its own", () => {
    const events = traceOf([rank(0, [overlapped])]).traceEvents;
    const names = events.filter(({ name }) => name === "thread_name");
    expect(names.map(({ tid, args }) => [tid, args?.["name"]])).toEqual([
      [0, "steps"],
      [1, "communication"],
    ]);
    expect(events.filter(({ tid, ph }) => tid === 1 && ph === "X").map(({ name, ts, dur }) => [name, ts, dur])).toEqual(
      [["collective allReduce", 0, 5000]],
    );
    expect(traceEvents.every(({ tid }) => tid === 0)).toBe(true);
  });

  test("what the training waits for has a line of its own, from the first step on", () => {
    const input: [number, number][] = [
      [500, 100],
      [10_500, 2000],
    ];
    const waits = traceOf([{ ...rank(0), input }]).traceEvents.filter(({ cat }) => cat === "input");
    expect(waits.map(({ tid, ts, dur }) => [tid, ts, dur])).toEqual([[2, 9500, 2000]]);
  });

  test("calls lie within their step; what a loop holds is told by the loop", () => {
    const calls = traceEvents.filter(({ pid, ts, ph }) => pid === 1 && ph === "X" && (ts as number) < 12_000).slice(1);
    expect(calls.map(({ name, cat, ts, dur }) => [name, cat, ts, dur])).toEqual([
      ["dot", "kernel", 0, 4000],
      ["loop", "kernel", 4000, 3000],
      ["collective allReduce", "communication", 7000, 2000],
      ["branch", "kernel", 9000, 500],
    ]);
    expect(calls[1]?.args).toMatchObject({ inner: [{ call: "reduce b", microseconds: 2000, count: 2 }] });
  });
});
