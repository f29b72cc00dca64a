/** Donated inputs of a quarter of the table's rows, and of all of attention. */
import { cases, describeDonations } from "./donation.ts";

/** A number that follows from the name alone, so that a row keeps its place when others come. */
const numberOf = (name: string): number =>
  [...name].reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) >>> 0, 7);

describeDonations(cases.filter(({ name }) => /attention/i.test(name) || numberOf(name) % 4 === 0));
