/** @module Virtual time, which jumps from event to event, for controllers and their tests. */

interface Event {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** A virtual clock. Events at one time run in the order in which they were scheduled. */
export class VirtualTime {
  private moment = 0;
  private scheduled = 0;
  private readonly events: Event[] = [];

  /** Seconds since the start. */
  get now(): number {
    return this.moment;
  }

  /** Schedules an event after a number of seconds. */
  after(seconds: number, run: () => void): void {
    const event = { at: this.moment + Math.max(0, seconds), order: this.scheduled++, run };
    // Searches from the end, since most events come last.
    let index = this.events.length;
    while (index > 0 && (this.events[index - 1] as Event).at > event.at) index--;
    this.events.splice(index, 0, event);
  }

  /** Runs all events, including those scheduled meanwhile. Throws when they do not end. */
  run(limit = 1_000_000): void {
    for (let count = 0; this.events.length > 0; count++) {
      if (count === limit) throw new RangeError(`${limit} events and no end`);
      const event = this.events.shift() as Event;
      this.moment = event.at;
      event.run();
    }
  }
}
