import { PassThrough } from "node:stream";
import { describe, expect, test, vi } from "vitest";
import { copyLines } from "../../src/launch/output.ts";
import { describeFailures, orderFailures, type WorkerFailure } from "../../src/launch/report.ts";
import { errorMessage, parseWorkerMessage, reportToLauncher } from "../../src/launcher-messages/launcher.ts";
import { HeddleError } from "../../src/util/errors.ts";

describe("messages from workers", () => {
  test.each([
    { type: "progress", step: 3 },
    { type: "join" },
    { type: "plan", text: "plan" },
    { type: "temporary", path: "/a/b.tmp", done: false },
    { type: "error", message: "no" },
    { type: "error", message: "no", stack: "s", code: "shape", during: "barrier" },
  ])("$type is accepted", (message) => {
    expect(parseWorkerMessage(message)).toEqual(message);
  });

  test.each([
    [null],
    ["progress"],
    [{}],
    [{ type: "run", command: "x" }],
    [{ type: "progress", step: "3" }],
    [{ type: "progress", step: 0.5 }],
    [{ type: "temporary", path: "relative.tmp", done: false }],
    [{ type: "temporary", path: "/etc/passwd", done: false }],
    [{ type: "temporary", path: "/a/b.tmp" }],
    [{ type: "plan" }],
    [{ type: "error", message: 1 }],
    [{ type: "error", message: "no", stack: 1 }],
  ])("%j is not", (value) => {
    expect(parseWorkerMessage(value)).toBeUndefined();
  });

  test("go to the launcher alone, not to whoever else has forked this process", () => {
    const sent: unknown[] = [];
    const { send, connected } = process;
    Object.assign(process, { send: (message: unknown) => sent.push(message), connected: true });
    try {
      for (const parent of ["", String(process.pid), String(process.ppid)]) {
        vi.stubEnv("HEDDLE_LAUNCHER", parent);
        reportToLauncher({ type: "temporary", path: "/a/b.tmp", done: true });
        reportToLauncher({ type: "progress", step: Number(parent) });
      }
    } finally {
      Object.assign(process, { send, connected });
      vi.unstubAllEnvs();
    }
    expect(sent).toEqual([
      { type: "temporary", path: "/a/b.tmp", done: true },
      { type: "progress", step: process.ppid },
    ]);
  });

  test("an error for users is told by its message, any other in full", () => {
    expect(errorMessage(new HeddleError("shape", "sizes differ", { where: "/a.ts:1:2" }))).toEqual({
      type: "error",
      message: "sizes differ\n  at /a.ts:1:2",
      code: "shape",
    });
    const other = errorMessage(new Error("outer", { cause: new TypeError("inner") }));
    expect(other.message).toBe("outer");
    expect(other.stack).toContain("inner");
    expect(errorMessage("text").message).toBe("'text'");
  });
});

describe("reports", () => {
  const failure = (rank: number, at: number, rest: Partial<WorkerFailure>): WorkerFailure => ({
    rank,
    at,
    exitCode: 1,
    signal: null,
    ...rest,
  });
  const peer = { type: "error", message: "rank 1 is gone", code: "peerClosed", during: "barrier" } as const;
  const own = { type: "error", message: "sizes differ", code: "shape" } as const;

  test("put the root cause first", () => {
    const consequence = failure(0, 1, { error: peer });
    const mistake = failure(2, 3, { error: own });
    const killed = failure(1, 4, { exitCode: null, signal: "SIGSEGV" });
    expect(orderFailures([consequence, mistake, killed])).toEqual([killed, mistake, consequence]);
  });

  test("name rank, signal, step and collective", () => {
    const killed = failure(1, 0, { exitCode: null, signal: "SIGSEGV", step: 57, during: "allReduce sum f32 x 8 'g'" });
    expect(describeFailures([killed, failure(0, 1, { error: peer })], 2)).toBe(
      "rank 1 was killed by SIGSEGV after the launch of step 57, during allReduce sum f32 x 8 'g'\n  then rank 0 failed: rank 1 is gone",
    );
  });

  test("name one step: that of the error, where it says it", () => {
    const other = failure(0, 1, { error: peer, step: 58 });
    const text = (message: string, step?: number): string => {
      const error = { ...own, message, ...(step === undefined ? {} : { step }) };
      return describeFailures([failure(1, 0, { error, step: 57, during: "barrier" }), other], 2);
    };
    expect(text("no")).toBe(
      "rank 1 failed after the launch of step 57, during barrier: no\n  then rank 0 failed after the launch of step 58: rank 1 is gone",
    );
    const told = "label 7 at row 1 is outside [0, 3), in step 55 (epoch 2 of 3, batch 5)";
    expect(text(told, 55)).toBe(`rank 1 failed, during barrier: ${told}\n  then rank 0 failed: rank 1 is gone`);
  });

  test("say once what several ranks said, and what the first one made others say", () => {
    const aborted = { ...peer, code: "peerAborted", message: 'rank 1 aborted: {"kind":"index"}', peer: 1 } as const;
    const others = [0, 2].map((rank) => failure(rank, 1, { error: aborted }));
    expect(describeFailures([failure(1, 0, { error: own }), ...others, failure(3, 2, { error: own })], 4)).toBe(
      "rank 1 failed: sizes differ\n  the same on rank 3\n  then rank 0 ended with it, in barrier\n  then rank 2 ended with it, in barrier",
    );
  });

  test("take the collective from the survivors when the dead rank left no record", () => {
    const text = describeFailures([failure(1, 0, { exitCode: 3 }), failure(0, 1, { error: peer })], 2);
    expect(text.split("\n")[0]).toBe("rank 1 ended with exit status 3, during barrier");
  });

  test("speak of the script when there is one", () => {
    expect(describeFailures([failure(0, 0, { error: own })], 1)).toBe("sizes differ");
    expect(describeFailures([failure(0, 0, { exitCode: null, signal: "SIGABRT" })], 1)).toBe(
      "the script was killed by SIGABRT",
    );
  });
});

describe("prefixed output", () => {
  async function copied(chunks: readonly (string | Buffer)[]): Promise<string> {
    const source = new PassThrough();
    const target = new PassThrough();
    const done = copyLines(source, target, "> ");
    for (const chunk of chunks) source.write(chunk);
    source.end();
    await done;
    return String(target.read() ?? "");
  }

  test.each([
    { name: "whole lines", chunks: ["a\nb\n"], text: "> a\n> b\n" },
    { name: "a line in pieces", chunks: ["a", "b", "c\n"], text: "> abc\n" },
    { name: "an unfinished last line", chunks: ["a\nb"], text: "> a\n> b\n" },
    { name: "empty lines", chunks: ["\n\n"], text: "> \n> \n" },
    { name: "lines that are drawn again", chunks: ["1%\r2%\r", "3%\n"], text: "> 1%\n> 2%\n> 3%\n" },
    { name: "Windows line ends", chunks: ["a\r", "\nb\r\n"], text: "> a\n> b\n" },
    { name: "nothing", chunks: [], text: "" },
  ])("$name", async ({ chunks, text }) => {
    expect(await copied(chunks)).toBe(text);
  });

  test("a character in two pieces", async () => {
    const bytes = Buffer.from("é\n");
    expect(await copied([bytes.subarray(0, 1), bytes.subarray(1)])).toBe("> é\n");
  });
});
