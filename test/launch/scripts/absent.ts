/** Rank 1 ends without joining; the others wait for it. */
import { connect } from "heddle";

if (process.env["RANK"] !== "1") await connect();
