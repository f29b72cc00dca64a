/** Workers that compute on matrices of other sizes: the first program that they compute together names the fault. */
import { connect, rand } from "heddle/matrix";

const { rank } = await connect({ wholeBytes: 4096 });
console.log(
  await rand(5000 + rank, 4, { seed: 1 })
    .sum()
    .item(),
);
