/** @module The output of a pod of Kubernetes, read as it grows. */
import { once } from "node:events";
import { type Readable, Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

/** Prints whole lines of a pod's output, each once. */
export class PodOutput {
  /** Resolves when the last reading has ended. */
  ended: Promise<void> = Promise.resolve();
  private readonly open: (sink: Writable) => Promise<unknown>;
  private readonly write: (text: string) => void;
  private readonly failed: (error: unknown) => void;
  private readonly decoder = new StringDecoder("utf8");
  private state: "waiting" | "reading" | "complete" = "waiting";
  /** Bytes that were read so far. */
  private seen = 0;
  /** The last line, which is not whole yet. */
  private pending = "";
  private failures = 0;

  /**
   * @param open pipes the output from its beginning to a stream
   * @param write takes whole lines
   * @param failed is told, once, that the output could not be opened
   */
  constructor(
    open: (sink: Writable) => Promise<unknown>,
    write: (text: string) => void,
    failed: (error: unknown) => void,
  ) {
    this.open = open;
    this.write = write;
    this.failed = failed;
  }

  /** Reads on, unless a reading is under way or has come to the output's end. A connection that breaks leaves the rest to the next call. */
  read(): void {
    if (this.state !== "waiting") return;
    this.state = "reading";
    this.ended = this.readOnce().then(
      () => {
        this.state = "complete";
        this.take(this.decoder.end());
        if (this.pending !== "") this.take("\n");
      },
      () => {
        this.state = "waiting";
      },
    );
  }

  private async readOnce(): Promise<void> {
    let known = this.seen;
    const sink = new Writable({
      write: (bytes: Buffer, _encoding, done) => {
        const fresh = bytes.subarray(Math.min(known, bytes.length));
        known -= bytes.length - fresh.length;
        this.seen += fresh.length;
        this.take(this.decoder.write(fresh));
        done();
      },
    });
    // A pipe does not hand errors on.
    sink.once("pipe", (source: Readable) => source.once("error", (error) => sink.destroy(error)));
    const finished = once(sink, "finish");
    finished.catch(() => {});
    try {
      await this.open(sink);
    } catch (error) {
      if (this.failures++ === 0) this.failed(error);
      throw error;
    }
    await finished;
  }

  /** Lines of two pods never mix; the worker has put its rank before them. */
  private take(text: string): void {
    const lines = (this.pending + text).split("\n");
    this.pending = lines.pop() ?? "";
    if (lines.length > 0) this.write(`${lines.join("\n")}\n`);
  }
}
