/** @module Parts of tables. `npm test` and `npm run test:processes` take a part of the longest ones, `npm run test:grids` the whole. */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** 1 where tables are run whole. */
    step: number;
  }
}

/** Whether tables are run whole. */
export const isWhole = (): boolean => inject("step") === 1;

/** Each `every`-th row, from `first` on, by the rows' order; all of them where tables are run whole. */
export const partOf = <Row>(rows: readonly Row[], every: number, first = 0): Row[] =>
  rows.filter((_row, index) => isWhole() || index % every === first % every);

/** About one name of four, by the name alone: new names do not change which of the others these are. */
export function isSampled(name: string): boolean {
  let hash = 0;
  for (const letter of name) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0;
  return (hash ^ (hash >>> 16)) % 4 === 0;
}
