/** Donated inputs of every row of the table. */
import { cases, describeDonations } from "./donation.ts";

describeDonations(cases);
