/** @module The registry of consistency policies. */
import type { Policy } from "./policy.ts";
import { type SpecKind, Specs } from "./specs.ts";

const policies = new Specs<Policy>("policy", "registerPolicy");

/** A registered kind of policy. */
export type PolicyKind = SpecKind<Policy>;

/**
 * Adds a kind of policy, so that `--policy name` chooses it.
 *
 * @throws HeddleError `option` for a name that is taken, `argument` for a malformed kind
 */
export function registerPolicy(kind: PolicyKind): void {
  policies.add(kind);
}

/** All registered kinds, in the order in which they were registered. */
export const policyKinds = (): readonly PolicyKind[] => policies.kinds;

/**
 * The policy of a spec: `bsp`, `ssp:3`, `dssp:2:8`.
 *
 * @throws HeddleError `option` for an unknown name, and for numbers that the policy does not take
 */
export const policyNamed = (spec: string): Policy => policies.named(spec);
