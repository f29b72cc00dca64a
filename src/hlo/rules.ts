/** @module The StableHLO rules of ops, in a table by op name. */
import { RuleTable, registerTarget } from "../ir/target.ts";
import type { HloRule } from "./block.ts";

/**
 * The spelling of each op; an op without a rule is spelled as its body. Where the meaning differs, docs/stablehlo.md says so.
 *
 * @example stablehloRules.define({ roll: ({ hlo, inputs, outputs, attrs }: HloContext<{ by: number }>) => [...] })
 */
export const stablehloRules: RuleTable<HloRule<never>> = registerTarget(new RuleTable<HloRule<never>>("stablehlo"));
