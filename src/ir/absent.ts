/** @module Fields of an op that do not apply. */

/** A field of an op that does not apply, with the reason. */
export interface Absent {
  readonly absent: string;
}

/** Marks a field of an op as not applying; `reason` is shown where somebody asks for it. */
export const absent = (reason: string): Absent => ({ absent: reason });

/** Whether a field of an op was marked by {@link absent}. */
export function isAbsent(rule: unknown): rule is Absent {
  return typeof rule === "object" && rule !== null && "absent" in rule;
}
