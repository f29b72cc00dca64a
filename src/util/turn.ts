/** @module Lets the event loop turn. */

/** Resolves after pending events: timers, signals and sockets, which would wait for ever during a loop over promises alone. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === "function") setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}
