/**
 * @module What a worker does under a policy by which it trains a copy of its own: local steps, and after so many of them a push, a fetch, or
 * an exchange that draws its copy and the servers' together.
 */
import type { WorkerRule } from "../consistency/index.ts";
import type { Bytes } from "../parameter-server/client.ts";
import { addedTo, type WorkerCopy } from "./worker-copy.ts";

/** How a worker reaches the servers. */
export interface Servers {
  /** Pushes gradients of so many rows, which ends a clock. */
  push(grads: Bytes, rates: readonly number[], rows: number): Promise<void>;
  /** The servers' parameters, with all that this worker has pushed. */
  pull(): Promise<Bytes>;
}

/** The steps of one worker. */
export class WorkerSteps {
  readonly copy: WorkerCopy;
  private readonly rule: WorkerRule;
  private readonly dtype: "f32" | "f64";
  private readonly servers: Servers;
  private sum: Bytes | undefined;
  private rates: readonly number[] = [];
  private rows = 0;
  /** Steps since the last push, and in all. */
  private pending = 0;
  private done = 0;

  constructor(rule: WorkerRule, copy: WorkerCopy, dtype: "f32" | "f64", servers: Servers) {
    this.rule = rule;
    this.copy = copy;
    this.dtype = dtype;
    this.servers = servers;
  }

  /** A step with these gradients, and what is due after it. Gives the parameters that the next step begins with. */
  async step(grads: Bytes, rates: readonly number[], rows: number): Promise<Bytes> {
    const { rule, copy } = this;
    await copy.step(grads, rates);
    if (rule.carries === "gradient") this.sum = addedTo(this.sum, grads, this.dtype);
    this.rates = rates;
    this.rows += rows;
    this.pending++;
    this.done++;
    if (this.pending === rule.pushEvery) await this.flush();
    if (rule.carries === "gradient" && this.done % rule.fetchEvery === 0) await copy.adopt(await this.servers.pull());
    return copy.params();
  }

  /** Pushes what the servers do not have. */
  async flush(): Promise<void> {
    const { rule, copy, servers, sum, rates, rows } = this;
    if (this.pending === 0) return;
    this.pending = this.rows = 0;
    this.sum = undefined;
    if (rule.carries === "gradient") return servers.push(sum as Bytes, rates, rows);
    // The learning rate of 1: what the servers are sent is what they add.
    await servers.push(await copy.exchange(await servers.pull(), rule.elasticity), [1], rows);
  }
}
