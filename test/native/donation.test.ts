/** Donated inputs of a quarter of the table's rows, and of all of attention. */
import { isSampled } from "../support/sample.ts";
import { cases, describeDonations } from "./donation.ts";

describeDonations(cases.filter(({ name }) => /attention/i.test(name) || isSampled(name)));
