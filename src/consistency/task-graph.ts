/**
 * @module Tasks and their dependencies (Li et al., OSDI 2014): sequential, eventual and bounded-delay consistency are edges of one graph. A
 * task starts when the tasks that it names are done, and all tasks more than `delay` before it.
 */
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";

/** Decides when tasks start. Tasks have numbers, in the order in which they are submitted, from 0. */
export class TaskGraph {
  private most: number;
  private next = 0;
  /** All tasks before it are done. */
  private allDone = 0;
  private readonly done = new Set<number>();
  private readonly running = new Set<number>();
  private readonly waiting = new Map<number, readonly number[]>();

  /** @param delay 0: one after another; Infinity: no task waits but for those that it names. @throws HeddleError `option` */
  constructor(delay: number) {
    this.most = checkDelay(delay);
  }

  /**
   * Adds a task. Returns its number, and the tasks that start now: none or this one.
   *
   * @param after tasks that are done before it starts
   * @throws HeddleError `argument` for a task that was not submitted
   */
  submit(after: readonly number[] = []): { readonly task: number; readonly started: readonly number[] } {
    const unknown = after.find((task) => !(Number.isInteger(task) && task >= 0 && task < this.next));
    if (unknown !== undefined) throw new HeddleError("argument", `there is no task ${shown(unknown)} to wait for`);
    const task = this.next++;
    this.waiting.set(task, after);
    return { task, started: this.start() };
  }

  /** A task is done. Returns the tasks that start because of this. @throws HeddleError `protocol` when it is not under way */
  finish(task: number): readonly number[] {
    if (!this.running.delete(task)) throw new HeddleError("protocol", `task ${shown(task)} ends, but is not under way`);
    this.done.add(task);
    while (this.done.delete(this.allDone)) this.allDone++;
    return this.start();
  }

  /** Goes on with another delay. Returns the tasks that start because of this. @throws HeddleError `option` */
  change(delay: number): readonly number[] {
    this.most = checkDelay(delay);
    return this.start();
  }

  private start(): readonly number[] {
    const started = [...this.waiting].filter(
      ([task, after]) => task - this.allDone <= this.most && after.every((other) => this.isDone(other)),
    );
    return started.map(([task]) => {
      this.waiting.delete(task);
      this.running.add(task);
      return task;
    });
  }

  private isDone(task: number): boolean {
    return task < this.allDone || this.done.has(task);
  }
}

function checkDelay(delay: number): number {
  if (delay === Infinity || (Number.isInteger(delay) && delay >= 0)) return delay;
  throw new HeddleError("option", `the delay must be a whole number of tasks or Infinity, got ${shown(delay)}`);
}
