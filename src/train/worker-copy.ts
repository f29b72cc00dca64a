/**
 * @module A worker's own copy of the parameters, which it trains between two exchanges with the servers: by the training's optimizer, with a
 * state of the worker's own, as a server of one worker would.
 */
import { elasticExchange } from "../consistency/index.ts";
import { type Bytes, joinedParams, joinedState, stateOf } from "../parameter-server/client.ts";
import { ShardState } from "../parameter-server/shard-state.ts";
import type { Shard } from "../parameter-server/shards.ts";
import { floats } from "../parameter-server/tables/row-lists.ts";
import type { Runtime } from "../runtime/devices.ts";

/** The parameters and optimizer state of one worker. */
export class WorkerCopy {
  private readonly shard: Shard;
  private readonly state: ShardState;
  private steps = 0;

  /** @param shard all parameters, with the training's optimizer */
  constructor(shard: Shard, runtime: Runtime) {
    this.shard = shard;
    this.state = new ShardState(JSON.stringify(shard), runtime);
  }

  /** Takes first values; the optimizer has made so many steps. */
  load(params: Bytes, slots: Bytes, steps: number): void {
    this.state.load(stateOf(this.shard, params, slots), steps);
  }

  /** One step of the optimizer. */
  async step(grads: Bytes, rates: readonly number[]): Promise<void> {
    const clock = this.steps++;
    const body = stateOf({ params: this.shard.params, slots: [] }, grads, new Map());
    this.state.push({ type: "push", shard: 0, client: 0, incarnation: 0, clock, rates }, body);
    await this.state.apply(clock, [{ type: "step", parts: [{ worker: 0, clock, weight: 1 }] }]);
  }

  /** Takes the parameters of the servers in the place of its own; the optimizer's state stays. */
  async adopt(params: Bytes): Promise<void> {
    await this.state.replace(stateOf({ params: this.shard.params, slots: [] }, params, new Map()));
  }

  async params(): Promise<Bytes> {
    const { parts } = await this.state.pull(this.steps);
    return joinedParams([this.shard], [parts[0] as Uint8Array]);
  }

  /** The optimizer's state. */
  async slots(): Promise<Bytes> {
    return joinedState([this.shard], [(await this.state.snapshot(this.steps, false)).bytes]).slots;
  }

  /**
   * Moves the copy towards the servers' parameters by a share of the distance, and gives as gradients what moves those towards the copy, at
   * a learning rate of 1.
   */
  async exchange(server: Bytes, share: number): Promise<Bytes> {
    const params = await this.params();
    const [moved, gradients] = [new Map<string, Uint8Array>(), new Map<string, Uint8Array>()];
    for (const { path, type } of this.shard.params) {
      const dtype = type.dtype === "f64" ? "f64" : "f32";
      const [own, others] = [params, server].map((values) => floats((values.get(path) as Uint8Array).slice(), dtype));
      const towards = elasticExchange(own as Float64Array, others as Float64Array, share).map((value) => -value);
      moved.set(path, bytesOfFloats(own as Float64Array));
      gradients.set(path, bytesOfFloats(towards));
    }
    await this.adopt(moved);
    return gradients;
  }

  close(): void {
    this.state.close();
  }
}

/** The sum of gradients. */
export function addedTo(sum: Bytes | undefined, grads: Bytes, dtype: "f32" | "f64"): Bytes {
  if (sum === undefined) return new Map([...grads].map(([path, bytes]) => [path, bytes.slice()]));
  for (const [path, bytes] of grads) {
    const [into, from] = [floats(sum.get(path) as Uint8Array, dtype), floats(bytes, dtype)];
    for (let index = 0; index < into.length; index++) into[index] = (into[index] as number) + (from[index] as number);
  }
  return sum;
}

const bytesOfFloats = ({ buffer, byteOffset, byteLength }: Float64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
