/** Programs on matrices in blocks of equal size. Prints the bytes of their plans, and copies the native core's record of collectives to a file. */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { connect, evaluate, type Matrix, matrixPrograms, rand } from "heddle/matrix";

const { rank } = await connect({ wholeBytes: 4096 });
const x = rand(1024, 8, { seed: 1 });
const y = rand(1024, 40, { seed: 2 });
evaluate(x, y);
const programs: readonly (() => Matrix)[] = [
  () => x.T.matmul(x), // a sum, whole on each
  () => x.reshape(8, 1024), // blocks that become whole
  () => x.matmul(x.T.matmul(y)), // a sum between two products
  () => x.T.matmul(x.matmul(x.mean(0).T)), // two sums
];
for (const program of programs) evaluate(program());
const planned = matrixPrograms().flatMap(({ together }) => together?.bytes ?? []);
if (rank === 0) {
  copyFileSync(join(process.env["HEDDLE_RUN_DIR"] as string, "rank-0.flight"), process.argv[2] as string);
  console.log(`RESULT ${JSON.stringify(planned)}`);
}
