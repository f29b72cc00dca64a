/** @module The one cost model: from tasks that wait for one another, and a machine, to time and memory. */
import { type Machine, type Sending, sendSeconds, type Work, workSeconds } from "./machine.ts";

/** What a device does as one thing. */
export interface Task extends Work {
  /** Kernel calls: 0 for what is a part of another one's. */
  readonly calls: number;
  /** How often it is done, one time after the other. */
  readonly times: number;
  /** What it does on the links, if it communicates. */
  readonly sends?: Sending | undefined;
  /** Whether communication is beside computation; default: where it takes longer than to hand it over. */
  readonly beside?: boolean;
  /** Which one of several devices does it; default 0. */
  readonly device?: number;
  /** Tasks that it waits for, by their places in the list, which are before its own. */
  readonly after: readonly number[];
  /** Bytes that it makes, which stay until the last task that waits for it is done. */
  readonly makes: number;
  /** Whether they stay to the end. */
  readonly stays: boolean;
}

/** What one collective, or one message, costs in all its times. */
export interface Traffic extends Pick<Sending, "name" | "axis" | "label" | "values" | "payload"> {
  /** How often it runs: of a loop that a condition ends once. */
  readonly times: number;
  /** Bytes that the device sends, by the algorithm that the transport uses. */
  readonly sent: number;
  readonly seconds: number;
}

/** What one run costs on one device: of a loop all iterations (one where a condition ends it), of a branch the one with more arithmetic. */
export interface Cost extends Work {
  /** Bytes sent to other devices. */
  readonly sent: number;
  /** Predicted time of a run. Communication is beside computation where what follows does not wait for it, and it pays. */
  readonly seconds: number;
  /** The part of it that computes; and that on the links, which may be beside the other. */
  readonly computeSeconds: number;
  readonly communicationSeconds: number;
  /** Seconds of the longest chain of what waits for one another: no device is faster, whatever it does at once. */
  readonly depth: number;
  /** Most bytes at once: arguments, and values as they come and go in this order. Scratch of kernels is not in it. */
  readonly peak: number;
  /** In the order in which they begin. */
  readonly collectives: readonly Traffic[];
}

/** Seconds of a task that waits for nothing, done once. */
export const taskSeconds = (
  { sends, calls, ...work }: Pick<Task, "flops" | "bytes" | "calls" | "sends">,
  machine: Machine,
): number => (sends === undefined ? workSeconds(work, machine) + calls * machine.call : sendSeconds(sends, machine));

/** What tasks cost that each device takes up in this order, with what it sends beside the rest where that pays. */
export function costOfTasks(tasks: readonly Task[], machine: Machine): Cost {
  const total = { flops: 0, bytes: 0, sent: 0, computeSeconds: 0, communicationSeconds: 0 };
  const collectives: Traffic[] = [];
  /** When a task is done: on the device, and if it waited for nothing but the tasks before it. */
  const done: { readonly here: number; readonly alone: number }[] = [];
  /** Until when each device computes, and sends. */
  const busy = new Map<number, { computed: number; sent: number }>();
  let [seconds, depth] = [0, 0];
  for (const task of tasks) {
    const { flops, bytes, times, sends, after, device = 0 } = task;
    const lane = busy.get(device) ?? { computed: 0, sent: 0 };
    busy.set(device, lane);
    const once = taskSeconds(task, machine);
    const takes = times * once;
    total.flops += times * flops;
    total.bytes += times * bytes;
    if (sends === undefined) total.computeSeconds += takes;
    else {
      const { rounds: _rounds, bytes, ...named } = sends;
      collectives.push({ ...named, times, sent: times * bytes, seconds: takes });
      total.sent += times * bytes;
      total.communicationSeconds += takes;
    }
    const latest = (of: "here" | "alone"): number =>
      Math.max(0, ...after.map((index) => (done[index] as (typeof done)[number])[of]));
    const beside = sends !== undefined && (task.beside ?? once > 2 * machine.handover);
    const here = takes + Math.max(latest("here"), beside ? 0 : lane.computed, sends === undefined ? 0 : lane.sent);
    if (!beside) lane.computed = here;
    if (sends !== undefined) lane.sent = here;
    const alone = takes + latest("alone");
    done.push({ here, alone });
    seconds = Math.max(seconds, here);
    depth = Math.max(depth, alone);
  }
  return { ...total, seconds, depth, peak: peakOf(tasks), collectives };
}

/** Most bytes that are there at once. */
export function peakOf(tasks: readonly Task[]): number {
  const last = tasks.map(({ stays }, index) => (stays ? tasks.length : index));
  tasks.forEach(({ after }, index) => {
    for (const position of after) last[position] = Math.max(last[position] as number, index);
  });
  const ends = new Array<number>(tasks.length + 1).fill(0);
  tasks.forEach(({ makes }, index) => {
    ends[last[index] as number] = (ends[last[index] as number] as number) + makes;
  });
  let [live, most] = [0, 0];
  tasks.forEach(({ makes }, index) => {
    live += makes;
    most = Math.max(most, live);
    live -= ends[index] as number;
  });
  return most;
}
