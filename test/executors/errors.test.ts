/** Errors of the native core: records, and what is made of them. */
import { describe, expect, test } from "vitest";
import {
  loadNative,
  type NativeBinding,
  type NativeDevice,
  type NativeGroup,
  type NativeWorld,
} from "../../src/executors/native/binding.ts";
import { nativeError } from "../../src/executors/native/error.ts";

const native = loadNative();

/** Two ranks in one process. */
function pair(binding: NativeBinding): { groups: NativeGroup[]; abort: (reason: string) => void } {
  const worlds = binding.NativeWorld.inProcess(2);
  return {
    groups: worlds.map((world) => world.group([0, 1], "pair")),
    abort: (reason) => worlds[1]?.abort(reason),
  };
}

type Case = readonly [string, (binding: NativeBinding) => unknown, { readonly [field: string]: unknown }, RegExp];

const nobody = { host: "127.0.0.1", port: 1, secret: "s", runId: "r", timeout: 0.2 };
const cases: readonly Case[] = [
  ["a program that is none", (binding) => new binding.NativeProgram("{"), { code: "run" }, /^program: EOF/],
  ["a wrong argument", (binding) => new binding.NativeBuffer(-1), { code: "run" }, /^bytes must be a whole number/],
  [
    "memory that there is not",
    (binding) => new binding.NativeBuffer(2 ** 52),
    { code: "memory", fault: { kind: "memory", bytes: 2 ** 52 } },
    /^out of memory: cannot get 4503599627370496 bytes$/,
  ],
  [
    "a file that is not there",
    (binding) => binding.readFlight("/there/is/none"),
    { code: "io" },
    /there\/is\/none: No such file/,
  ],
  [
    "a store that does not answer",
    (binding) => binding.NativeStore.connect(nobody),
    { code: "timeout" },
    /^timed out after 0\.2 s waiting for the store at 127\.0\.0\.1:1 in connecting/,
  ],
  [
    "a peer that aborts",
    (binding) => {
      const { groups, abort } = pair(binding);
      const waiting = groups[0]?.barrier("here");
      abort("why");
      return waiting;
    },
    { code: "peerAborted", rank: 1, during: expect.stringMatching(/^barrier 'here'/) },
    /^rank 1 aborted: why \(while this rank was in barrier 'here'/,
  ],
  [
    "a peer that aborts for what its program refused",
    (binding) => {
      const { groups, abort } = pair(binding);
      const waiting = groups[0]?.barrier("here");
      abort('{"kind":"label","index":5,"position":1,"size":2,"program":"f","step":3,"kernel":"loop","iterations":[4]}');
      return waiting;
    },
    { code: "peerAborted", rank: 1 },
    /^rank 1 aborted: op 3 of program f \(loop\): iteration 4: label 5 at row 1 is outside \[0, 2\) \(while this rank was/,
  ],
  [
    "a peer that leaves",
    async (binding) => {
      const [left, right] = binding.NativeWorld.inProcess(2) as [NativeWorld, NativeWorld];
      const waiting = left.group([0, 1], "pair").barrier("here");
      right.close();
      return waiting;
    },
    { code: "peerClosed", rank: 1 },
    /^rank 1 closed its connection during barrier 'here'/,
  ],
  [
    "an abort of one's own",
    (binding) => {
      const { groups, abort } = pair(binding);
      abort("why");
      return groups[1]?.barrier("here");
    },
    { code: "aborted", during: expect.stringMatching(/^barrier 'here'/) },
    /^this rank aborted: why \(while it was in barrier 'here'/,
  ],
  [
    "different collectives",
    (binding) => {
      const [left, right] = pair(binding).groups;
      right?.barrier("there").catch(() => {});
      return left?.barrier("here");
    },
    { code: "mismatch" },
    /^rank 0 is in barrier 'here' .*, but rank 1 is in barrier 'there'/,
  ],
];

/** A program that takes row 2 of 2 in a loop. */
const outside = {
  version: 1,
  name: "outside",
  arena: 64,
  buffers: [{ bytes: 64 }],
  steps: [
    {
      k: "loop",
      count: 1,
      out: [1, 32],
      steps: [
        {
          k: "gather",
          dtype: "f32",
          outer: 1,
          size: 2,
          inner: 1,
          count: 1,
          in: [1, 0],
          indices: [1, 8],
          out: [1, 16],
        },
      ],
    },
  ],
};

/** Every way in which a run tells that it failed. */
const ways: readonly (readonly [
  string,
  (...run: Parameters<NativeDevice["run"]>) => (device: NativeDevice) => unknown,
])[] = [
  ["a promise", (program, buffers) => (device) => device.run(program, buffers)],
  ["an exception", (program, buffers) => (device) => device.runSync(program, buffers)],
  [
    "a list of failed runs",
    (program, buffers) => (device) => {
      device.run(program, buffers).catch(() => {});
      throw new Error(device.sync()[0]?.fault);
    },
  ],
];

describe.skipIf("error" in native)("the native core", () => {
  test.each(ways)("what a call says of a wrong value, by %s", async (_name, way) => {
    const binding = native as NativeBinding;
    const device = new binding.NativeDevice({ threads: 1 });
    const buffer = new binding.NativeBuffer(64);
    buffer.write(new Uint8Array(Int32Array.of(2).buffer), 8);
    const run = way(new binding.NativeProgram(JSON.stringify(outside)), [buffer]);
    const thrown = await Promise.resolve(device)
      .then(run)
      .then(() => undefined, nativeError);
    expect(thrown).toMatchObject({ code: "value", step: 0 });
    expect(thrown?.fault).toEqual({
      ...{ kind: "index", index: 2, position: 0, size: 2 },
      ...{ program: "outside", step: 0, kernel: "loop", call: 1, iterations: [0] },
    });
    expect(thrown?.message).toBe(
      "op 0 of program outside (loop): iteration 0: index 2 at position 0 is outside [0, 2)",
    );
    device.close();
  });

  test.each(cases)("%s", async (_name, act, fields, said) => {
    const thrown = await Promise.resolve()
      .then(() => act(native as NativeBinding))
      .then(() => undefined, nativeError);
    expect(thrown).toMatchObject(fields);
    expect(thrown?.plain).toMatch(said);
  });
});

test("a code that is not in the table, and a text that looks like another error, are errors of the run", () => {
  const error = Object.assign(new Error("rank 1 closed its connection"), { code: "toString" });
  expect(nativeError(error)).toMatchObject({ code: "run", rank: undefined, during: undefined });
});
