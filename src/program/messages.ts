/** @module The order in which devices that send each other messages go on. */

/** The device that a step sends a message to, or receives one from. */
export type Message = { readonly [kind in "send" | "receive"]?: number };

/**
 * Visits the steps of several devices, of each in order, and each receive after its send. Messages between two devices arrive in the
 * order of their sends. Steps behind a receive whose message is never sent are not visited.
 *
 * @param messages for each device, for each of its steps, its message; `{}` for none
 * @param visit gets for a receive what it has given for the send
 */
export function inMessageOrder<Sent>(
  messages: readonly (readonly Message[])[],
  visit: (device: number, index: number, sent: Sent | undefined) => Sent,
): void {
  const next = messages.map(() => 0);
  /** What is under way, by sender and receiver. */
  const mailboxes = messages.map(() => messages.map((): Sent[] => []));
  const advance = (device: number): boolean => {
    const index = next[device] as number;
    if (index === messages[device]?.length) return false;
    const { send, receive } = messages[device]?.[index] ?? {};
    const sent = receive === undefined ? undefined : mailboxes[receive]?.[device]?.shift();
    if (receive !== undefined && sent === undefined) return false;
    const made = visit(device, index, sent);
    if (send !== undefined) mailboxes[device]?.[send]?.push(made);
    next[device] = index + 1;
    return true;
  };
  for (let progress = true; progress; ) {
    progress = false;
    for (const device of messages.keys()) while (advance(device)) progress = true;
  }
}
