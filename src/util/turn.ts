/** @module Letting the event loop turn. */

/** Resolves after the events that are there: timers, signals and sockets, which a loop over nothing but promises would keep waiting. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === "function") setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}
