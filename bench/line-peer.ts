/** @module A peer that measures itself: a process that answers each line that it is sent by a line. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { root } from "./commands.ts";

/** A process that says `ready`, and then answers lines. Its error stream is this process's. */
export class LinePeer {
  readonly name: string;
  private readonly child: ChildProcess;
  private readonly lines: AsyncIterator<string>;

  constructor(name: string, command: string, args: readonly string[]) {
    this.name = name;
    this.child = spawn(command, args, { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
    process.once("exit", () => this.child.kill("SIGKILL"));
    this.lines = createInterface({ input: this.child.stdout as NodeJS.ReadableStream })[Symbol.asyncIterator]();
  }

  async ready(): Promise<void> {
    while ((await this.line()) !== "ready");
  }

  /** The answer to a line. */
  ask(question: string): Promise<string> {
    this.child.stdin?.write(`${question}\n`);
    return this.line();
  }

  end(): Promise<unknown> {
    this.child.stdin?.end();
    return new Promise((resolve) => (this.child.exitCode === null ? this.child.once("exit", resolve) : resolve(0)));
  }

  private async line(): Promise<string> {
    const { done, value } = await this.lines.next();
    if (done === true) throw new Error(`${this.name} ended`);
    return value;
  }
}
