/** @module Time that passes only when nothing else is to be done: events in order, for controllers and their tests. */

interface Event {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock whose hours cost nothing. Events of one moment run in the order in which they were planned. */
export class VirtualTime {
  private moment = 0;
  private planned = 0;
  private readonly events: Event[] = [];

  /** Seconds since the beginning. */
  get now(): number {
    return this.moment;
  }

  /** Plans an event after so many seconds. */
  after(seconds: number, run: () => void): void {
    const event = { at: this.moment + Math.max(0, seconds), order: this.planned++, run };
    // From the end, as most events come last.
    let place = this.events.length;
    while (place > 0 && (this.events[place - 1] as Event).at > event.at) place--;
    this.events.splice(place, 0, event);
  }

  /** Runs all events, those planned on the way included. Throws when they do not end. */
  run(most = 1_000_000): void {
    for (let count = 0; this.events.length > 0; count++) {
      if (count === most) throw new RangeError(`${most} events and no end`);
      const event = this.events.shift() as Event;
      this.moment = event.at;
      event.run();
    }
  }
}
